// The protocol of the two sockets of a connection.
//
// A client opens the first socket and sends hello; the server answers with a welcome, which contains a ticket, or with
// a reject. The client opens the second socket to the same address, sends the ticket, and is notified that it is
// attached.
//
// From then on the first socket carries messages, and READs of the client's buffers that the server asks for. The
// second one carries READs of the server's memory that the client asks for; a dedicated thread of the server answers
// them. READs of a socket are answered in order, so they have no number.
//
// Each frame has a head of 16 bytes, its payload, and zeros up to a multiple of 8. Integers are little-endian.
//
//     offset  bytes
//          0      4   bytes of the payload
//          4      1   type
//          5      3   zero
//          8      8   argument
//
//     type           argument                     payload
//     1 hello        of the handshake, below      the user's, at most kMaxHelloBytes
//     2 welcome      of the handshake             ticket (16 bytes), then the user's, at most kMaxWelcomeBytes
//     3 reject       of the handshake             the reason, at most kMaxRejectBytes
//     4 attach       of the handshake             ticket (16 bytes)
//     5 attached     of the handshake             none
//     6 message      messages taken so far        1 to kMaxMessageBytes
//     7 taken        messages taken so far        none
//     8 read         address                      key (4 bytes), bytes (4 bytes)
//     9 data         0                            the next 1 to kChunkBytes of the oldest READ that is not complete
//    10 refused      0                            none: the oldest READ is not allowed; nothing follows
//
// The argument of a handshake is "FARLOOK" and the version, 1.
//
//     03 00 00 00  06 00 00 00  02 00 00 00 00 00 00 00  61 62 63 00 00 00 00 00     message "abc", two were taken
#ifndef FARLOOK_RDMA_TCP_FRAME_H_
#define FARLOOK_RDMA_TCP_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rdma/tcp/bytes.h"

namespace farlook::rdma::tcp {

enum class FrameType : uint8_t {
  kHello = 1,
  kWelcome = 2,
  kReject = 3,
  kAttach = 4,
  kAttached = 5,
  kMessage = 6,
  kTaken = 7,
  kRead = 8,
  kData = 9,
  kRefused = 10,
};

inline constexpr size_t kFrameHeadBytes = 16;
inline constexpr uint8_t kVersion = 1;

using Ticket = std::array<char, 16>;

struct Frame {
  FrameType type = FrameType::kHello;
  uint64_t argument = 0;
  absl::string_view payload;
};

struct ReadOrder {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t bytes = 0;
};

constexpr size_t PaddedBytes(size_t payload) { return (payload + 7) & ~size_t{7}; }

// Returns false, and appends nothing, if there is no memory. The payload is `head` followed by `body`.
bool AppendFrame(FrameType type, uint64_t argument, absl::string_view head, absl::string_view body, Bytes* out);
bool AppendRead(const ReadOrder& order, Bytes* out);
// Returns room for `bytes` of a kData frame, which the caller fills; null if there is no memory. Its padding is zero.
char* AppendData(size_t bytes, Bytes* out);

// Returns the argument of the handshake's frames.
uint64_t Greeting();
// Checks untrusted bytes. FAILED_PRECONDITION: the peer is not Farlook, or has another version.
absl::Status CheckGreeting(const Frame& frame);

enum class Parsed : uint8_t {
  kFrame,
  kPartial,  // the rest has not arrived
  kInvalid,  // no frame begins like that
};

// Takes the next frame off untrusted `*bytes`, which begin at a multiple of 8. `frame` views into them.
Parsed NextFrame(absl::string_view* bytes, Frame* frame);

// REQUIRES: a frame of kRead.
ReadOrder ReadOrderOf(const Frame& frame);
// Returns whether it may be answered from a range of `bytes`, whose first address is 0.
bool LiesWithin(const ReadOrder& order, uint64_t bytes);

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_FRAME_H_
