#include "rdma/shm/packet_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace farlook::rdma::shm {
namespace {

struct alignas(cmsghdr) ControlBuffer {
  char bytes[CMSG_SPACE(sizeof(int) * kMaxPacketFds)];
};

}  // namespace

Io SendPacket(int socket, absl::string_view packet, absl::Span<const int> fds) {
  if (fds.size() > kMaxPacketFds) return Io::kClosed;
  iovec piece;
  piece.iov_base = const_cast<char*>(packet.data());
  piece.iov_len = packet.size();
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  ControlBuffer control = {};
  if (!fds.empty()) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  while (true) {
    if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Io::kDone;
    switch (errno) {
      case EINTR:
        continue;
      case EAGAIN:
        return Io::kTryLater;
      case ENOBUFS:
      case ENOMEM:
      case ETOOMANYREFS:  // too many descriptors under way
        return Io::kNoMemory;
      default:
        return Io::kClosed;
    }
  }
}

Io ReceivePacket(int socket, ReceivedPacket* packet) {
  packet->fds.clear();
  packet->bytes = 0;
  iovec piece;
  piece.iov_base = packet->data;
  piece.iov_len = sizeof(packet->data);
  ControlBuffer control;
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  ssize_t received;
  do {
    received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    if (errno == EAGAIN) return Io::kTryLater;
    return errno == ENOMEM || errno == ENOBUFS ? Io::kNoMemory : Io::kClosed;
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
      packet->fds.emplace_back(fd);
    }
  }
  if (received == 0) return Io::kClosed;  // end of file: no peer sends empty packets
  packet->bytes = static_cast<size_t>(received);
  packet->fds_lost = (message.msg_flags & MSG_CTRUNC) != 0;
  return Io::kDone;
}

absl::StatusOr<PeerCredentials> CredentialsOf(int socket) {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot get the peer's credentials from the kernel: ", strerror(errno)));
  }
  PeerCredentials credentials;
  credentials.pid = peer.pid;
  credentials.uid = peer.uid;
  std::vector<gid_t> groups(64);
  bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  int error = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
  if (error != 0 && errno == ERANGE) {  // `bytes` is now the needed size
    groups.resize(bytes / sizeof(gid_t));
    error = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
  }
  groups.resize(error == 0 ? bytes / sizeof(gid_t) : 0);
  credentials.gids.push_back(peer.gid);
  credentials.gids.insert(credentials.gids.end(), groups.begin(), groups.end());
  return credentials;
}

std::string DescribePeer(int socket) {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return "unknown process";
  return absl::StrCat("pid ", peer.pid, " uid ", peer.uid);
}

}  // namespace farlook::rdma::shm
