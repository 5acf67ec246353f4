// The text that answers kStat: one "name value" a line. docs/operations.md lists the names.
#ifndef FARLOOK_SERVER_STAT_TEXT_H_
#define FARLOOK_SERVER_STAT_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kv/table.h"
#include "server/counters.h"
#include "server/worker_stats.h"

namespace farlook::server {

// What does not change while a server runs.
struct ServerFacts {
  std::string version;
  uint64_t incarnation = 0;
  uint64_t page_bytes = 0;
  std::string huge_pages;
  int numa_node = -1;  // -1: not bound
  int partitions = 0;
  uint64_t max_value_bytes = 0;
  uint32_t window = 0;
  int64_t max_clients = 0;
  bool evict = false;
  bool client_figures = false;
  std::vector<std::string> addresses;

  // For the log alone.
  int workers = 0;
  uint64_t memory_bytes = 0;
  std::string memory_advice;  // not empty: how to get larger pages
  uint64_t cell_bytes = 0;    // 0: no counters
  std::string atomics;        // see CellDomain::name
};

struct ServerMoment {
  double uptime_s = 0;
  double cpu_user_s = 0;  // of the process
  double cpu_system_s = 0;
  uint64_t rejected = 0;  // clients turned away before they came to a worker
  uint64_t dropped_log_lines = 0;
  CounterStats counters;
};

// What the process says of itself; the rest is zero.
ServerMoment MomentNow(int64_t uptime_ns);

// The lines whose names start with `prefix`.
std::string StatText(const ServerFacts& facts, const ServerMoment& moment, const kv::TableStats& table,
                     const std::vector<const WorkerStats*>& workers, absl::string_view prefix);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_STAT_TEXT_H_
