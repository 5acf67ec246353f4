// Clusters in the client: their addresses, and the map that their servers have.
#ifndef FARLOOK_CLIENT_API_CLUSTER_H_
#define FARLOOK_CLIENT_API_CLUSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/api/client_impl.h"
#include "client/core/core.h"
#include "kv/wire/cluster_map.h"

namespace farlook::client {

// "farlook://SEED,SEED/NAME". A seed is any server of the cluster: "host:port", by rdma or else tcp, or the path of a
// socket on this host.
struct ClusterAddress {
  std::vector<std::string> seeds = {};  // as addresses of servers
  std::string name = {};

  // Returns no seeds if it is no cluster's address; it may be a server's. INVALID_ARGUMENT: a malformed address of a
  // cluster.
  static absl::StatusOr<ClusterAddress> Parse(absl::string_view text);
};

// Asks the server to which `core` is connected for its map. FAILED_PRECONDITION: it is in no cluster. UNAVAILABLE: it
// has none yet, or has just changed it.
absl::StatusOr<kv::ClusterMap> AskMap(ClientImpl* impl, ClientCore* core, int64_t timeout_ms);

// UNAVAILABLE: a slot has no group yet, or its group has no server; the message is for operators.
absl::Status CheckComplete(const kv::ClusterMap& map);

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_API_CLUSTER_H_
