#include "rdma/verbs/listener_device.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/device/diagnosis.h"
#include "rdma/verbs/handshake/limits.h"
#include "rdma/verbs/handshake/negotiation.h"

namespace farlook::rdma::verbs {

ListenerDevice::ListenerDevice(SocketAddresses locals, std::string address, std::shared_ptr<Offers> offers)
    : locals_(std::move(locals)), address_(std::move(address)), offers_(std::move(offers)) {}

absl::StatusOr<std::unique_ptr<ListenerDevice>> ListenerDevice::Open(const SocketAddresses& locals,
                                                                     const std::string& address,
                                                                     const TransportOptions& options) {
  absl::StatusOr<DevicePort> port = DeviceAt(locals.front(), address);
  for (size_t i = 1; !port.ok() && i < locals.size(); ++i) port = DeviceAt(locals[i], address);
  if (!port.ok()) return port.status();
  absl::StatusOr<std::shared_ptr<Device>> device = Device::Open(*std::move(port), Device::Posters::kSeveralThreads);
  if (!device.ok()) return device.status();
  auto offers = std::make_shared<Offers>();
  offers->device = *std::move(device);
  offers->options = options;
  return std::unique_ptr<ListenerDevice>(new ListenerDevice(locals, address, std::move(offers)));
}

// Others may keep the device open for longer, so its descriptors are removed from the listener's epoll here.
ListenerDevice::~ListenerDevice() {
  if (epoll_ < 0) return;
  for (const int descriptor : device().event_fds()) epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, nullptr);
}

absl::StatusOr<RemoteRange> ListenerDevice::Offer(const SharedRange& range, Access access, uint32_t name) {
  const DeviceTraits& traits = device().traits();
  if (range.bytes > traits.max_region_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("one memory region of the RDMA device ", device().name(), " takes ", traits.max_region_bytes,
                     " bytes (max_mr_size in ibv_devinfo -v), and the server is to offer ", range.bytes,
                     " in one; give it less (--memory, --counter_memory), or use another device"));
  }
  const bool atomics = access == Access::kRemoteReadAtomic && traits.atomics;
  const int flags = IBV_ACCESS_REMOTE_READ | (atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
  absl::StatusOr<MemoryRegion> region =
      Register(device(), range.base, range.bytes, flags, "the memory that the server offers");
  if (!region.ok()) return region.status();
  RemoteRange remote;
  remote.address = reinterpret_cast<uintptr_t>(range.base);
  remote.bytes = range.bytes;
  remote.rkey = (*region)->rkey;
  offers_->offers.push_back({range.base, range.bytes, access, *std::move(region), name != 0 ? name : remote.rkey});
  return remote;
}

absl::Status ListenerDevice::Listen(rdma_event_channel* channel, int epoll, AsyncSink* sink) {
  registration_.emplace(offers_->device.get(), sink);
  epoll_ = epoll;
  for (const int descriptor : device().event_fds()) {
    epoll_event event = {};
    event.events = EPOLLIN;
    if (descriptor >= 0 && epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot watch the RDMA device ", device().name(), ": ", strerror(errno)));
    }
  }
  absl::Status trouble;
  for (const SocketAddress& local : locals_) {
    absl::StatusOr<CmId> id = ListenAt(local, channel);
    if (id.ok()) {
      ids_.push_back(*std::move(id));
    } else if (absl::IsAlreadyExists(id.status())) {
      return id.status();
    } else {
      trouble = id.status();
    }
  }
  return ids_.empty() ? trouble : absl::OkStatus();
}

absl::StatusOr<CmId> ListenerDevice::ListenAt(SocketAddress local, rdma_event_channel* channel) const {
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(channel, &made, nullptr, RDMA_PS_TCP) != 0) return CannotListen(address_, errno);
  CmId id(made);
  if (rdma_bind_addr(made, local.get()) != 0) return CannotListen(address_, errno);
  if (made->verbs != nullptr && !device().Is(made->verbs->device)) return CannotListen(address_, ENODEV);
  if (rdma_listen(made, kBacklog) != 0) return CannotListen(address_, errno);
  return id;
}

std::vector<std::string> ListenerDevice::bound() const {
  std::vector<std::string> bound;
  for (const CmId& id : ids_) bound.push_back(ToText(rdma_get_local_addr(id.get())));
  return bound;
}

absl::StatusOr<std::shared_ptr<VerbsLoopback>> ListenerDevice::ConnectToItself(RemoteRange range) const {
  if (const Offers::Offer* const offer = offers_->Named(range.rkey); offer != nullptr) range.rkey = offer->rkey();
  return VerbsLoopback::Create(offers_, range);
}

}  // namespace farlook::rdma::verbs
