#include "rdma/verbs/cm.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/host/unique_fd.h"
#include "rdma/verbs/diagnosis.h"

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

void SocketAddress::set_port(uint16_t port) {
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  }
}

absl::StatusOr<SocketAddress> Resolve(const Address& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("the name ", address.host, " does not resolve: ", gai_strerror(error),
                                               "; see /etc/hosts, or give the address in numbers"));
  }
  SocketAddress resolved;
  memcpy(&resolved.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return resolved;
}

std::string ToText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address->sa_family == AF_INET6) {
    const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    return absl::StrCat("[", text, "]:", ntohs(v6->sin6_port));
  }
  const auto* const v4 = reinterpret_cast<const sockaddr_in*>(address);
  inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
  return absl::StrCat(text, ":", ntohs(v4->sin_port));
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
