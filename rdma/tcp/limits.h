// Every limit and every time of the TCP backend.
#ifndef FARLOOK_RDMA_TCP_LIMITS_H_
#define FARLOOK_RDMA_TCP_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rdma/transport.h"

namespace farlook::rdma::tcp {

// ---- Messages.

// Messages that a side may send and the other has not taken yet. A receiver that does not take them keeps them.
inline constexpr uint64_t kWindow = 64;
// So many taken ones are told of without a message to tell it with.
inline constexpr uint64_t kTellTaken = kWindow / 4;

// ---- READs.

inline constexpr uint32_t kSendDepth = 256;  // posted and not completed
inline constexpr uint64_t kMaxReadBytes = uint64_t{1} << 20;
// What a READ fetched comes in frames of at most this many bytes: of one that is cut by the end of what was received,
// the beginning is copied once more.
inline constexpr size_t kChunkBytes = size_t{16} << 10;
// Whoever answers READs goes on when less than this waits to be sent, so that a peer which asks and does not take the
// answers costs no more.
inline constexpr size_t kMaxUnsentBytes = size_t{256} << 10;
// Of one socket, beyond what the peer's kernel has room for: the kernel takes no more of what is to be sent.
inline constexpr size_t kMaxWaitingInKernelBytes = size_t{128} << 10;

// ---- Receiving.

inline constexpr size_t kReceiveBytes = size_t{64} << 10;  // of one call of recv()
inline constexpr size_t kArenaBytes = size_t{512} << 10;   // of one Poll
// Poll() asks the kernel once in so many calls, where nothing came for kQuietPolls of them.
inline constexpr uint32_t kPollsPerQuietCheck = 16;
inline constexpr uint32_t kQuietPolls = 256;
inline constexpr int kEventsPerCheck = 64;

// ---- Handshakes.

inline constexpr int kBacklog = 1024;
// Sockets that did not say yet what they are: so many, each for so long; then the oldest makes room.
inline constexpr size_t kMaxStrangers = 256;
inline constexpr int64_t kStrangerMs = 2000;
inline constexpr int64_t kStrangerPatienceMs = 100;  // before that nobody makes room: more wait in the kernel
// Clients that the listener's user has not looked at. More wait in the kernel.
inline constexpr size_t kMaxRequests = 256;
// Without descriptors or memory for a socket, accepting pauses.
inline constexpr int64_t kAcceptPauseMs = 100;

// Times are looked at so often.
inline constexpr int64_t kTickMs = 50;

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_LIMITS_H_
