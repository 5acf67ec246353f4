#include "rdma/tcp/socket.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rdma/host/resolver.h"
#include "rdma/tcp/limits.h"

namespace farlook::rdma::tcp {
namespace {

constexpr char kUnknown[] = "?";

void Set(int socket, int level, int option, int value) { setsockopt(socket, level, option, &value, sizeof(value)); }

// Bounds the bytes that the kernel buffers before it can send them: otherwise it would buffer megabytes for a peer that
// does not receive, at this process' cost. Sent bytes must be acknowledged within `liveness_ms`, or the kernel ends the
// connection. If nothing is sent, it probes the other host, whose kernel answers. It counts in seconds.
void Prepare(int socket, int64_t liveness_ms) {
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(kMaxWaitingInKernelBytes));
  const int ms = static_cast<int>(std::clamp<int64_t>(liveness_ms, 100, 3'600'000));
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, ms);
  Set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, std::max(ms / 3000, 1));
  Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(ms / 3000, 1));
}

// `*error`: errno if the kernel does not support such addresses; otherwise 0.
absl::StatusOr<UniqueFd> Open(const SocketAddress& address, int* error) {
  UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  *error = !socket.ok() && errno == EAFNOSUPPORT ? errno : 0;
  if (socket.ok() || *error != 0) return socket;
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make a socket: ", strerror(errno), " (see ulimit -n for the limit of open files)"));
}

int PortOf(const SocketAddress& address) {
  return ntohs(address.storage.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_port
                                                     : reinterpret_cast<const sockaddr_in*>(address.get())->sin_port);
}

// Returns true if a socket of this process listens at that port.
bool ThisProcessListensAt(int port) {
  DIR* const descriptors = opendir("/proc/self/fd");
  if (descriptors == nullptr) return false;
  bool found = false;
  while (const dirent* const entry = found ? nullptr : readdir(descriptors)) {
    const int socket = atoi(entry->d_name);
    int listens = 0;
    socklen_t bytes = sizeof(listens);
    if (getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0) continue;
    SocketAddress local;
    bytes = sizeof(local.storage);
    if (getsockname(socket, local.get(), &bytes) != 0) continue;
    const int family = local.storage.ss_family;
    found = (family == AF_INET || family == AF_INET6) && PortOf(local) == port;
  }
  closedir(descriptors);
  return found;
}

// Returns errno, or 0.
int Bind(int socket, const SocketAddress& local) {
  Set(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // connections of an earlier server may linger
  return bind(socket, local.get(), local.bytes()) == 0 && listen(socket, kBacklog) == 0 ? 0 : errno;
}

absl::Status CannotListen(const Address& address, const SocketAddress& local, int error) {
  std::string shown = FormatAddress(address);
  const std::string numeric = ToText(local.get());
  if (!absl::StrContains(shown, numeric)) absl::StrAppend(&shown, " (", numeric, ")");
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(absl::StrCat(
          shown, " is in use by ",
          ThisProcessListensAt(address.port) ? "this process, at another of its addresses" : "another process",
          "; choose another port"));
    case EACCES:
      return absl::PermissionDeniedError(
          absl::StrCat("no permission to listen at ", shown, ": choose a port above 1023"));
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return absl::UnavailableError(
          absl::StrCat(shown, " is no address of this host; ip addr shows those, and 0.0.0.0 stands for all"));
    default:
      return absl::UnavailableError(absl::StrCat("cannot listen at ", shown, ": ", strerror(error)));
  }
}

// Ends a connection by a reset: closing would leave the port in TIME_WAIT for a minute.
void Reset(int socket) {
  sockaddr nothing = {};
  nothing.sa_family = AF_UNSPEC;
  connect(socket, &nothing, sizeof(nothing));
}

std::string Named(int (*name)(int, sockaddr*, socklen_t*), int socket) {
  SocketAddress address;
  socklen_t bytes = sizeof(address.storage);
  if (name(socket, address.get(), &bytes) != 0) return kUnknown;
  return ToText(address.get());
}

}  // namespace

absl::StatusOr<std::vector<UniqueFd>> ListenAt(const Address& address) {
  absl::StatusOr<SocketAddresses> all = ResolveWithin(address, kResolveForListeningMs);
  if (!all.ok()) return all.status();
  std::vector<UniqueFd> sockets;
  for (const SocketAddress& local : *all) {
    int error = 0;
    absl::StatusOr<UniqueFd> socket = Open(local, &error);
    if (!socket.ok()) return socket.status();
    if (error == 0) error = Bind(socket->get(), local);
    if (error == 0) {
      sockets.push_back(*std::move(socket));
      continue;
    }
    // A host without IPv6 has no ::1, although /etc/hosts may list it for localhost.
    const bool is_elsewhere = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
    if (is_elsewhere && (!sockets.empty() || &local != &all->back())) continue;
    sockets.clear();  // so that they are not mistaken for those of another address of this process
    return CannotListen(address, local, error);
  }
  return sockets;
}

UniqueFd AcceptFrom(int listening, int64_t liveness_ms) {
  UniqueFd socket(accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.ok()) Prepare(socket.get(), liveness_ms);
  return socket;
}

absl::StatusOr<UniqueFd> Dial(const SocketAddress& to, int64_t liveness_ms, int* error) {
  absl::StatusOr<UniqueFd> socket = Open(to, error);
  if (!socket.ok() || *error != 0) return socket;
  // The kernel may assign this side the port that a server of this host is about to listen at.
  Set(socket->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  Prepare(socket->get(), liveness_ms);
  if (connect(socket->get(), to.get(), to.bytes()) != 0 && errno != EINPROGRESS) *error = errno;
  return socket;
}

Dialed LookAtDialed(int socket) {
  Dialed dialed;
  socklen_t bytes = sizeof(dialed.error);
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &dialed.error, &bytes) != 0) dialed.error = errno;
  if (dialed.error != 0) return dialed;
  const std::string peer = PeerOf(socket);
  if (peer == kUnknown) return dialed;
  // The kernel may have assigned this side the very port that it connects to, and so connected the socket to itself.
  if (peer == ThisSideOf(socket)) {
    Reset(socket);
    dialed.error = ECONNREFUSED;
  } else {
    dialed.connected = true;
  }
  return dialed;
}

absl::Status CannotReach(absl::string_view shown, absl::string_view why, bool refused) {
  return absl::UnavailableError(
      absl::StrCat("no answer from ", shown, ": ", why,
                   refused ? "; is kv_server running there, and listening at a tcp:// address?" : ""));
}

absl::Status NoAnswerInTime(absl::string_view shown, absl::string_view why) {
  const char* const begin = why.empty() ? "" : " (";
  return absl::UnavailableError(absl::StrCat("no answer of ", shown, " in time", begin, why, why.empty() ? "" : ")"));
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
