// The options of a group's server, and the parts of the process that the group works with.
#ifndef FARLOOK_SERVER_GROUP_GROUP_PARTS_H_
#define FARLOOK_SERVER_GROUP_GROUP_PARTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "cluster/table_layout.h"
#include "kv/table/table.h"
#include "kv/wire/cluster_map.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "server/base/partition_locks.h"
#include "server/base/server_time.h"
#include "server/group/cluster_watch.h"
#include "server/group/join_rules.h"
#include "server/replication/commit_gate.h"
#include "server/worker/worker.h"

namespace farlook::server {

struct GroupOptions {
  std::string name;
  // Opens the directory that keeps the record. Each thread has a directory of its own.
  ClusterWatch::OpenDirectory open_directory;
  // Returns whether that member's process has certainly ended. Empty: this cannot be known.
  std::function<absl::StatusOr<bool>(uint64_t member)> has_ended;
  uint64_t incarnation = 0;
  cluster::TableLayout layout = {};  // of the tables of a group that this server begins
  cluster::Limits limits = {};       // of this server's table
  // Checks whether this server can have a table of the layout that the group or its cluster has.
  std::function<absl::Status(cluster::TableLayout)> accepts = [](cluster::TableLayout) { return absl::OkStatus(); };
  // The last epoch of the lost members. If set, this server begins the group again, with an empty table. 0: never.
  uint64_t begin_anew = 0;
  // The user as which this server follows others that have --users. The secret is read for each connection.
  std::string user = {};
  std::function<std::string()> secret = {};
  JoinRules::UsersDigest users_digest = {};            // of its --users; empty: every client is accepted
  absl::Duration suspicion = absl::Milliseconds(300);  // silence of the primary until a backup replaces it
  absl::Duration lease = absl::Milliseconds(150);      // of a group that this server begins
  uint32_t replicas = 2, min_insync = 1;               // of a group that this server begins
  // For a group that this server begins: its cluster, its slots, and the hash seed if the cluster is empty. For an
  // existing group: the cluster that it must be in. Empty: no cluster, or any.
  std::string cluster = {};
  kv::SlotSet slots = {};
  uint64_t hash_seed = 0;
};

// All that is referred to outlives the group.
struct GroupParts {
  kv::Table* table = nullptr;
  PartitionLocks* locks = nullptr;
  const rdma::Clock* clock = nullptr;
  ServerTime time;
  int64_t spin_ns = 0;  // time without work before a backup's thread sleeps
  CommitGate* gate = nullptr;
  uint64_t hash_seed = 0;
  std::string address;  // this server's address for clients
  std::vector<Worker*> workers;
  // Creates an endpoint through which this server follows another one.
  std::function<absl::StatusOr<std::unique_ptr<rdma::Endpoint>>(absl::string_view address)> create_endpoint;
  // Ends this process' part in the group and restarts the process. Called on the group's thread.
  std::function<void()> deposed;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_GROUP_PARTS_H_
