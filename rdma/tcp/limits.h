// All limits and times of the TCP backend.
#ifndef FARLOOK_RDMA_TCP_LIMITS_H_
#define FARLOOK_RDMA_TCP_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rdma/transport.h"

namespace farlook::rdma::tcp {

// ---- Messages.

// Messages that a side may send before the other has taken them. A receiver that does not take them stores them.
inline constexpr uint64_t kWindow = 64;
// After this many taken messages the peer is notified, even if there is no message to send.
inline constexpr uint64_t kReportConsumed = kWindow / 4;

// ---- READs.

inline constexpr uint32_t kSendDepth = 256;  // posted and not completed
inline constexpr uint64_t kMaxReadBytes = uint64_t{1} << 20;
// Fetched bytes are sent in frames of at most this many. If the end of a received block cuts a frame, its beginning is
// copied once more.
inline constexpr size_t kChunkBytes = size_t{16} << 10;
// An answer to a READ continues only while less than this waits to be sent, so that a peer that does not take its
// answers costs no more.
inline constexpr size_t kMaxUnsentBytes = size_t{256} << 10;
// Limit of unsent bytes in one socket, beyond the room in the peer's kernel.
inline constexpr size_t kMaxWaitingInKernelBytes = size_t{128} << 10;

// ---- Receiving.

inline constexpr size_t kReceiveBytes = size_t{64} << 10;  // of one call of recv()
inline constexpr size_t kArenaBytes = size_t{512} << 10;   // of one Poll
// Poll() checks the sockets once in kPollsPerQuietCheck calls, after kQuietPolls calls without an arrival.
inline constexpr uint32_t kPollsPerQuietCheck = 16;
inline constexpr uint32_t kQuietPolls = 256;
inline constexpr int kEventsPerCheck = 64;

// ---- Handshakes.

inline constexpr int kBacklog = 1024;
// Limits of sockets that have not introduced themselves yet: their number, and the time of each. At the limit the
// oldest is closed.
inline constexpr size_t kMaxStrangers = 256;
inline constexpr int64_t kStrangerMs = 2000;
inline constexpr int64_t kStrangerPatienceMs = 100;  // no socket is closed earlier to make room: others wait
// Clients that the listener's user has not taken yet. More wait in the kernel.
inline constexpr size_t kMaxRequests = 256;
// Pause of accepting without descriptors or memory for a socket.
inline constexpr int64_t kAcceptPauseMs = 100;

// A client dials the next address of a name if this one has not answered within this time.
inline constexpr int64_t kStaggerMs = 50;

// Interval at which timeouts are checked.
inline constexpr int64_t kTickMs = 50;

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_LIMITS_H_
