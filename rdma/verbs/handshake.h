// How a connection comes to be, on either side: what is said with the connection manager until both know what they
// agree on. Whoever asked for it goes on from there (live_connection.h).
#ifndef FARLOOK_RDMA_VERBS_HANDSHAKE_H_
#define FARLOOK_RDMA_VERBS_HANDSHAKE_H_

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/transport.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/endpoint_device.h"
#include "rdma/verbs/envelope.h"
#include "rdma/verbs/negotiation.h"
#include "rdma/verbs/pair.h"

namespace farlook::rdma::verbs {

// What a client gets.
struct Terms {
  bool atomics = false;
  bool withhold = false;  // all of it, before QueuePair::Grant()
};

// What the two sides agreed on.
struct Agreement {
  QueuePlan plan;
  Envelope peer;  // what it said of itself
  Capabilities capabilities;
};

// A client's. Thread safety: none. Device and pair outlive it.
class Dialing {
 public:
  // To `remote`, which errors call `address`. `pair`, which is empty, becomes the queue pair.
  Dialing(EndpointDevice* device, Pair* pair, std::string address, const SocketAddress& remote, absl::string_view hello,
          int64_t timeout_ms, int64_t deadline_ns)
      : device_(device),
        pair_(pair),
        address_(std::move(address)),
        remote_(remote),
        hello_(hello),
        timeout_ms_(timeout_ms),
        deadline_ns_(deadline_ns) {}

  // An error, here and below, is the end of it.
  absl::Status Begin(rdma_event_channel* channel, void* context);
  absl::Status OnEvent(const rdma_cm_event& event);
  absl::Status TimedOut() const;
  int64_t deadline_ns() const { return deadline_ns_; }

  // Once the server accepted, and the queue pair is ready; and what it sent with that.
  const std::optional<Agreement>& agreement() const { return agreement_; }
  const std::string& welcome() const { return welcome_; }

  // The way to the server does not lead through the device any more.
  bool device_unfit() const { return device_unfit_; }

 private:
  const Device& device() const { return device_->device(); }
  absl::Status ResolveAddress();
  absl::Status OnAddress();
  absl::Status OnRoute();
  absl::Status OnAnswer(const rdma_cm_event& event);
  absl::Status Rejected(const rdma_cm_event& event) const;

  EndpointDevice* const device_;
  Pair* const pair_;
  const std::string address_;
  const SocketAddress remote_;
  const std::string hello_;
  const int64_t timeout_ms_;
  const int64_t deadline_ns_;
  QueuePlan plan_;
  std::string welcome_;
  std::optional<Agreement> agreement_;
  bool device_unfit_ = false;
};

// A server's: accepts the client behind the id of `pair`, who said `client`. The queue pair is ready afterwards, and
// what it is given to send is to wait until the client has all of the handshake. An error: the client is gone, or to be
// rejected.
absl::StatusOr<Agreement> AcceptClient(EndpointDevice* device, Pair* pair, const Envelope& client,
                                       const ReadDepths& depths, absl::string_view welcome, const Terms& terms);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_HANDSHAKE_H_
