// The transport's own part of the private data of a handshake, around its user's part.
//
// rdma_cm carries 56, 196 and 148 bytes in total with a connect, an accept and a reject, and may deliver them padded
// with zeros. So the envelope contains a magic, a version and the length of the user's part. Integers are
// little-endian.
//
//     offset  bytes   connect and accept                                reject
//          0      2   magic 0x4c46 ("FL")                               the same
//          2      1   version, 1                                        the same
//          3      1   length of the user's part                         the same
//          4      1   window: messages that the other side may send     the reason
//          5      1   flags: 1 atomics are granted to the other side; 2 READs are withheld until it is notified
//                     (liveness.h); others are 0 and ignored
//          6      6   address of a readable 8-byte word / 4096          (see liveness.h)
//         12      4   its rkey
//         16          the user's part
//
//     46 4c 01 05  40 01  34 12 00 00 00 00  78 56 00 00  68 65 6c 6c 6f     window 64, atomics, word at 0x1234000
//                                                                            with rkey 0x5678, "hello"
#ifndef FARLOOK_RDMA_VERBS_HANDSHAKE_ENVELOPE_H_
#define FARLOOK_RDMA_VERBS_HANDSHAKE_ENVELOPE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/transport.h"

namespace farlook::rdma::verbs {

inline constexpr uint16_t kEnvelopeMagic = 0x4c46;
inline constexpr uint8_t kEnvelopeVersion = 1;
inline constexpr size_t kEnvelopeBytes = 16;
inline constexpr size_t kRejectHeadBytes = 4;
// The readable word is at the beginning of a page, so that its address fits.
inline constexpr uint64_t kProbeAlignment = 4096;

static_assert(kEnvelopeBytes + kMaxHelloBytes == 56, "the private data of a connect");
static_assert(kEnvelopeBytes + kMaxWelcomeBytes == 196, "the private data of an accept");
static_assert(kRejectHeadBytes + kMaxRejectBytes == 148, "the private data of a reject");

struct Envelope {
  uint8_t window = 0;  // at least kSparingWindow
  bool atomics = false;
  bool reads_withheld = false;
  uint64_t probe_address = 0;  // a multiple of kProbeAlignment, below 2^60
  uint32_t probe_rkey = 0;
};

// REQUIRES: `user` has at most kMaxWelcomeBytes.
std::string EncodeEnvelope(const Envelope& envelope, absl::string_view user);

// Decodes untrusted bytes. `*user` receives a view into them. FAILED_PRECONDITION: another version. INVALID_ARGUMENT:
// not from Farlook. The message can be sent as the reason of a reject.
absl::StatusOr<Envelope> DecodeEnvelope(absl::string_view bytes, absl::string_view* user);

// Cuts the reason to kMaxRejectBytes.
std::string EncodeReject(absl::string_view reason);
// Returns the reason, or an error as above.
absl::StatusOr<absl::string_view> DecodeReject(absl::string_view bytes);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_HANDSHAKE_ENVELOPE_H_
