// How a VerbsConnection comes to be, on either side. See connection.h.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/clock.h"
#include "rdma/verbs/connection.h"
#include "rdma/verbs/diagnosis.h"

namespace farlook::rdma::verbs {

// ---- Both sides ----

absl::Status VerbsConnection::MakePair(bool grant_atomics) {
  plan_ = PlanQueues(device_->device().traits(), role_);
  absl::Status status = device_->MakePair(plan_, grant_atomics, &pair_);
  if (pair_.queue_pair.ok()) table_->Enter(pair_.queue_pair.number(), this);
  if (status.ok()) send_.Begin(plan_, pair_.queue_pair.inline_bytes(), tag);
  return status;
}

rdma_conn_param VerbsConnection::Parameters(absl::string_view private_data, const ReadDepths& depths) const {
  rdma_conn_param parameters = {};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<uint8_t>(private_data.size());
  parameters.responder_resources = depths.serve;
  parameters.initiator_depth = depths.ask;
  parameters.retry_count = kRetries;
  parameters.rnr_retry_count = kRnrRetries;
  parameters.qp_num = pair_.queue_pair.number();
  parameters.srq = device_->shares_receives() ? 1 : 0;
  return parameters;
}

void VerbsConnection::Agree(const Envelope& peer, const ReadDepths& depths) {
  peer_words_ = peer;
  flow_.Begin(pair_.window, peer.window);
  capabilities_ = CapabilitiesOf(device_->device().traits(), plan_, depths, peer.atomics);
}

// ---- Client ----

void VerbsConnection::Dial(rdma_event_channel* channel, const SocketAddress& remote, std::string shown,
                           absl::string_view hello, int64_t timeout_ms, int64_t deadline_ns) {
  shown_ = std::move(shown);
  peer_ = shown_;
  hello_ = std::string(hello);
  timeout_ms_ = timeout_ms;
  deadline_ns_ = deadline_ns;
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, this, RDMA_PS_TCP) != 0) {
    return Break(CannotOpen("the connection manager", errno), /*deliver_messages=*/false);
  }
  pair_.id.reset(id);
  remote_ = remote;
  ResolveAddress();
}

void VerbsConnection::ResolveAddress() {
  const int64_t wait_ms = std::min<int64_t>(timeout_ms_ + 1, kResolveMs);
  if (rdma_resolve_addr(pair_.id.get(), nullptr, remote_.get(), static_cast<int>(wait_ms)) != 0) {
    Break(NoDeviceAt(shown_, errno), /*deliver_messages=*/false);
  }
}

void VerbsConnection::TimeOut() { Break(ConnectTimedOut(shown_, timeout_ms_), /*deliver_messages=*/false); }

void VerbsConnection::OnDialEvent(const rdma_cm_event& event) {
  pair_.connecting = false;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      if (event.status == -ETIMEDOUT) return ResolveAddress();  // until the deadline; see kResolveMs
      if (event.status == -ENODEV) device_unfit_ = true;
      return Break(CannotConnect(shown_, event.event, event.status), /*deliver_messages=*/false);
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (!device_->device().Is(pair_.id->verbs->device)) {
        device_unfit_ = true;
        return Break(absl::UnavailableError(absl::StrCat(shown_, ": the route now leads through ",
                                                         ibv_get_device_name(pair_.id->verbs->device),
                                                         ", no longer through ", device_->device().name())),
                     /*deliver_messages=*/false);
      }
      // Our own deadline ends it: this one is for the kernel to stop trying then.
      if (rdma_resolve_route(pair_.id.get(), static_cast<int>(timeout_ms_ + 1)) != 0) {
        Break(CannotConnect(shown_, RDMA_CM_EVENT_ROUTE_ERROR, errno), /*deliver_messages=*/false);
      }
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return OnRoute();
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:  // on iWARP
      return OnAnswer(event);
    case RDMA_CM_EVENT_REJECTED:
      return OnReject(event);
    default:
      return Break(CannotConnect(shown_, event.event, event.status), /*deliver_messages=*/false);
  }
}

void VerbsConnection::OnRoute() {
  if (absl::Status status = MakePair(/*grant_atomics=*/false); !status.ok()) {
    return Break(std::move(status), /*deliver_messages=*/false);
  }
  Envelope own;
  own.window = static_cast<uint8_t>(pair_.window);
  own.probe_address = device_->memory().probe_word().address;
  own.probe_rkey = device_->memory().probe_word().rkey;
  const std::string data = EncodeEnvelope(own, hello_);
  rdma_conn_param parameters = Parameters(data, OfferedDepths(device_->device().traits()));
  pair_.connecting = rdma_connect(pair_.id.get(), &parameters) == 0;
  if (!pair_.connecting) Break(CannotConnect(shown_, RDMA_CM_EVENT_CONNECT_ERROR, errno), /*deliver_messages=*/false);
}

void VerbsConnection::OnAnswer(const rdma_cm_event& event) {
  handshaking_ = true;
  absl::string_view welcome;
  absl::StatusOr<Envelope> server = DecodeEnvelope(PrivateData(event), &welcome);
  if (!server.ok()) {
    return Break(absl::FailedPreconditionError(absl::StrCat(shown_, ": ", server.status().message())),
                 /*deliver_messages=*/false);
  }
  welcome_ = std::string(welcome);
  const rdma_conn_param& answer = event.param.conn;
  absl::StatusOr<ReadDepths> depths =
      AgreedDepths(device_->device().traits(), answer.responder_resources, answer.initiator_depth);
  if (!depths.ok()) return Break(depths.status(), /*deliver_messages=*/false);
  if (absl::Status status = pair_.queue_pair.Start(pair_.id.get(), *depths); !status.ok()) {
    return Break(std::move(status), /*deliver_messages=*/false);
  }
  Agree(*server, *depths);
  if (event.event == RDMA_CM_EVENT_CONNECT_RESPONSE && rdma_establish(pair_.id.get()) != 0) {
    return Break(CannotConnect(shown_, RDMA_CM_EVENT_CONNECT_ERROR, errno), /*deliver_messages=*/false);
  }
  state_ = State::kWelcomed;
  table_->Attend(this);
}

void VerbsConnection::OnReject(const rdma_cm_event& event) {
  absl::StatusOr<absl::string_view> reason = DecodeReject(PrivateData(event));
  if (reason.ok()) {
    return Break(absl::PermissionDeniedError(absl::StrCat(shown_, ": ", *reason)), /*deliver_messages=*/false);
  }
  if (reason.status().code() == absl::StatusCode::kFailedPrecondition) {
    return Break(absl::FailedPreconditionError(absl::StrCat(shown_, ": ", reason.status().message())),
                 /*deliver_messages=*/false);
  }
  Break(CannotConnect(shown_, event.event, event.status), /*deliver_messages=*/false);
}

// ---- Server ----

absl::Status VerbsConnection::Accept(CmId id, const Envelope& client, const ReadDepths& depths,
                                     absl::string_view welcome, bool grant_atomics) {
  pair_.id = std::move(id);
  pair_.id->context = this;
  peer_ = ToText(rdma_get_peer_addr(pair_.id.get()));
  if (absl::Status status = MakePair(grant_atomics); !status.ok()) return status;
  if (absl::Status status = pair_.queue_pair.Start(pair_.id.get(), depths); !status.ok()) return status;
  Agree(client, depths);
  Envelope own;
  own.window = static_cast<uint8_t>(pair_.window);
  own.atomics = grant_atomics;
  own.probe_address = device_->memory().probe_word().address;
  own.probe_rkey = device_->memory().probe_word().rkey;
  const std::string data = EncodeEnvelope(own, welcome);
  rdma_conn_param parameters = Parameters(data, depths);
  if (rdma_accept(pair_.id.get(), &parameters) != 0) {
    return absl::UnavailableError(absl::StrCat("the client (", peer_, ") is gone: ", strerror(errno)));
  }
  handshaking_ = true;
  return absl::OkStatus();
}

// ---- Events of the connection manager ----

void VerbsConnection::OnCmEvent(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return QueuesLost(DeviceGone(device_->device().name()).message());
    // The address moved to another adapter (bonding): requests go on, or fail by themselves.
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default:
      break;
  }
  if (state_ == State::kDialing) return OnDialEvent(event);
  switch (event.event) {
    case RDMA_CM_EVENT_ESTABLISHED:
      if (state_ != State::kConnected) return;
      held_ = false;
      table_->List(this);
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      return Break(absl::UnavailableError(absl::StrCat("the peer (", peer_,
                                                       ") closed the connection, or its process "
                                                       "ended")),
                   /*deliver_messages=*/true);
    default:
      return Break(CannotConnect(peer_, event.event, event.status), /*deliver_messages=*/true);
  }
}

}  // namespace farlook::rdma::verbs
