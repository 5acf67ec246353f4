// What the workers of a server share.
#ifndef FARLOOK_SERVER_SHARED_H_
#define FARLOOK_SERVER_SHARED_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "server/counters.h"
#include "server/partition_locks.h"
#include "server/server_time.h"

namespace farlook::server {

// Why clients are turned away while a server stops.
inline constexpr absl::string_view kShuttingDownReason = "the server is shutting down; try again when it is back";

// All that it points to outlives the workers.
struct Shared {
  kv::Table* table = nullptr;
  PartitionLocks* locks = nullptr;
  const rdma::Clock* clock = nullptr;
  ServerTime time;
  uint64_t incarnation = 0;
  uint64_t max_value_bytes = kv::kDefaultMaxValueBytes;
  int64_t max_clients = 1024;
  int workers = 1;
  int64_t hello_timeout_ns = 3'000'000'000;     // in which a client that has connected must say its Hello
  Counters* counters = nullptr;                 // null: there are none, and no room for any
  int64_t counter_patience_ns = 2'000'000'000;  // how long a connection may take to acknowledge deleted counters
  std::atomic<int64_t>* clients = nullptr;      // connections, of all workers
  // The text that answers kStat; the argument is the request's key. Any thread may call it.
  std::function<std::string(absl::string_view)> stat;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SHARED_H_
