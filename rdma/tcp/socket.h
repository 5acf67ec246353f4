// Sockets of TCP: non-blocking, without delay, and ended by the kernel when the other host is silently gone.
#ifndef FARLOOK_RDMA_TCP_SOCKET_H_
#define FARLOOK_RDMA_TCP_SOCKET_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/address.h"
#include "rdma/host/ip_address.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma::tcp {

// ALREADY_EXISTS: the address is in use. PERMISSION_DENIED, UNAVAILABLE, RESOURCE_EXHAUSTED.
absl::StatusOr<UniqueFd> ListenAt(const Address& address);

// A client's, which the listening one has. Not ok() when there is none, or no descriptor: see errno.
UniqueFd AcceptFrom(int listening, int64_t liveness_ms);

// Begins to connect. RESOURCE_EXHAUSTED, or UNAVAILABLE when the kernel knows at once that nobody is there.
absl::StatusOr<UniqueFd> Dial(const SocketAddress& to, absl::string_view shown, int64_t liveness_ms);

// Whether it is connected by now. UNAVAILABLE: it never will be.
absl::StatusOr<bool> Dialed(int socket, absl::string_view shown);

// Whether both ends of a connected socket have the same address, and so are of one host.
bool IsOfThisHost(int socket);
// Where the last bytes came in, as ThisProcessor() counts; 0 where the kernel does not tell. From a peer of this host
// it is where that sent them.
uint32_t ProcessorOf(int socket);

std::string PeerOf(int socket);
std::string ThisSideOf(int socket);

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_SOCKET_H_
