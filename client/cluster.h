// Clusters as a client sees them: how one is named, and the map that its servers have.
#ifndef FARLOOK_CLIENT_CLUSTER_H_
#define FARLOOK_CLIENT_CLUSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/client_impl.h"
#include "client/core.h"
#include "kv/cluster_map.h"

namespace farlook::client {

// "farlook://SEED,SEED/NAME". A seed is any server of the cluster: "host:port", by rdma or else tcp, or the path of a
// socket on this host.
struct ClusterAddress {
  std::vector<std::string> seeds = {};  // as addresses of servers
  std::string name = {};

  // No seeds: it is no such address, and may be a server's. INVALID_ARGUMENT: it is one that makes no sense.
  static absl::StatusOr<ClusterAddress> Parse(absl::string_view text);
};

// Asks the server to which `core` is connected, in this time. FAILED_PRECONDITION: it is of no cluster. UNAVAILABLE: it
// has none yet, or has just changed it.
absl::StatusOr<kv::ClusterMap> AskMap(ClientImpl* impl, ClientCore* core, int64_t timeout_ms);

// UNAVAILABLE: a slot has no group yet, or its group has no server; in words for operators.
absl::Status CheckComplete(const kv::ClusterMap& map);

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CLUSTER_H_
