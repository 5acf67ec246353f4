// IPv4 and IPv6 addresses in the form of the kernel.
#ifndef FARLOOK_RDMA_HOST_IP_ADDRESS_H_
#define FARLOOK_RDMA_HOST_IP_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

namespace farlook::rdma {

// An Internet address and a port.
struct SocketAddress {
  sockaddr_storage storage = {};
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  void set_port(uint16_t port);
  bool operator==(const SocketAddress& other) const;
  bool is_loopback() const;
  socklen_t bytes() const { return storage.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }
};

// Returns "10.0.0.7:41000" or "[::1]:41000".
std::string ToText(const sockaddr* address);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_IP_ADDRESS_H_
