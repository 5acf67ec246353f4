// The options of a server: the flags of kv_server, as values.
#ifndef FARLOOK_SERVER_DAEMON_SERVER_OPTIONS_H_
#define FARLOOK_SERVER_DAEMON_SERVER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kv/layout/limits.h"
#include "rdma/shared_memory.h"

namespace farlook::server {

// An operator's request that this server begins its group again, which is lost.
struct BeginGroupAnew {
  uint64_t epoch = 0;      // of the lost group; 0: the server does not begin it
  bool from_copy = false;  // a running server that keeps a copy begins it; a server that starts has none
};

// A file that keeps the table when the process ends (table_memory.h).
struct MemoryFileOptions {
  std::string path;          // empty: none
  bool begin_empty = false;  // a table that is there is discarded
};

// The files of shm:// addresses.
struct SocketFiles {
  int mode = -1;      // -1: by the umask
  std::string group;  // by name or number; empty: this process'
};

struct ServerOptions {
  std::vector<std::string> listen;  // at least one: "shm:///path"
  uint64_t memory_bytes = 1ull << 30;
  rdma::HugePages huge_pages = rdma::HugePages::kAuto;
  bool dump_table = false;  // core dumps of the server hold keys, values and counters
  MemoryFileOptions memory_file;
  bool evict = false;  // a cache: when the memory is full, items are evicted unless put to be kept
  uint64_t counter_memory_bytes = 16ull << 20;  // for cells of counters, 64 bytes each; 0: no counters
  int64_t counter_patience_ms = 2000;           // for acknowledging deleted counters; then disconnected
  int numa_node = -1;                           // -1: the device's, or any node if the kernel does not report that
  int workers = 1;                              // threads, 1 .. 64
  uint64_t hash_seed = 0;  // of keys' hashes and items' checksums; 0: random, so that hashes cannot be predicted
  uint64_t max_value_bytes = kv::kDefaultMaxValueBytes;
  uint32_t window = kv::kDefaultWindow;    // requests that a client may have without a reply
  int64_t max_clients = 1024;              // connections at once
  size_t max_kept_sessions = 4096;         // of disconnected clients
  int64_t keep_sessions_ms = 10 * 60'000;  // longest time for which a session is kept
  bool client_figures = false;             // clients are asked to report figures of their gets
  int64_t slow_ms = 0;                     // duration from which a request is logged; 0: none is logged
  int64_t spin_us = 20;                    // time without work before a worker sleeps
  int64_t drain_timeout_ms = 2000;         // for Stop()
  std::string users;                       // file of users; empty: every client is accepted
  SocketFiles socket_files;
  int64_t liveness_ms = 3000;       // time in which a silently lost client is noticed (rdma, tcp)
  std::string group;                // location of its group's record (group_url.h); empty: it has no group
  std::string group_user;           // user of `users` as which it follows others of its group; empty: none
  BeginGroupAnew begin_group_anew;  // see docs/cluster.md
  int64_t suspicion_ms = 300;       // silence of the group's primary after which a backup takes over
  int64_t lease_ms = 150;           // of the group (docs/cluster.md), if this server begins it
  int64_t replicas = 2;             // the same: the number of members that it should have
  int64_t min_insync = 1;           // the same: with fewer members no write is acknowledged
  std::string cluster;              // cluster of its group; empty: none, or as in the group's record
  std::string slots;                // of a group that this server begins; see kv::ParseSlots
  // For a member of a group: its part in the group has ended, and this process must restart. Called by another thread.
  std::function<void()> deposed;
};

// INVALID_ARGUMENT: an invalid option; the message names the flag of kv_server. Checks nothing but the options.
absl::Status CheckOptions(const ServerOptions& options);

// Returns the number of partitions of such a server's table, unless its group has begun already. It is a power of two,
// and more than one if there are several workers, or a cluster.
int PartitionsFor(const ServerOptions& options);

// INVALID_ARGUMENT: the memory is too small for a table with this number of partitions, which its group has.
absl::Status CheckPartitions(const ServerOptions& options, int partitions);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_SERVER_OPTIONS_H_
