// The text that answers kStat: one "name value" a line. docs/operations.md lists the names.
#ifndef FARLOOK_SERVER_STAT_TEXT_H_
#define FARLOOK_SERVER_STAT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
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

// Of its group, as this server knows it.
struct GroupFigures {
  uint64_t replicas = 0;  // that there should be; 0: it is in no group
  uint64_t members = 0, min_insync = 0;
  uint64_t removed_backups = 0;  // by this server, as primary
  bool is_in_cluster = false;
  uint64_t cluster_groups = 0;  // of the map; 0: a server that does not serve may not know it
  uint64_t cluster_moves = 0;   // of slots from or to the group, that are under way
  uint64_t cluster_slots = 0;   // that are the group's own
};

struct ServerMoment {
  double uptime_s = 0;
  double cpu_user_s = 0;  // of the process
  double cpu_system_s = 0;
  bool draining = false;  // it was asked to end
  uint64_t rejected = 0;  // clients turned away before they came to a worker
  uint64_t dropped_log_lines = 0;
  // READs that this process answered for clients, where no adapter or client does it (tcp).
  uint64_t served_reads = 0;
  uint64_t served_read_bytes = 0;
  double served_read_cpu_s = 0;
  CounterStats counters;
  GroupFigures group;
};

// Groups of lines that are there from some moment on, in the order in which they came: each after all that was there
// before, so that who asks for one page after the other (kStat's "@N") misses no line and sees none twice.
//
// Thread safety: any thread.
class StatOrder {
 public:
  // Those that have come by now: what was told before, and of `present` what is new, ascending.
  std::vector<size_t> Add(const std::vector<size_t>& present) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  std::vector<size_t> groups_ ABSL_GUARDED_BY(mutex_);
};

// What the process says of itself; the rest is zero.
ServerMoment MomentNow(int64_t uptime_ns);

// The lines whose names start with `prefix`. One order for all calls of a server.
std::string StatText(const ServerFacts& facts, const ServerMoment& moment, const kv::TableStats& table,
                     const std::vector<const WorkerStats*>& workers, absl::string_view prefix, StatOrder* order);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_STAT_TEXT_H_
