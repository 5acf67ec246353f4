// TCP sockets: non-blocking, without delay, and ended by the kernel if the other host is silently gone.
#ifndef FARLOOK_RDMA_TCP_SOCKET_H_
#define FARLOOK_RDMA_TCP_SOCKET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/address.h"
#include "rdma/host/ip_address.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma::tcp {

// Listens at all addresses of this host that `address` stands for. ALREADY_EXISTS: one of them is in use.
// PERMISSION_DENIED, UNAVAILABLE, RESOURCE_EXHAUSTED.
absl::StatusOr<std::vector<UniqueFd>> ListenAt(const Address& address);

// Returns a client's socket that waits at the listening one. Not ok() if there is none, or no descriptor: see errno.
UniqueFd AcceptFrom(int listening, int64_t liveness_ms);

// Begins to connect. `*error`: errno if the kernel knows at once that the address does not answer; otherwise 0.
// RESOURCE_EXHAUSTED.
absl::StatusOr<UniqueFd> Dial(const SocketAddress& to, int64_t liveness_ms, int* error);

// State of a socket from Dial(): pending, or one of these.
struct Dialed {
  bool connected = false;
  int error = 0;  // errno: it will never be connected, and occupies no port any more
};
Dialed LookAtDialed(int socket);

// UNAVAILABLE: the server's address, which the user wrote as `shown`, does not answer. `why`: the reason for each
// address.
absl::Status CannotReach(absl::string_view shown, absl::string_view why, bool refused);
absl::Status NoAnswerInTime(absl::string_view shown, absl::string_view why);

// Returns whether both ends of a connected socket have the same address, and so are on one host.
bool IsOfThisHost(int socket);
// Returns the processor on which the last bytes arrived, as ThisProcessor() counts; 0 if the kernel does not report it.
// For a peer of this host it is the one that sent them.
uint32_t ProcessorOf(int socket);

std::string PeerOf(int socket);
std::string ThisSideOf(int socket);

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_SOCKET_H_
