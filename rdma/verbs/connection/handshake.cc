#include "rdma/verbs/connection/handshake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rdma/clock.h"
#include "rdma/verbs/device/diagnosis.h"
#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {
namespace {

// Returns the private data of this side: the envelope around its user's part.
std::string OwnWords(EndpointDevice* device, const Pair& pair, const Terms& terms, absl::string_view user) {
  Envelope own;
  own.window = static_cast<uint8_t>(pair.window);
  own.atomics = terms.atomics;
  own.reads_withheld = terms.withhold;
  own.probe_address = device->memory().probe_word().address;
  own.probe_rkey = device->memory().probe_word().rkey;
  return EncodeEnvelope(own, user);
}

rdma_conn_param Parameters(const EndpointDevice& device, const Pair& pair, absl::string_view private_data,
                           const ReadDepths& depths) {
  rdma_conn_param parameters = {};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<uint8_t>(private_data.size());
  parameters.responder_resources = depths.serve;
  parameters.initiator_depth = depths.ask;
  parameters.retry_count = kRetries;
  parameters.rnr_retry_count = kRnrRetries;
  parameters.qp_num = pair.queue_pair.number();
  parameters.srq = device.shares_receives() ? 1 : 0;
  return parameters;
}

// Error: the port of `device` is down, and the connection manager must not send through it (Device::MustBeSilent).
absl::Status PortIsDown(absl::string_view peer, const Device& device) {
  return absl::UnavailableError(absl::StrCat(peer, ": ", device.PortTrouble()));
}

Agreement Agree(const Device& device, const QueuePlan& plan, const Envelope& peer, const ReadDepths& depths) {
  return {plan, peer, CapabilitiesOf(device.traits(), plan, depths, peer.atomics)};
}

}  // namespace

// ---- Client ----

absl::Status Dialing::Begin(rdma_event_channel* channel, void* context) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, context, RDMA_PS_TCP) != 0) return CannotOpen("the connection manager", errno);
  pair_->id.reset(id);
  const int64_t now_ns = Clock::Real().NowNs();
  if (begun_ns_ == 0) begun_ns_ = now_ns;
  // On iWARP, TCP retransmits lost data within a second.
  attempt_over_ns_ =
      device().traits().iwarp ? deadline_ns_ : now_ns + std::max(kLeastAttemptNs, (now_ns - begun_ns_) / 2);
  return ResolveAddress();
}

absl::Status Dialing::ResolveAddress() {
  device_unfit_ = remote_.is_loopback();  // the kernel would let any device serve a loopback address
  if (device_unfit_) return IsLoopback(address_);
  const int64_t wait_ms = std::min<int64_t>(timeout_ms_ + 1, kResolveMs);
  SocketAddress remote = remote_;
  const int error = rdma_resolve_addr(pair_->id.get(), nullptr, remote.get(), static_cast<int>(wait_ms));
  return error == 0 ? absl::OkStatus() : NoDeviceAt(address_, errno);
}

absl::Status Dialing::TimedOut() const { return ConnectTimedOut(address_, timeout_ms_); }

absl::Status Dialing::OnEvent(const rdma_cm_event& event) {
  pair_->connecting = false;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      if (event.status == -ETIMEDOUT) return ResolveAddress();  // until the deadline; see kResolveMs
      device_unfit_ = event.status == -ENODEV;
      return CannotConnect(address_, event.event, event.status);
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return OnAddress();
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return OnRoute();
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:  // on iWARP
      return OnAnswer(event);
    case RDMA_CM_EVENT_REJECTED:
      return Rejected(event);
    default:
      return CannotConnect(address_, event.event, event.status);
  }
}

absl::Status Dialing::OnAddress() {
  ibv_device* const through = pair_->id->verbs->device;
  if (!device().Is(through)) {
    device_unfit_ = true;
    return absl::UnavailableError(absl::StrCat(address_, ": the route now leads through ", ibv_get_device_name(through),
                                               ", no longer through ", device().name()));
  }
  // This side's deadline ends it; this timeout only makes the kernel stop trying then.
  const int error = rdma_resolve_route(pair_->id.get(), static_cast<int>(timeout_ms_ + 1));
  return error == 0 ? absl::OkStatus() : CannotConnect(address_, RDMA_CM_EVENT_ROUTE_ERROR, errno);
}

absl::Status Dialing::OnRoute() {
  // Between two addresses of one host there is a route even if the interface is down.
  if (device().MustBeSilent()) return PortIsDown(address_, device());
  plan_ = PlanQueues(device().traits(), Role::kClient);
  if (absl::Status status = device_->MakePair(plan_, PeerRights(), pair_); !status.ok()) return status;
  const std::string data = OwnWords(device_, *pair_, Terms(), hello_);
  rdma_conn_param parameters = Parameters(*device_, *pair_, data, OfferedDepths(device().traits()));
  pair_->connecting = rdma_connect(pair_->id.get(), &parameters) == 0;
  return pair_->connecting ? absl::OkStatus() : CannotConnect(address_, RDMA_CM_EVENT_CONNECT_ERROR, errno);
}

absl::Status Dialing::OnAnswer(const rdma_cm_event& event) {
  pair_->peer_is_known = true;
  absl::string_view welcome;
  absl::StatusOr<Envelope> server = DecodeEnvelope(PrivateData(event), &welcome);
  if (!server.ok()) return absl::FailedPreconditionError(absl::StrCat(address_, ": ", server.status().message()));
  welcome_ = std::string(welcome);
  const rdma_conn_param& answer = event.param.conn;
  absl::StatusOr<ReadDepths> depths =
      AgreedDepths(device().traits(), answer.responder_resources, answer.initiator_depth);
  if (!depths.ok()) return depths.status();
  if (absl::Status status = pair_->queue_pair.Start(pair_->id.get(), *depths); !status.ok()) return status;
  if (device().MustBeSilent()) return PortIsDown(address_, device());
  if (event.event == RDMA_CM_EVENT_CONNECT_RESPONSE && rdma_establish(pair_->id.get()) != 0) {
    return CannotConnect(address_, RDMA_CM_EVENT_CONNECT_ERROR, errno);
  }
  agreement_ = Agree(device(), plan_, *server, *depths);
  return absl::OkStatus();
}

absl::Status Dialing::Rejected(const rdma_cm_event& event) const {
  absl::StatusOr<absl::string_view> reason = DecodeReject(PrivateData(event));
  if (reason.ok()) return absl::PermissionDeniedError(absl::StrCat(address_, ": ", *reason));
  if (reason.status().code() == absl::StatusCode::kFailedPrecondition) {
    return absl::FailedPreconditionError(absl::StrCat(address_, ": ", reason.status().message()));
  }
  return CannotConnect(address_, event.event, event.status);
}

// ---- Server ----

absl::StatusOr<Agreement> AcceptClient(EndpointDevice* device, Pair* pair, const Envelope& client,
                                       const ReadDepths& depths, absl::string_view welcome, const Terms& terms) {
  const QueuePlan plan = PlanQueues(device->device().traits(), Role::kServer);
  const PeerRights rights = {.reads = !terms.withhold, .atomics = terms.atomics && !terms.withhold};
  if (absl::Status status = device->MakePair(plan, rights, pair); !status.ok()) return status;
  if (absl::Status status = pair->queue_pair.Start(pair->id.get(), depths); !status.ok()) return status;
  const std::string data = OwnWords(device, *pair, terms, welcome);
  rdma_conn_param parameters = Parameters(*device, *pair, data, depths);
  if (device->device().MustBeSilent()) return PortIsDown(ToText(rdma_get_peer_addr(pair->id.get())), device->device());
  if (rdma_accept(pair->id.get(), &parameters) != 0) {
    return absl::UnavailableError(
        absl::StrCat("the client (", ToText(rdma_get_peer_addr(pair->id.get())), ") is gone: ", strerror(errno)));
  }
  pair->peer_is_known = true;
  return Agree(device->device(), plan, client, depths);
}

}  // namespace farlook::rdma::verbs
