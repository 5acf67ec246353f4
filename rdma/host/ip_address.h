// Addresses of IPv4 and IPv6, as the kernel wants them.
#ifndef FARLOOK_RDMA_HOST_IP_ADDRESS_H_
#define FARLOOK_RDMA_HOST_IP_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rdma/address.h"

namespace farlook::rdma {

// An Internet address.
struct SocketAddress {
  sockaddr_storage storage = {};
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  void set_port(uint16_t port);
  socklen_t bytes() const { return storage.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }
};

// Numeric hosts at once; names may take as long as the resolver needs. UNAVAILABLE: the name is not known.
absl::StatusOr<SocketAddress> Resolve(const Address& address);

// "10.0.0.7:41000".
std::string ToText(const sockaddr* address);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_IP_ADDRESS_H_
