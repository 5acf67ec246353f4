// Packets with descriptors over a Unix socket, never blocking.
//
// Whether a call blocks is said with each call (MSG_DONTWAIT), not by a flag of the descriptor. Only sockets are ever
// waited on or written to: each side has its own end. (An eventfd would be one object in both processes, and a hostile
// peer could clear its O_NONBLOCK, fill its counter, and have the server block in write.)
#ifndef FARLOOK_RDMA_SHM_PACKET_SOCKET_H_
#define FARLOOK_RDMA_SHM_PACKET_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shm/packet.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {

enum class Io : uint8_t {
  kDone,
  kTryLater,  // nothing to receive; or no room to send, since the other end has not received what was sent before
  kNoMemory,  // the kernel is short of memory, or too many descriptors are under way: try again
  kClosed,    // the other end is gone
};

struct ReceivedPacket {
  char data[kMaxPacketBytes + 1];  // one more than any packet, so that a longer one is noticed
  size_t bytes = 0;
  absl::InlinedVector<UniqueFd, 2> fds;
  bool fds_lost = false;  // there came more than this process may open, or than any packet has

  absl::string_view view() const { return absl::string_view(data, bytes); }
};

// REQUIRES: at most kMaxPacketFds.
Io SendPacket(int socket, absl::string_view packet, absl::Span<const int> fds);

// Descriptors beyond kMaxPacketFds are closed.
Io ReceivePacket(int socket, ReceivedPacket* packet);

// Who connected the other end, as the kernel knows it.
absl::StatusOr<PeerCredentials> CredentialsOf(int socket);
// "pid 4711 uid 1000".
std::string DescribePeer(int socket);

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_PACKET_SOCKET_H_
