#include "rdma/verbs/device/cm.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/host/unique_fd.h"
#include "rdma/verbs/device/diagnosis.h"

namespace farlook::rdma::verbs {

absl::StatusOr<EventChannel> MakeEventChannel() {
  EventChannel channel(rdma_create_event_channel());
  if (channel == nullptr) return CannotOpen("/dev/infiniband/rdma_cm", errno);
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  return channel;
}

void ForEachEvent(rdma_event_channel* channel, absl::FunctionRef<void(const rdma_cm_event&)> handle) {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel, &event) == 0) {
    handle(*event);
    rdma_ack_cm_event(event);
  }
}

absl::string_view PrivateData(const rdma_cm_event& event) {
  const auto* const data = static_cast<const char*>(event.param.conn.private_data);
  return data == nullptr ? absl::string_view() : absl::string_view(data, event.param.conn.private_data_len);
}

absl::StatusOr<DevicePort> DeviceTowards(const SocketAddress& remote, absl::string_view shown) {
  // Connecting a datagram socket sends nothing; it looks up the route, and with it this side's address.
  const UniqueFd socket(::socket(remote.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress local;
  socklen_t bytes = sizeof(local.storage);
  if (!socket.ok() || connect(socket.get(), remote.get(), remote.bytes()) != 0 ||
      getsockname(socket.get(), local.get(), &bytes) != 0) {
    return NoDeviceAt(shown, errno);
  }
  return DeviceAt(local, shown);
}

absl::StatusOr<DevicePort> DeviceAt(SocketAddress local, absl::string_view shown) {
  absl::StatusOr<EventChannel> channel = MakeEventChannel();
  if (!channel.ok()) return channel.status();
  // The kernel would choose any device, and serve another address of it.
  if (local.is_loopback()) return IsLoopback(shown);
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(channel->get(), &made, nullptr, RDMA_PS_TCP) != 0) return NoDeviceAt(shown, errno);
  CmId id(made);
  local.set_port(0);
  if (rdma_bind_addr(id.get(), local.get()) != 0) return NoDeviceAt(shown, errno);
  if (id->verbs != nullptr) {
    return DevicePort{ibv_get_device_name(id->verbs->device), id->port_num, *std::move(channel), std::move(id)};
  }
  // A wildcard address: as memory is registered with one device, there must be no choice.
  const std::vector<std::string> names = DeviceNames();
  if (names.empty()) return NoDevice();
  if (names.size() == 1) return DevicePort{names[0], 1, nullptr, nullptr};
  return absl::InvalidArgumentError(
      absl::StrCat(shown, ": this host has several RDMA devices; write the address of the one to use"));
}

}  // namespace farlook::rdma::verbs
