// What the workers of a server share.
#ifndef FARLOOK_SERVER_SHARED_H_
#define FARLOOK_SERVER_SHARED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "server/commit_gate.h"
#include "server/counters.h"
#include "server/feed.h"
#include "server/partition_locks.h"
#include "server/places.h"
#include "server/roster.h"
#include "server/server_time.h"
#include "server/serving.h"
#include "server/users.h"

namespace farlook::server {

// Why clients are turned away while a server stops.
inline constexpr absl::string_view kShuttingDownReason = "the server is shutting down; try again when it is back";

// All that it points to outlives the workers.
struct Shared {
  // Connections of one worker that have yet to prove who they are: its share of half of the places, but one at least.
  // Each worker has its own bound, so that who fills one keeps nobody out of another.
  int64_t max_unproven() const { return std::max<int64_t>(1, places->max() / 2 / workers); }

  kv::Table* table = nullptr;
  PartitionLocks* locks = nullptr;
  const rdma::Clock* clock = nullptr;
  ServerTime time;
  uint64_t incarnation = 0;
  uint64_t max_value_bytes = kv::kDefaultMaxValueBytes;
  int workers = 1;
  int64_t hello_timeout_ns = 3'000'000'000;  // in which a client that has connected must say its Hello
  // In which one that must prove who it is must have done so; but no later than it must have said its Hello.
  int64_t proof_timeout_ns = 1'000'000'000;
  size_t max_kept_bytes = 128 << 10;  // for one connection; with more it is not listened to (Link::kept_bytes())
  Counters* counters = nullptr;       // null: there are none, and no room for any
  int64_t counter_patience_ns = 2'000'000'000;  // how long a connection may take to acknowledge deleted counters
  Places* places = nullptr;                     // for connections, of all workers
  Roster* roster = nullptr;                     // null: operators are told nothing
  uint32_t figures_ms = 0;                      // between two messages of a client's figures; 0: none are wanted
  int64_t slow_ns = 0;                          // of a request that is slow, and logged; 0: none is
  Users* users = nullptr;                       // null: whoever connects may read and write
  RecordSource* records = nullptr;              // of a group's primary, for its backups
  CommitGate* gate = nullptr;                   // of a group's member; null: there is no group
  Serving* serving = nullptr;                   // likewise
  // Answers what an operator asks of the group ("status", "handover"); may be empty. Any thread may call it.
  std::function<std::string(absl::string_view)> cluster;
  // The map of the cluster of which the group is one (kv::ClusterMap), as text; empty: it is not known yet; nothing:
  // there is no cluster. May be empty. Any thread may call it.
  std::function<std::optional<std::string>()> map;
  // Has all workers look at what there is; may be empty. Any thread may call it.
  std::function<void()> wake_workers;
  // Called when a connection is over and what it needed was freed; may be empty. Any thread may call it.
  std::function<void()> client_gone;
  // The text that answers kStat; the argument is the request's key. Any thread may call it.
  std::function<std::string(absl::string_view)> stat;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SHARED_H_
