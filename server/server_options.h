// What may be chosen for a server: the flags of kv_server, as values.
#ifndef FARLOOK_SERVER_SERVER_OPTIONS_H_
#define FARLOOK_SERVER_SERVER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kv/limits.h"
#include "rdma/shared_memory.h"

namespace farlook::server {

struct ServerOptions {
  std::vector<std::string> listen;  // at least one: "shm:///path"
  uint64_t memory_bytes = 1ull << 30;
  rdma::HugePages huge_pages = rdma::HugePages::kAuto;
  bool evict = false;  // a cache: when the memory is full, items go that were not put to be kept
  uint64_t counter_memory_bytes = 16ull << 20;  // for cells of counters, 64 bytes each; 0: no counters
  int64_t counter_patience_ms = 2000;  // before a client that does not acknowledge deleted counters is disconnected
  int numa_node = -1;                  // -1: the device's; where the kernel does not tell that either, any node
  int workers = 1;                     // threads, 1 .. 64
  uint64_t hash_seed = 0;  // of keys' hashes and items' checksums; 0: random, so that nobody can choose hashes
  uint64_t max_value_bytes = kv::kDefaultMaxValueBytes;
  uint32_t window = kv::kDefaultWindow;    // requests that a client may have without a reply
  int64_t max_clients = 1024;              // connections at once
  size_t max_kept_sessions = 4096;         // of clients that are gone
  int64_t keep_sessions_ms = 10 * 60'000;  // for how long at most
  bool client_figures = false;             // clients are asked to tell of their gets
  int64_t slow_ms = 0;                     // of a request that is logged; 0: none is
  int64_t spin_us = 20;                    // without work before a worker sleeps
  int64_t drain_timeout_ms = 2000;         // for Stop()
  std::string users;                       // file of those who may come; empty: everybody
  int socket_mode = -1;                    // of the files of shm:// addresses; -1: as the umask has it
  std::string socket_group;                // likewise, by name or number; empty: this process'
  int64_t liveness_ms = 3000;              // in which a client that is silently gone is noticed (rdma, tcp)
  std::string group;                       // where the record of its group is (group_url.h); empty: it is in none
  std::string group_user;                  // of `users`: as whom it follows others of its group; empty: as nobody
  uint64_t begin_group_anew = 0;           // the epoch of a group that is lost (docs/cluster.md); 0: none
  int64_t suspicion_ms = 300;              // without a word of the group's primary a backup takes its place
  int64_t lease_ms = 150;                  // of the group (docs/cluster.md), where this server begins it
  int64_t replicas = 2;                    // likewise: as many members as it should have
  int64_t min_insync = 1;                  // likewise: with fewer no write is acknowledged
  std::string cluster;                     // of which its group is one; empty: of none, or as the group's record has it
  std::string slots;                       // of a group that this server begins, as of kv::ParseSlots
  // Of a group's member: its part in the group has ended, and this process is to begin anew. Called by another thread.
  std::function<void()> deposed;
};

// INVALID_ARGUMENT: an option that no server could have; the message names the flag of kv_server. Looks at nothing but
// the options.
absl::Status CheckOptions(const ServerOptions& options);

// How many partitions such a server's table has, unless its group has begun: a power of two, more than one where there
// are several workers, or a cluster.
int PartitionsFor(const ServerOptions& options);

// INVALID_ARGUMENT: the memory is too little for a table of so many, which its group has.
absl::Status CheckPartitions(const ServerOptions& options, int partitions);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SERVER_OPTIONS_H_
