// Packets with descriptors over a Unix socket, never blocking.
//
// Each call selects non-blocking mode itself (MSG_DONTWAIT), not by a flag of the descriptor. Only sockets are ever
// waited on or written to: each side has its own end. (An eventfd would be one object in both processes. A hostile peer
// could clear its O_NONBLOCK, fill its counter, and make the server block in write.)
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
  kTryLater,  // nothing to receive; or no room to send, since the other end has not received earlier packets
  kNoMemory,  // the kernel is short of memory, or too many descriptors are under way: try again
  kClosed,    // the other end is closed
};

struct ReceivedPacket {
  char data[kMaxPacketBytes + 1];  // one more than any packet, so that a longer one is noticed
  size_t bytes = 0;
  absl::InlinedVector<UniqueFd, 2> fds;
  bool fds_lost = false;  // more arrived than this process may open, or than any packet has

  absl::string_view view() const { return absl::string_view(data, bytes); }
};

// REQUIRES: at most kMaxPacketFds.
Io SendPacket(int socket, absl::string_view packet, absl::Span<const int> fds);

// Descriptors beyond kMaxPacketFds are closed.
Io ReceivePacket(int socket, ReceivedPacket* packet);

// Returns the process that connected the other end, as known to the kernel.
absl::StatusOr<PeerCredentials> CredentialsOf(int socket);
// Returns "pid 4711 uid 1000".
std::string DescribePeer(int socket);

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_PACKET_SOCKET_H_
