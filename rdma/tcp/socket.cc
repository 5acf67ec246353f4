#include "rdma/tcp/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/tcp/limits.h"

namespace farlook::rdma::tcp {
namespace {

constexpr char kUnknown[] = "?";

void Set(int socket, int level, int option, int value) { setsockopt(socket, level, option, &value, sizeof(value)); }

// What the kernel takes before it can send it is bounded: else it would take megabytes for a peer that does not listen,
// and this process pays for them. What is sent is acknowledged within `liveness_ms`, or the kernel ends the connection;
// where nothing is sent it asks the other host, whose kernel answers. It counts in seconds.
void Prepare(int socket, int64_t liveness_ms) {
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(kMaxWaitingInKernelBytes));
  const int ms = static_cast<int>(std::clamp<int64_t>(liveness_ms, 100, 3'600'000));
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, ms);
  Set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, std::max(ms / 3000, 1));
  Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(ms / 3000, 1));
}

absl::StatusOr<UniqueFd> Open(const SocketAddress& address) {
  UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.ok()) return socket;
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make a socket: ", strerror(errno), " (see ulimit -n for the limit of open files)"));
}

absl::Status CannotListen(const Address& address, int error) {
  const std::string shown = FormatAddress(address);
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(absl::StrCat(shown, " is in use by another process; choose another port"));
    case EACCES:
      return absl::PermissionDeniedError(
          absl::StrCat("no permission to listen at ", shown, ": choose a port above 1023"));
    case EADDRNOTAVAIL:
      return absl::UnavailableError(
          absl::StrCat(shown, " is no address of this host; ip addr shows those, and 0.0.0.0 stands for all"));
    default:
      return absl::UnavailableError(absl::StrCat("cannot listen at ", shown, ": ", strerror(error)));
  }
}

absl::Status CannotReach(absl::string_view shown, int error) {
  return absl::UnavailableError(
      absl::StrCat("nobody answers at ", shown, ": ", strerror(error),
                   error == ECONNREFUSED ? "; is kv_server running there, and listening at a tcp:// address?" : ""));
}

std::string Named(int (*name)(int, sockaddr*, socklen_t*), int socket) {
  SocketAddress address;
  socklen_t bytes = sizeof(address.storage);
  if (name(socket, address.get(), &bytes) != 0) return kUnknown;
  return ToText(address.get());
}

}  // namespace

absl::StatusOr<UniqueFd> ListenAt(const Address& address) {
  absl::StatusOr<SocketAddress> local = Resolve(address);
  if (!local.ok()) return local.status();
  absl::StatusOr<UniqueFd> socket = Open(*local);
  if (!socket.ok()) return socket.status();
  Set(socket->get(), SOL_SOCKET, SO_REUSEADDR, 1);  // connections of a server before may linger
  if (bind(socket->get(), local->get(), local->bytes()) != 0 || listen(socket->get(), kBacklog) != 0) {
    return CannotListen(address, errno);
  }
  return socket;
}

UniqueFd AcceptFrom(int listening, int64_t liveness_ms) {
  UniqueFd socket(accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.ok()) Prepare(socket.get(), liveness_ms);
  return socket;
}

absl::StatusOr<UniqueFd> Dial(const SocketAddress& to, absl::string_view shown, int64_t liveness_ms) {
  absl::StatusOr<UniqueFd> socket = Open(to);
  if (!socket.ok()) return socket.status();
  Prepare(socket->get(), liveness_ms);
  if (connect(socket->get(), to.get(), to.bytes()) != 0 && errno != EINPROGRESS) return CannotReach(shown, errno);
  return socket;
}

absl::StatusOr<bool> Dialed(int socket, absl::string_view shown) {
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error != 0) return CannotReach(shown, error);
  // The kernel may have chosen the very port for this side that nobody listens at, and connected it to itself.
  const std::string peer = PeerOf(socket);
  if (peer == ThisSideOf(socket)) return CannotReach(shown, ECONNREFUSED);
  return peer != kUnknown;
}

bool IsOfThisHost(int socket) {
  SocketAddress ours, peers;
  socklen_t our_bytes = sizeof(ours.storage), peer_bytes = sizeof(peers.storage);
  if (getsockname(socket, ours.get(), &our_bytes) != 0 || getpeername(socket, peers.get(), &peer_bytes) != 0)
    return false;
  if (ours.storage.ss_family != peers.storage.ss_family) return false;
  if (ours.storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(ours.get())->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(peers.get())->sin_addr.s_addr;
  }
  return memcmp(&reinterpret_cast<const sockaddr_in6*>(ours.get())->sin6_addr,
                &reinterpret_cast<const sockaddr_in6*>(peers.get())->sin6_addr, sizeof(in6_addr)) == 0;
}

uint32_t ProcessorOf(int socket) {
  int processor = -1;
  socklen_t bytes = sizeof(processor);
  if (getsockopt(socket, SOL_SOCKET, SO_INCOMING_CPU, &processor, &bytes) != 0) return 0;
  return static_cast<uint32_t>(processor + 1);
}

std::string PeerOf(int socket) { return Named(getpeername, socket); }
std::string ThisSideOf(int socket) { return Named(getsockname, socket); }

}  // namespace farlook::rdma::tcp
