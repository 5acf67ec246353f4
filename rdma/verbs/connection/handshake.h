// The handshake of a connection, on either side: the exchange with the connection manager until both sides agree. Its
// owner continues from there (live_connection.h).
#ifndef FARLOOK_RDMA_VERBS_CONNECTION_HANDSHAKE_H_
#define FARLOOK_RDMA_VERBS_CONNECTION_HANDSHAKE_H_

#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/transport.h"
#include "rdma/verbs/connection/endpoint_device.h"
#include "rdma/verbs/device/cm.h"
#include "rdma/verbs/device/pair.h"
#include "rdma/verbs/handshake/envelope.h"
#include "rdma/verbs/handshake/negotiation.h"

namespace farlook::rdma::verbs {

// The rights granted to a client.
struct Terms {
  bool atomics = false;
  bool withhold = false;  // all of them, until QueuePair::Grant()
};

// The result of the handshake.
struct Agreement {
  QueuePlan plan;
  Envelope peer;  // sent by the peer
  Capabilities capabilities;
};

// A client's handshake. Thread safety: none. Device and pair must outlive it.
class Dialing {
 public:
  // Connects to `remote`, which errors call `address`. `pair`, which is empty, becomes the queue pair.
  Dialing(EndpointDevice* device, Pair* pair, std::string address, const SocketAddress& remote, absl::string_view hello,
          int64_t timeout_ms, int64_t deadline_ns)
      : device_(device),
        pair_(pair),
        address_(std::move(address)),
        remote_(remote),
        hello_(hello),
        timeout_ms_(timeout_ms),
        deadline_ns_(deadline_ns) {}

  // Begins an attempt; `pair` is empty. An error, here and below, ends the handshake.
  absl::Status Begin(rdma_event_channel* channel, void* context);
  absl::Status OnEvent(const rdma_cm_event& event);
  absl::Status TimedOut() const;
  // Time at which the attempt is given up: for another one, or because the deadline has passed.
  int64_t due_ns() const { return std::min(deadline_ns_, attempt_over_ns_); }
  bool IsOver(int64_t now_ns) const { return now_ns >= deadline_ns_; }

  // Set once the server has accepted, and the queue pair is ready; welcome() is what the server sent with its accept.
  const std::optional<Agreement>& agreement() const { return agreement_; }
  const std::string& welcome() const { return welcome_; }

  // Returns whether the way to the server no longer leads through the device.
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
  int64_t begun_ns_ = 0;
  int64_t attempt_over_ns_ = 0;
  QueuePlan plan_;
  std::string welcome_;
  std::optional<Agreement> agreement_;
  bool device_unfit_ = false;
};

// A server's handshake: accepts the client of the id of `pair`, which sent `client`. Afterwards the queue pair is
// ready, but sends must wait until the client has completed the handshake. On an error the client has left, or must be
// rejected.
absl::StatusOr<Agreement> AcceptClient(EndpointDevice* device, Pair* pair, const Envelope& client,
                                       const ReadDepths& depths, absl::string_view welcome, const Terms& terms);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_CONNECTION_HANDSHAKE_H_
