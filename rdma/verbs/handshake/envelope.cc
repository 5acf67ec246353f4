#include "rdma/verbs/handshake/envelope.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint8_t kAtomics = 1;
constexpr uint8_t kReadsWithheld = 2;
constexpr uint64_t kMaxProbePage = (uint64_t{1} << 48) - 1;

void PutHead(size_t user_bytes, char* to) {
  memcpy(to, &kEnvelopeMagic, 2);
  to[2] = static_cast<char>(kEnvelopeVersion);
  to[3] = static_cast<char>(user_bytes);
}

// Returns OK if `bytes` begins with a head, and has `head_bytes` and the length given in the head.
absl::Status CheckHead(absl::string_view bytes, size_t head_bytes, size_t* user_bytes) {
  uint16_t magic = 0;
  if (bytes.size() >= kRejectHeadBytes) memcpy(&magic, bytes.data(), 2);
  if (magic != kEnvelopeMagic)
    return absl::InvalidArgumentError("the other side is not a Farlook server, or of another protocol version");
  const auto version = static_cast<uint8_t>(bytes[2]);
  if (version != kEnvelopeVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the versions differ: the other side's transport has version ",
                                                      version, ", this one ", kEnvelopeVersion));
  }
  *user_bytes = static_cast<uint8_t>(bytes[3]);
  if (bytes.size() < head_bytes + *user_bytes) {
    return absl::InvalidArgumentError("the handshake is shorter than its stated length");
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeEnvelope(const Envelope& envelope, absl::string_view user) {
  char head[kEnvelopeBytes];
  PutHead(user.size(), head);
  head[4] = static_cast<char>(envelope.window);
  head[5] = static_cast<char>((envelope.atomics ? kAtomics : 0) | (envelope.reads_withheld ? kReadsWithheld : 0));
  const uint64_t page = envelope.probe_address / kProbeAlignment;
  memcpy(head + 6, &page, 6);
  memcpy(head + 12, &envelope.probe_rkey, 4);
  return absl::StrCat(absl::string_view(head, sizeof(head)), user);
}

absl::StatusOr<Envelope> DecodeEnvelope(absl::string_view bytes, absl::string_view* user) {
  size_t user_bytes = 0;
  if (absl::Status status = CheckHead(bytes, kEnvelopeBytes, &user_bytes); !status.ok()) return status;
  Envelope envelope;
  envelope.window = static_cast<uint8_t>(bytes[4]);
  if (envelope.window < kSparingWindow) {
    return absl::InvalidArgumentError(absl::StrCat("a window of ", envelope.window, " messages is too small"));
  }
  envelope.atomics = (static_cast<uint8_t>(bytes[5]) & kAtomics) != 0;
  envelope.reads_withheld = (static_cast<uint8_t>(bytes[5]) & kReadsWithheld) != 0;
  uint64_t page = 0;
  memcpy(&page, bytes.data() + 6, 6);
  static_assert(kMaxProbePage < UINT64_MAX / kProbeAlignment);
  envelope.probe_address = page * kProbeAlignment;
  memcpy(&envelope.probe_rkey, bytes.data() + 12, 4);
  *user = bytes.substr(kEnvelopeBytes, user_bytes);
  return envelope;
}

std::string EncodeReject(absl::string_view reason) {
  reason = reason.substr(0, kMaxRejectBytes);
  char head[kRejectHeadBytes];
  PutHead(reason.size(), head);
  return absl::StrCat(absl::string_view(head, sizeof(head)), reason);
}

absl::StatusOr<absl::string_view> DecodeReject(absl::string_view bytes) {
  size_t user_bytes = 0;
  if (absl::Status status = CheckHead(bytes, kRejectHeadBytes, &user_bytes); !status.ok()) return status;
  return bytes.substr(kRejectHeadBytes, user_bytes);
}

}  // namespace farlook::rdma::verbs
