// The text that answers kStat: one "name value" a line. docs/operations.md lists the names.
#ifndef FARLOOK_SERVER_DAEMON_STAT_TEXT_H_
#define FARLOOK_SERVER_DAEMON_STAT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "kv/table/table.h"
#include "server/base/worker_stats.h"
#include "server/counters/counters.h"
#include "server/group/group_figures.h"

namespace farlook::server {

// The beginning of the server's table.
struct RestartFacts {
  std::string kind = "cold";  // empty; "warm": what a former process left in --memory_file
  int64_t ms = 0;             // that continuing the table took, since its file was opened
  uint64_t keys = 0;          // that it had then
};

// Facts that do not change while a server runs.
struct ServerFacts {
  std::string version;
  uint64_t incarnation = 0;
  RestartFacts restart;
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
  std::vector<std::string> bound;  // for each address, the network's own addresses; empty on shm

  // Only for the log.
  int workers = 0;
  uint64_t memory_bytes = 0;
  std::string memory_advice;  // if not empty: how to get larger pages
  uint64_t cell_bytes = 0;    // 0: no counters
  std::string atomics;        // see CellDomain::name
};

struct ServerMoment {
  double uptime_s = 0;
  double cpu_user_s = 0;  // of the process
  double cpu_system_s = 0;
  bool draining = false;  // it was asked to end
  uint64_t rejected = 0;  // clients rejected before they reached a worker
  uint64_t dropped = 0;   // connections closed by a transport because the client broke its protocol
  uint64_t dropped_log_lines = 0;
  // READs that this process answered for clients, where no adapter or client executes them (tcp).
  uint64_t served_reads = 0;
  uint64_t served_read_bytes = 0;
  double served_read_cpu_s = 0;
  CounterStats counters;
  GroupFigures group;
};

// Order of those groups of lines that appear while the server runs: each new one is appended. So a client that reads
// page after page (kStat's "@N") misses no line and sees none twice.
class StatOrder {
 public:
  // Returns the groups that have appeared by now: those returned before, then the new ones of `present`, ascending.
  std::vector<size_t> Add(const std::vector<size_t>& present) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  std::vector<size_t> groups_ ABSL_GUARDED_BY(mutex_);
};

// Returns the figures of this process; the rest is zero.
ServerMoment MomentNow(int64_t uptime_ns);

// Returns the lines whose names start with `prefix`. All calls of a server must use one `order`.
std::string StatText(const ServerFacts& facts, const ServerMoment& moment, const kv::TableStats& table,
                     const std::vector<const WorkerStats*>& workers, absl::string_view prefix, StatOrder* order);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_STAT_TEXT_H_
