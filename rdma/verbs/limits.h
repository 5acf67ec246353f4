// Every limit and every time of the verbs backend that the device does not tell.
#ifndef FARLOOK_RDMA_VERBS_LIMITS_H_
#define FARLOOK_RDMA_VERBS_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rdma/transport.h"

namespace farlook::rdma::verbs {

// ---- Messages. A message is preceded by a header (flow_control.h) and lands in one receive buffer.

inline constexpr size_t kMessageHeaderBytes = 8;
inline constexpr size_t kSlotBytes = 4160;
static_assert(kSlotBytes >= kMessageHeaderBytes + kMaxMessageBytes, "a slot holds the longest message");
static_assert(kSlotBytes % 64 == 0, "slots begin at cache lines");
inline constexpr size_t kSlotsPerChunk = 32;

// Receive buffers that a connection has for its peer, who never sends more (flow_control.h), so that no receiver is
// ever not ready. An endpoint that has given out kAmpleReceives is sparing with the rest.
inline constexpr uint32_t kClientWindow = 64;
inline constexpr uint32_t kServerWindow = 128;
inline constexpr uint32_t kSparingWindow = 16;
inline constexpr uint32_t kAmpleReceives = 4096;
inline constexpr uint32_t kMaxSharedReceives = 16384;  // of a shared receive queue
// Of a window, set aside for messages that only bring credits.
inline constexpr uint32_t kControlCredits = 2;
static_assert(kClientWindow <= UINT8_MAX && kServerWindow <= UINT8_MAX, "the handshake has a byte for it");
static_assert(kSparingWindow >= 4 * kControlCredits, "credits come back before the last are used up");

// What is asked of the device for sending inline; it may grant less.
inline constexpr uint32_t kInlineBytes = 256;

// ---- Work requests.

// READs and atomics that a connection takes before it says that it is full. They wait in memory of this process; no
// more than the hardware depth are with the device.
inline constexpr uint32_t kClientSendDepth = 1024;
inline constexpr uint32_t kServerSendDepth = 128;
// A client has one connection for each endpoint, a server hundreds: the completion queue has room for all of each.
inline constexpr uint32_t kClientHardwareDepth = 256;
inline constexpr uint32_t kServerHardwareDepth = 64;

// A SEND is signalled when this many before it were not.
inline constexpr uint32_t kSignalInterval = 16;
// Work requests of one doorbell.
inline constexpr uint32_t kDoorbellBatch = 32;
static_assert(2 * kSignalInterval <= kServerHardwareDepth,
              "a full send queue holds a signalled request, whose completion makes room");
static_assert(kDoorbellBatch <= kServerHardwareDepth, "a batch fits in an empty send queue");

// READs and atomics under way for which an endpoint need not ask the process (TransportOptions::max_outstanding). With
// some of its own under way, its own completions wake it up to ask again.
inline constexpr uint32_t kUnaskedReads = 16;

// A READ is no longer than this, also where the device allows more: one that is under way for long would look like a
// dead peer, and delays the others of its queue pair.
inline constexpr uint64_t kMaxReadBytes = uint64_t{1} << 20;

// Where READs land whose target may not be opened to the peer (iWARP): for each connection that does such.
inline constexpr uint64_t kBounceBytes = uint64_t{1} << 20;
static_assert(kBounceBytes >= kMaxReadBytes, "the longest READ fits");

// ---- Completion queues.

inline constexpr uint32_t kCompletionQueueEntries = 16384;
inline constexpr int kCompletionsPerPoll = 32;
// Poll() looks at descriptors (one system call) once in so many calls.
inline constexpr uint32_t kPollsPerEventCheck = 128;

// ---- Handshakes.

// The peer's hardware address is asked for anew so often. The kernel asks three times within seconds, and then waits
// for an answer as long as it is told to: a link that comes back after that would not be noticed.
inline constexpr int64_t kResolveMs = 1000;
// A listener whose device is gone looks for one so often. No event tells it of a new one.
inline constexpr int64_t kLookForDeviceSeconds = 1;
// Connection requests that the kernel keeps for a listener which does not look.
inline constexpr int kBacklog = 1024;
// A client that was accepted and does not complete the handshake within so many ticks (see liveness.h) is gone.
inline constexpr uint32_t kEstablishTicks = 5;
// A server that was connected to and never grants READs is given up after so many ticks without a word of it.
inline constexpr uint32_t kWithheldTicks = 10;
// Flushed completions come within microseconds. If a driver owes one for longer, the queue pair is destroyed without.
inline constexpr int64_t kDrainTimeoutNs = 1'000'000'000;

// ---- Reliable connections (RoCE, InfiniBand).

// The local ACK timeout is 4.096 us * 2^14 = 67 ms, and a request is sent 1 + 6 times: a peer that does not answer is
// known after 0.47 s on Soft-RoCE; adapters may take up to four times as long, which is still within kLivenessMs.
// Not the timeout that rdma_cm derives: for RoCE it assumes seconds for a packet to live. Never 7 retries: that means
// without end on Soft-RoCE.
inline constexpr uint8_t kAckTimeout = 14;
inline constexpr uint8_t kRetries = 6;
// The receiver is always ready (flow_control.h), unless another client breaks the rules and takes the shared buffers;
// then it is tried again after 0.64 ms (code 12; code 0 would mean 655 ms). 7 would mean without end.
inline constexpr uint8_t kMinRnrTimer = 12;
inline constexpr uint8_t kRnrRetries = 6;

// ---- A queue pair connected to itself (loopback.h).

// Longer than its retries take, also on adapters that take four times as long for them.
inline constexpr int64_t kLoopbackTimeoutNs = 5'000'000'000;
// For so long after a failure the loopback's calls fail at once, in place of waiting for the same again.
inline constexpr int64_t kLoopbackPauseNs = 1'000'000'000;
// A call that waits yields the processor after so many polls: the answer may need it, where the device is software.
inline constexpr uint32_t kLoopbackPolls = 256;

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_LIMITS_H_
