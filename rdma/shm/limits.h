// All limits of the shm backend.
#ifndef FARLOOK_RDMA_SHM_LIMITS_H_
#define FARLOOK_RDMA_SHM_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rdma/transport.h"

namespace farlook::rdma::shm {

inline constexpr size_t kCacheLineBytes = 64;

// The rings. Sizes are part of the protocol: see kProtocolVersion.
inline constexpr size_t kCellBytes = kCacheLineBytes;
inline constexpr size_t kCellPayloadBytes = kCellBytes - sizeof(uint64_t);
inline constexpr size_t kClientToServerCells = 4096;  // 256 KiB
inline constexpr size_t kServerToClientCells = 2048;  // 128 KiB
inline constexpr size_t kMaxMessageCells = (kMaxMessageBytes + kCellPayloadBytes - 1) / kCellPayloadBytes;
static_assert(
    kServerToClientCells / 4 + kMaxMessageCells < kServerToClientCells,
    "a consumer that has read all it was sent, and published its head a quarter ago, leaves room for a message");

// Work requests of one connection that are posted and not completed.
inline constexpr size_t kSendQueueDepth = 1024;
static_assert((kSendQueueDepth & (kSendQueueDepth - 1)) == 0, "indices are masked");
inline constexpr uint64_t kMaxReadBytes = uint64_t{1} << 30;

// Ranges of a peer's memory that one connection can name: the listener's offers, and buffers of the peer's endpoint.
inline constexpr uint32_t kRangeSlots = 64;
inline constexpr uint32_t kMaxOffers = 16;
inline constexpr uint32_t kMaxBuffers = kRangeSlots - kMaxOffers;
static_assert((kRangeSlots & (kRangeSlots - 1)) == 0, "an rkey's low bits are its slot");

// All buffers of one peer together: a hostile client cannot use up the server's address space or page tables.
inline constexpr uint64_t kMaxBufferBytes = uint64_t{1} << 30;

// Unfinished handshakes of a listener, beyond which the oldest is dropped, and the time limit of each.
inline constexpr size_t kMaxPendingHandshakes = 128;
inline constexpr int64_t kHandshakeTimeoutMs = 5000;

// Poll() checks the sockets (one system call) once in this many calls.
inline constexpr uint32_t kPollsPerEventCheck = 128;

// Messages that one connection may deliver in one Poll() while others wait; none follows after this many bytes.
inline constexpr size_t kMessagesPerTurn = 16;
inline constexpr size_t kBytesPerTurn = 8192;

// Private memory for the messages of one Poll().
inline constexpr size_t kReceiveArenaBytes = 128 * 1024;
static_assert(kReceiveArenaBytes >= 2 * kMaxMessageBytes, "at least one message of any length fits");

// An endpoint with more connections than kAlwaysPolled stops polling those that were silent for kSilentPolls polls.
inline constexpr size_t kAlwaysPolled = 16;
inline constexpr uint32_t kSilentPolls = 20000;

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_LIMITS_H_
