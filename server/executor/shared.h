// State and options that the workers of a server share.
#ifndef FARLOOK_SERVER_EXECUTOR_SHARED_H_
#define FARLOOK_SERVER_EXECUTOR_SHARED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kv/table/table.h"
#include "kv/wire/handshake.h"
#include "rdma/clock.h"
#include "server/base/partition_locks.h"
#include "server/base/server_time.h"
#include "server/counters/counters.h"
#include "server/replication/commit_gate.h"
#include "server/replication/replication_feed.h"
#include "server/replication/serving.h"
#include "server/session/connection_list.h"
#include "server/session/connection_quota.h"
#include "server/session/users.h"

namespace farlook::server {

// Text of refusals while a server shuts down.
inline constexpr absl::string_view kShuttingDownReason = "the server is shutting down; try again when it is back";

// All objects that it points to outlive the workers.
struct Shared {
  // Limit of unauthenticated connections of one worker: its share of half of the places, at least one. Each worker has
  // its own limit, so clients that exhaust one do not block those of other workers.
  int64_t max_unproven() const { return std::max<int64_t>(1, quota->max() / 2 / workers); }

  kv::Table* table = nullptr;
  PartitionLocks* locks = nullptr;
  const rdma::Clock* clock = nullptr;
  ServerTime time;
  uint64_t incarnation = 0;
  uint64_t max_value_bytes = kv::kDefaultMaxValueBytes;
  int workers = 1;
  int64_t hello_timeout_ns = 3'000'000'000;  // for a client to send its Hello after connecting
  // Time for authentication, in addition to the limit for the Hello: the earlier of both applies.
  int64_t proof_timeout_ns = 1'000'000'000;
  size_t max_kept_bytes = 128 << 10;  // for one connection; with more it receives nothing (Link::kept_bytes())
  Counters* counters = nullptr;       // null: there are none, and no memory for any
  int64_t counter_patience_ns = 2'000'000'000;  // time for a connection to acknowledge deleted counters
  ConnectionQuota* quota = nullptr;             // limits the connections of all workers
  ConnectionList* connections = nullptr;        // null: operators get no list
  uint32_t figures_ms = 0;                      // between two reports of a client's figures; 0: clients send none
  int64_t slow_ns = 0;                          // duration from which a request is slow and logged; 0: none is
  Users* users = nullptr;                       // null: all clients may read and write
  RecordSource* records = nullptr;              // of a group's primary, for its backups
  CommitGate* gate = nullptr;                   // of a group's member; null: there is no group
  Serving* serving = nullptr;                   // likewise
  // Answers an operator's command to the group ("status", "handover"); may be empty. Any thread may call it.
  std::function<std::string(absl::string_view)> cluster;
  // Returns the map of the group's cluster (kv::ClusterMap) as text; empty if it is not known yet; nullopt if there is
  // no cluster. May be empty. Any thread may call it.
  std::function<std::optional<std::string>()> map;
  // Returns whether a server may join the group as a backup: see JoinRules. May be empty. Any thread may call it.
  std::function<absl::Status(const kv::Follow&)> may_join;
  // Wakes all workers; may be empty. Any thread may call it.
  std::function<void()> wake_workers;
  // Called when a connection has closed and its resources are freed; may be empty. Any thread may call it.
  std::function<void()> client_gone;
  // Returns the reply to a kStat; the argument is the request's key. Any thread may call it.
  std::function<std::string(absl::string_view)> stat;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_EXECUTOR_SHARED_H_
