#include "rdma/verbs/listener.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/diagnosis.h"
#include "rdma/verbs/endpoint.h"
#include "rdma/verbs/envelope.h"
#include "rdma/verbs/limits.h"
#include "rdma/verbs/loopback.h"
#include "rdma/verbs/negotiation.h"
#include "rdma/verbs/numa_node.h"
#include "rdma/verbs/request.h"
#include "rdma/verbs/split_range.h"

namespace farlook::rdma::verbs {

absl::StatusOr<std::unique_ptr<VerbsListener>> VerbsListener::Create(const Address& address,
                                                                     const TransportOptions& options) {
  const std::string shown = FormatAddress(address);
  absl::StatusOr<SocketAddress> local = Resolve(address);
  if (!local.ok()) return local.status();
  absl::StatusOr<DevicePort> port = DeviceAt(*local, shown);
  if (!port.ok()) return port.status();
  auto offers = std::make_shared<Offers>();
  absl::StatusOr<std::shared_ptr<Device>> device =
      Device::Open(port->name, port->port, Device::Posters::kSeveralThreads);
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
  const uint64_t most = offers_->device->traits().max_region_bytes;
  const absl::StatusOr<RegionPlan> plan = PlanRegions(most, range.bytes);
  if (!plan.ok()) return plan.status();
  if (plan->regions > 1 && reinterpret_cast<uintptr_t>(range.base) % kRegionAlignment != 0) {
    return absl::InvalidArgumentError("a range that takes several memory regions begins at a page");
  }
  if (plan->regions > 1 && offers_->splits.size() == kMaxSplitRanges) {
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxSplitRanges,
                                                     " ranges are longer than this device's memory regions, of ", most,
                                                     " bytes (max_mr_size); offer less memory"));
  }
  Offers::Offer offer{range.base, range.bytes, access, plan->stride_bytes, {}};
  SplitRange split{reinterpret_cast<uintptr_t>(range.base), plan->stride_bytes, {}};
  for (size_t i = 0; i < plan->regions; ++i) {
    const uint64_t begin = i * plan->stride_bytes;
    const uint64_t bytes = std::min(range.bytes - begin, most);
    absl::StatusOr<MemoryRegion> region =
        Register(*offers_->device, range.base + begin, bytes, flags, "the memory that the server offers");
    if (!region.ok()) return region.status();
    split.keys.push_back((*region)->rkey);
    offer.regions.push_back(*std::move(region));
  }
  RemoteRange remote;
  remote.address = split.address;
  remote.bytes = range.bytes;
  remote.rkey = offer.rkey();
  offers_->offers.push_back(std::move(offer));
  if (plan->regions > 1) offers_->splits.push_back(std::move(split));
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
