#include "rdma/verbs/listener.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/diagnosis.h"
#include "rdma/verbs/endpoint.h"
#include "rdma/verbs/envelope.h"
#include "rdma/verbs/limits.h"
#include "rdma/verbs/loopback.h"
#include "rdma/verbs/numa_node.h"
#include "rdma/verbs/request.h"

namespace farlook::rdma::verbs {

absl::StatusOr<std::unique_ptr<VerbsListener>> VerbsListener::Create(const Address& address,
                                                                     const TransportOptions& options) {
  const std::string shown = FormatAddress(address);
  absl::StatusOr<SocketAddress> local = Resolve(address);
  if (!local.ok()) return local.status();
  absl::StatusOr<DevicePort> port = DeviceAt(*local, shown);
  if (!port.ok()) return port.status();
  auto offers = std::make_shared<Offers>();
  absl::StatusOr<std::shared_ptr<Device>> device = Device::Open(port->name, port->port);
  if (!device.ok()) return device.status();
  offers->device = *std::move(device);
  offers->options = options;
  absl::StatusOr<EventChannel> channel = MakeEventChannel();
  if (!channel.ok()) return channel.status();
  shm::UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  std::unique_ptr<VerbsListener> listener(
      new VerbsListener(shown, std::move(offers), *std::move(channel), std::move(epoll)));
  if (absl::Status status = listener->Listen(*local); !status.ok()) return status;
  if (!listener->Watch(listener->channel_->fd) || !listener->Watch(listener->offers_->device->async_fd())) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot make a descriptor for the listener: ", strerror(errno), " (see ulimit -n)"));
  }
  return listener;
}

absl::Status VerbsListener::Listen(SocketAddress local) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP) != 0) return CannotListen(address_, errno);
  id_.reset(id);
  if (rdma_bind_addr(id, local.get()) != 0 || rdma_listen(id, kBacklog) != 0) return CannotListen(address_, errno);
  return absl::OkStatus();
}

bool VerbsListener::Watch(int descriptor) {
  epoll_event event = {};
  event.events = EPOLLIN;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

absl::StatusOr<RemoteRange> VerbsListener::Offer(const SharedRange& range, Access access) {
  if (range.bytes == 0 || range.base == nullptr) return absl::InvalidArgumentError("an empty range");
  const bool atomics = access == Access::kRemoteReadAtomic && offers_->device->traits().atomics;
  const int flags = IBV_ACCESS_REMOTE_READ | (atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
  absl::StatusOr<MemoryRegion> region =
      Register(*offers_->device, range.base, range.bytes, flags, "the memory that the server offers");
  if (!region.ok()) return region.status();
  RemoteRange remote;
  remote.address = reinterpret_cast<uintptr_t>(range.base);
  remote.bytes = range.bytes;
  remote.rkey = (*region)->rkey;
  offers_->offers.push_back({range.base, range.bytes, access, *std::move(region)});
  return remote;
}

AtomicDomain VerbsListener::atomic_domain() const {
  return offers_->device->traits().atomics ? AtomicDomain::kDevice : AtomicDomain::kNone;
}

absl::StatusOr<std::unique_ptr<Loopback>> VerbsListener::ConnectToItself(const RemoteRange& range) {
  if (atomic_domain() != AtomicDomain::kDevice) return Listener::ConnectToItself(range);
  absl::StatusOr<std::unique_ptr<VerbsLoopback>> loopback = VerbsLoopback::Create(offers_, range);
  if (!loopback.ok()) return loopback.status();
  return *std::move(loopback);
}

int VerbsListener::numa_node() const { return NumaNodeOf(offers_->device->name()); }

absl::StatusOr<std::unique_ptr<Endpoint>> VerbsListener::CreateEndpoint() {
  absl::StatusOr<std::unique_ptr<VerbsEndpoint>> endpoint = VerbsEndpoint::ForServer(offers_, offers_->options);
  if (!endpoint.ok()) return endpoint.status();
  return *std::move(endpoint);
}

// ---- Handshakes ----

std::unique_ptr<ConnectionRequest> VerbsListener::Next() {
  if (requests_.empty()) {
    offers_->device->HandleAsyncEvents();
    ForEachEvent(channel_.get(), [this](const rdma_cm_event& event) { OnEvent(event); });
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
      return offers_->device->SetGone();
    default:
      // About a request that is not answered yet, on whatever thread: it is noticed there.
      return;
  }
}

void VerbsListener::OnRequest(const rdma_cm_event& event) {
  CmId id(event.id);
  id->context = nullptr;
  if (offers_->device->name() != ibv_get_device_name(id->verbs->device)) {
    return RejectId(std::move(id), "the server's memory is not registered with the device that you came to");
  }
  absl::string_view hello;
  absl::StatusOr<Envelope> client = DecodeEnvelope(PrivateData(event), &hello);
  if (!client.ok()) return RejectId(std::move(id), client.status().message());
  const rdma_conn_param& asked = event.param.conn;
  absl::StatusOr<ReadDepths> depths =
      AgreedDepths(offers_->device->traits(), asked.responder_resources, asked.initiator_depth);
  if (!depths.ok()) return RejectId(std::move(id), depths.status().message());
  requests_.push_back(std::make_unique<VerbsRequest>(std::move(id), *client, hello, *depths, offers_));
}

}  // namespace farlook::rdma::verbs
