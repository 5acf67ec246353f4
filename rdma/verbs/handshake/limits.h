// All limits and times of the verbs backend that the device does not determine.
#ifndef FARLOOK_RDMA_VERBS_HANDSHAKE_LIMITS_H_
#define FARLOOK_RDMA_VERBS_HANDSHAKE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rdma/transport.h"

namespace farlook::rdma::verbs {

// ---- Messages. A message is preceded by a header (flow_control.h) and is received in one buffer.

inline constexpr size_t kMessageHeaderBytes = 8;
inline constexpr size_t kSlotBytes = 4160;
static_assert(kSlotBytes >= kMessageHeaderBytes + kMaxMessageBytes, "a slot holds the longest message");
static_assert(kSlotBytes % 64 == 0, "slots begin at cache lines");
inline constexpr size_t kSlotsPerChunk = 32;

// Receive buffers that a connection has for its peer, which never sends more (flow_control.h), so that a receiver is
// always ready. An endpoint that has assigned kAmpleReceives uses smaller windows from then on.
inline constexpr uint32_t kClientWindow = 64;
inline constexpr uint32_t kServerWindow = 128;
inline constexpr uint32_t kSparingWindow = 16;
inline constexpr uint32_t kAmpleReceives = 4096;
inline constexpr uint32_t kMaxSharedReceives = 16384;  // of a shared receive queue
// Part of a window that is reserved for messages that only grant credits.
inline constexpr uint32_t kControlCredits = 2;
static_assert(kClientWindow <= UINT8_MAX && kServerWindow <= UINT8_MAX, "the handshake has a byte for it");
static_assert(kSparingWindow >= 4 * kControlCredits, "credits come back before the last are used up");

// Requested bytes for sending inline; the device may grant fewer.
inline constexpr uint32_t kInlineBytes = 256;

// ---- Work requests.

// READs and atomics that a connection accepts before it reports that it is full. They wait in memory of this process;
// at most the hardware depth is with the device.
inline constexpr uint32_t kClientSendDepth = 1024;
inline constexpr uint32_t kServerSendDepth = 128;
// A client has one connection for each endpoint, a server hundreds: the completion queue has room for all of each.
inline constexpr uint32_t kClientHardwareDepth = 256;
inline constexpr uint32_t kServerHardwareDepth = 64;

// A SEND is signalled if this many before it were not.
inline constexpr uint32_t kSignalInterval = 16;
// Work requests of one doorbell.
inline constexpr uint32_t kDoorbellBatch = 32;
static_assert(2 * kSignalInterval <= kServerHardwareDepth,
              "a full send queue holds a signalled request, whose completion makes room");
static_assert(kDoorbellBatch <= kServerHardwareDepth, "a batch fits in an empty send queue");

// READs and atomics that an endpoint may have under way without asking the process-wide limit
// (TransportOptions::max_outstanding). With some of its own under way, its own completions wake it up to ask again.
inline constexpr uint32_t kUnaskedReads = 16;

// A READ is at most this long, even if the device allows more: a long one would look like a dead peer, and would delay
// others of its queue pair.
inline constexpr uint64_t kMaxReadBytes = uint64_t{1} << 20;

// Intermediate memory for READs whose destination must not be writable for the peer (iWARP): for each connection that
// needs it.
inline constexpr uint64_t kBounceBytes = uint64_t{1} << 20;
static_assert(kBounceBytes >= kMaxReadBytes, "the longest READ fits");

// ---- Completion queues.

inline constexpr uint32_t kCompletionQueueEntries = 16384;
inline constexpr int kCompletionsPerPoll = 32;
// Poll() checks descriptors (one system call) once in this many calls.
inline constexpr uint32_t kPollsPerEventCheck = 128;

// ---- Handshakes.

// Interval at which the peer's hardware address is requested again. The kernel asks three times within seconds, and
// then waits for the whole timeout: a link that returns after that would not be noticed.
inline constexpr int64_t kResolveMs = 1000;
// Duration of a client's first attempt to connect; later ones last half as long as all before them together. Then
// another one begins, until the caller's timeout. The kernel repeats a lost request only after 4.3 s. Attempts grow so
// that a server that is slow because many clients connect at once does not get ever more requests.
inline constexpr int64_t kLeastAttemptNs = 1'000'000'000;
// Interval at which a listener without a device looks for one. No event reports a new one.
inline constexpr int64_t kLookForDeviceSeconds = 1;
// Connection requests that the kernel keeps until the listener takes them.
inline constexpr int kBacklog = 1024;
// An accepted client that does not complete the handshake within this many ticks (see liveness.h) counts as lost.
inline constexpr uint32_t kEstablishTicks = 5;
// A server that never grants READs is given up after this many ticks without a message.
inline constexpr uint32_t kWithheldTicks = 10;
// Flushed completions arrive within microseconds. If a driver delays one for longer than this, the queue pair is
// destroyed without it.
inline constexpr int64_t kDrainTimeoutNs = 1'000'000'000;

// ---- Reliable connections (RoCE, InfiniBand).

// The local ACK timeout is 4.096 us * 2^14 = 67 ms, and a request is sent 1 + 6 times. So a peer that does not answer
// is detected after 0.47 s on Soft-RoCE. Adapters may take up to four times as long, which is still below the default
// of TransportOptions::liveness_ms. The timeout that rdma_cm derives is not used: for RoCE it assumes a packet lifetime
// of seconds. Never 7 retries: on Soft-RoCE that means unlimited.
inline constexpr uint8_t kAckTimeout = 14;
inline constexpr uint8_t kRetries = 6;
// The receiver is always ready (flow_control.h), unless another client breaks the rules and uses up the shared buffers;
// then a retry follows after 0.64 ms (code 12; code 0 would mean 655 ms). 7 retries would mean unlimited.
inline constexpr uint8_t kMinRnrTimer = 12;
inline constexpr uint8_t kRnrRetries = 6;

// ---- A queue pair connected to itself (loopback.h).

// Longer than its retries take, also on adapters that take four times as long for them.
inline constexpr int64_t kLoopbackTimeoutNs = 5'000'000'000;
// For this time after a failure the loopback's calls fail at once instead of waiting again.
inline constexpr int64_t kLoopbackPauseNs = 1'000'000'000;
// A call that waits yields the processor after this many polls: a software device may need it for the answer.
inline constexpr uint32_t kLoopbackPolls = 256;

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_HANDSHAKE_LIMITS_H_
