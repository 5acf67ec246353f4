// A directory in etcd, through its JSON gateway (etcd 3.4 and later: /v3/kv/range, /v3/kv/txn, /v3/watch). One key for
// each record.
//
// gRPC would need protobuf, c-ares, re2 and generated code for three calls. A stopped member accepts connections and
// answers none of them. So each request has its own time limit, and the next one uses the next endpoint. Where there
// are several endpoints the limit is a few times what the last answer took: a slow member costs little.
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
  absl::Duration watch_turn = absl::Seconds(2);  // time for which Wait() watches at one endpoint before it asks the
                                                 // next
  uint64_t cluster_id = 0;                       // of etcd; 0: that of the first answer
};

// Get() takes at most one time limit for each endpoint, and two more; Cas() two for each.
class EtcdDirectory final : public Directory {
 public:
  // Sends nothing yet. INVALID_ARGUMENT: there is no endpoint, or one is no URL.
  static absl::StatusOr<std::unique_ptr<EtcdDirectory>> Create(EtcdOptions options);

  absl::StatusOr<Entry> Get(absl::string_view name, Freshness freshness) override;
  CasResult Cas(absl::string_view name, uint64_t expected, absl::string_view value) override;
  absl::StatusOr<Entry> Wait(absl::string_view name, uint64_t after, absl::Duration timeout) override;
  void Interrupt() override { http_.Interrupt(); }

  uint64_t cluster_id() const { return cluster_id_; }

 private:
  struct Reply;
  // The time for which the answers to one kind of request are awaited: at least `least`, at most EtcdOptions::timeout.
  struct Patience {
    absl::Duration least;
    absl::Duration now;
  };
  static constexpr absl::Duration kLeastForAnswer = absl::Milliseconds(150);
  static constexpr absl::Duration kLeastForSwap = absl::Milliseconds(400);  // etcd writes to a disk
  // The limit of a request, in times of the last answer.
  static constexpr int kTimesTheLast = 4;

  explicit EtcdDirectory(EtcdOptions options)
      : options_(std::move(options)),
        cluster_id_(options_.cluster_id),
        compares_(options_.endpoints.size()),
        for_answer_{kLeastForAnswer, options_.timeout},
        for_swap_{kLeastForSwap, options_.timeout} {}

  // Posts to the present endpoint. `is_latest`: only a member with a quorum can answer the request.
  Reply Post(absl::string_view path, absl::string_view json, bool is_latest, Patience* patience);
  void NextEndpoint() { endpoint_ = (endpoint_ + 1) % options_.endpoints.size(); }
  // Checks the cluster's id and revision in an answer.
  absl::Status CheckHeader(absl::string_view body, bool is_latest);
  // Checks that the present endpoint belongs to this cluster, and evaluates comparisons: if a field name were misspelt,
  // it would be ignored, and every compare-and-swap would succeed.
  absl::Status CheckThatItCompares();
  // Returns when `name` may have changed since the last answer, or after `turn`.
  void Listen(absl::string_view name, absl::Duration turn);

  const EtcdOptions options_;
  Http http_;
  size_t endpoint_ = 0;
  uint64_t cluster_id_;
  uint64_t revision_ = 0;       // of the whole etcd, the highest seen
  absl::Status lost_;           // etcd returned to a former state: its answers are no longer trusted
  std::vector<bool> compares_;  // for each endpoint: it evaluates comparisons
  Patience for_answer_, for_swap_;
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_ETCD_DIRECTORY_H_
