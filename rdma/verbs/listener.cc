#include "rdma/verbs/listener.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/device/diagnosis.h"
#include "rdma/verbs/device/numa_node.h"
#include "rdma/verbs/endpoint.h"
#include "rdma/verbs/handshake/envelope.h"
#include "rdma/verbs/handshake/limits.h"
#include "rdma/verbs/handshake/negotiation.h"
#include "rdma/verbs/loopback.h"
#include "rdma/verbs/request.h"
#include "rdma/violations.h"

namespace farlook::rdma::verbs {
namespace {

absl::Status NoDescriptor() {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make a descriptor for the listener: ", strerror(errno), " (see ulimit -n)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsListener>> VerbsListener::Create(const Address& address,
                                                                     const TransportOptions& options) {
  absl::StatusOr<SocketAddresses> locals = ResolveWithin(address, kResolveForListeningMs);
  if (!locals.ok()) return locals.status();
  std::unique_ptr<VerbsListener> listener(new VerbsListener(FormatAddress(address), *std::move(locals), options));
  if (absl::Status status = listener->Begin(); !status.ok()) return status;
  if (absl::Status status = listener->UseDevice(); !status.ok()) return status;
  const Device& device = listener->device_->device();
  listener->atomic_domain_ = device.traits().atomics ? AtomicDomain::kDevice : AtomicDomain::kNone;
  listener->numa_node_ = NumaNodeOf(device.name());
  return listener;
}

VerbsListener::~VerbsListener() = default;

absl::Status VerbsListener::Begin() {
  absl::StatusOr<EventChannel> channel = MakeEventChannel();
  if (!channel.ok()) return channel.status();
  channel_ = *std::move(channel);
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  timer_ = UniqueFd(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll_.ok() || !timer_.ok() || !wake_.ok()) return NoDescriptor();
  for (const int descriptor : {channel_->fd, timer_.get(), wake_.fd()}) {
    if (absl::Status status = Watch(descriptor); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status VerbsListener::Watch(int descriptor) {
  epoll_event event = {};
  event.events = EPOLLIN;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0 ? absl::OkStatus() : NoDescriptor();
}

// ---- Devices come and go ----

// Uses the device that the address belongs to now.
absl::Status VerbsListener::UseDevice() {
  absl::StatusOr<std::unique_ptr<ListenerDevice>> device = ListenerDevice::Open(locals_, address_, options_);
  if (!device.ok()) return device.status();
  if (absl::Status status = Prepare(device->get()); !status.ok()) return status;
  if (absl::Status status = (*device)->Listen(channel_.get(), epoll_.get(), this); !status.ok()) return status;
  std::vector<std::shared_ptr<VerbsLoopback>> loopbacks;
  for (const Itself& itself : itself_) {
    absl::StatusOr<std::shared_ptr<VerbsLoopback>> loopback = (*device)->ConnectToItself(itself.range);
    if (!loopback.ok()) return loopback.status();
    loopbacks.push_back(*std::move(loopback));
  }
  for (size_t i = 0; i < itself_.size(); ++i) itself_[i].loopback->Set(std::move(loopbacks[i]));
  device_ = *std::move(device);
  return absl::OkStatus();
}

// Offers everything again that was offered before.
absl::Status VerbsListener::Prepare(ListenerDevice* device) {
  if (!itself_.empty() && !device->device().traits().atomics) {
    return absl::FailedPreconditionError(absl::StrCat(address_, ": the device there now (", device->device().name(),
                                                      ") has no atomics, which this server's counters need"));
  }
  for (const Wanted& wanted : wanted_) {
    absl::StatusOr<RemoteRange> range = device->Offer(wanted.range, wanted.access, wanted.named.rkey);
    if (!range.ok()) return range.status();
  }
  return absl::OkStatus();
}

// Endpoints and unanswered requests release their part of it themselves.
void VerbsListener::LeaveDevice(absl::Status why) {
  status_ = std::move(why);
  requests_.clear();
  for (const Itself& itself : itself_) itself.loopback->Set(nullptr);
  device_.reset();
  itimerspec every = {};
  every.it_value.tv_sec = every.it_interval.tv_sec = kLookForDeviceSeconds;
  timerfd_settime(timer_.get(), 0, &every, nullptr);
}

void VerbsListener::LookForDevice() {
  uint64_t ticks;
  if (read(timer_.get(), &ticks, sizeof(ticks)) != sizeof(ticks)) return;
  status_ = UseDevice();
  if (!status_.ok()) return;
  const itimerspec never = {};
  timerfd_settime(timer_.get(), 0, &never, nullptr);
}

// ---- What is offered ----

absl::StatusOr<RemoteRange> VerbsListener::Offer(const SharedRange& range, Access access) {
  if (range.bytes == 0 || range.base == nullptr) return absl::InvalidArgumentError("an empty range");
  if (device_ == nullptr) return status_;
  absl::StatusOr<RemoteRange> named = device_->Offer(range, access, /*name=*/0);
  if (named.ok()) wanted_.push_back({range, access, *named});
  return named;
}

absl::StatusOr<std::unique_ptr<Loopback>> VerbsListener::ConnectToItself(const RemoteRange& range) {
  if (atomic_domain() != AtomicDomain::kDevice) return Listener::ConnectToItself(range);
  if (device_ == nullptr) return status_;
  absl::StatusOr<std::shared_ptr<VerbsLoopback>> loopback = device_->ConnectToItself(range);
  if (!loopback.ok()) return loopback.status();
  itself_.push_back({range, std::make_shared<LoopbackOfListener::Current>()});
  itself_.back().loopback->Set(*std::move(loopback));
  return std::make_unique<LoopbackOfListener>(itself_.back().loopback);
}

absl::StatusOr<std::unique_ptr<Endpoint>> VerbsListener::CreateEndpoint() {
  if (device_ == nullptr) return status_;
  absl::StatusOr<std::unique_ptr<VerbsEndpoint>> endpoint = VerbsEndpoint::ForServer(device_->offers(), options_);
  if (!endpoint.ok()) return endpoint.status();
  return *std::move(endpoint);
}

// ---- Handshakes ----

std::unique_ptr<ConnectionRequest> VerbsListener::Next() {
  if (requests_.empty()) {
    if (device_ != nullptr) device_->device().HandleEvents();
    ForEachEvent(channel_.get(), [this](const rdma_cm_event& event) { OnEvent(event); });
    if (device_ == nullptr) {
      LookForDevice();
    } else if (device_->device().gone()) {
      wake_.Clear();
      LeaveDevice(DeviceGone(device_->device().name()));
    }
  }
  if (requests_.empty()) return nullptr;
  std::unique_ptr<ConnectionRequest> request = std::move(requests_.front());
  requests_.pop_front();
  return request;
}

void VerbsListener::OnEvent(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return OnRequest(event);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      if (device_ != nullptr) device_->device().SetRemoved();
      return;
    default:
      // The event is about an unanswered request, on whatever thread: it is noticed there.
      return;
  }
}

void VerbsListener::OnRequest(const rdma_cm_event& event) {
  CmId id(event.id);
  id->context = nullptr;
  if (device_ == nullptr || !device_->device().Is(id->verbs->device)) {
    return RejectId(std::move(id), "the server's memory is not registered with the device that you came to");
  }
  absl::string_view hello;
  absl::StatusOr<Envelope> client = DecodeEnvelope(PrivateData(event), &hello);
  if (!client.ok()) {
    NoteViolation(Violator::kStranger, ToText(rdma_get_peer_addr(id.get())), client.status().message());
    return RejectId(std::move(id), client.status().message());
  }
  const rdma_conn_param& asked = event.param.conn;
  absl::StatusOr<ReadDepths> depths =
      AgreedDepths(device_->device().traits(), asked.responder_resources, asked.initiator_depth);
  if (!depths.ok()) return RejectId(std::move(id), depths.status().message());
  requests_.push_back(std::make_unique<VerbsRequest>(std::move(id), *client, hello, *depths, device_->offers()));
}

}  // namespace farlook::rdma::verbs
