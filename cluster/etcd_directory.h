// A directory in etcd, by its gateway for JSON (etcd 3.4 and later: /v3/kv/range, /v3/kv/txn, /v3/watch). One key for
// each record.
//
// Why not gRPC: protobuf, c-ares, re2 and generated code for three calls. Why each request has a time limit of its own
// and the next one goes to the next endpoint: a member that was stopped accepts connections and answers none of them.
#ifndef FARLOOK_CLUSTER_ETCD_DIRECTORY_H_
#define FARLOOK_CLUSTER_ETCD_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cluster/directory.h"
#include "cluster/http.h"

namespace farlook::cluster {

struct EtcdOptions {
  std::vector<std::string> endpoints;            // "http://host:port" of the members
  std::string prefix = "farlook/";               // of keys
  absl::Duration timeout = absl::Seconds(1);     // of one request to one endpoint
  absl::Duration watch_turn = absl::Seconds(2);  // how long Wait() listens to one endpoint before it asks the next
  uint64_t cluster_id = 0;                       // of etcd, 0: that of the first answer
};

// Get() takes at most one time limit for each endpoint, Cas() two.
class EtcdDirectory final : public Directory {
 public:
  // Sends nothing yet. INVALID_ARGUMENT: there is no endpoint, or one is no URL.
  static absl::StatusOr<std::unique_ptr<EtcdDirectory>> Create(EtcdOptions options);

  absl::StatusOr<Entry> Get(absl::string_view name, Freshness freshness) override;
  CasResult Cas(absl::string_view name, uint64_t expected, absl::string_view value) override;
  absl::StatusOr<Entry> Wait(absl::string_view name, uint64_t after, absl::Duration timeout) override;

  uint64_t cluster_id() const { return cluster_id_; }

 private:
  struct Reply;

  explicit EtcdDirectory(EtcdOptions options)
      : options_(std::move(options)), cluster_id_(options_.cluster_id), compares_(options_.endpoints.size()) {}

  // Posts to the present endpoint. `is_latest`: only a member with a quorum can answer that.
  Reply Post(absl::string_view path, absl::string_view json, bool is_latest);
  void NextEndpoint() { endpoint_ = (endpoint_ + 1) % options_.endpoints.size(); }
  // What an answer says of the cluster.
  absl::Status CheckHeader(absl::string_view body, bool is_latest);
  // That the present endpoint is of this cluster, and compares: a misspelt field would be ignored, and every
  // compare-and-swap would succeed.
  absl::Status CheckThatItCompares();
  // Returns when `name` may have changed since the last answer, or after `turn`.
  void Listen(absl::string_view name, absl::Duration turn);

  const EtcdOptions options_;
  Http http_;
  size_t endpoint_ = 0;
  uint64_t cluster_id_;
  uint64_t revision_ = 0;       // of the whole of etcd, the highest that was seen
  absl::Status lost_;           // etcd went back: nothing that it says is believed any more
  std::vector<bool> compares_;  // of each endpoint
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_ETCD_DIRECTORY_H_
