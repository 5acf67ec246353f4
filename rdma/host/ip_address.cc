#include "rdma/host/ip_address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace farlook::rdma {

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
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {  // as the other side writes it
      inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, text, sizeof(text));
      return absl::StrCat(text, ":", ntohs(v6->sin6_port));
    }
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    return absl::StrCat("[", text, "]:", ntohs(v6->sin6_port));
  }
  const auto* const v4 = reinterpret_cast<const sockaddr_in*>(address);
  inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
  return absl::StrCat(text, ":", ntohs(v4->sin_port));
}

}  // namespace farlook::rdma
