#include "rdma/verbs/envelope.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/limits.h"

namespace farlook::rdma::verbs {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint8_t kAtomics = 1;
constexpr int kSplitsShift = 1;
constexpr uint8_t kSplitsMask = 3;
constexpr size_t kSplitHeadBytes = 12;
static_assert(kMaxSplitRanges <= kSplitsMask);
static_assert(kMaxSplitRanges * (kSplitHeadBytes + 4 * kMaxRegions) <= kMaxSplitBytes, "users have the rest");
constexpr uint64_t kMaxProbePage = (uint64_t{1} << 48) - 1;

void PutHead(size_t user_bytes, char* to) {
  memcpy(to, &kEnvelopeMagic, 2);
  to[2] = static_cast<char>(kEnvelopeVersion);
  to[3] = static_cast<char>(user_bytes);
}

// OK: `bytes` begins with a head, and holds `head_bytes` and what the head says.
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
    return absl::InvalidArgumentError("the handshake is shorter than it says");
  }
  return absl::OkStatus();
}

std::string EncodeSplit(const SplitRange& split) {
  std::string bytes(kSplitHeadBytes, '\0');
  const uint64_t page = split.address / kRegionAlignment;
  const auto stride = static_cast<uint32_t>(split.stride_bytes / kRegionAlignment);
  const auto keys = static_cast<uint16_t>(split.keys.size());
  memcpy(bytes.data(), &page, 6);
  memcpy(bytes.data() + 6, &stride, 4);
  memcpy(bytes.data() + 10, &keys, 2);
  bytes.append(reinterpret_cast<const char*>(split.keys.data()), 4 * split.keys.size());
  return bytes;
}

// Takes one off the beginning of `*bytes`. False: there is none that makes sense.
bool DecodeSplit(absl::string_view* bytes, SplitRange* split) {
  if (bytes->size() < kSplitHeadBytes) return false;
  uint64_t page = 0;
  uint32_t stride = 0;
  uint16_t keys = 0;
  memcpy(&page, bytes->data(), 6);
  memcpy(&stride, bytes->data() + 6, 4);
  memcpy(&keys, bytes->data() + 10, 2);
  bytes->remove_prefix(kSplitHeadBytes);
  if (stride == 0 || keys < 2 || keys > kMaxRegions || bytes->size() < size_t{4} * keys) return false;
  split->address = page * kRegionAlignment;
  split->stride_bytes = stride * kRegionAlignment;
  split->keys.resize(keys);
  memcpy(split->keys.data(), bytes->data(), size_t{4} * keys);
  bytes->remove_prefix(size_t{4} * keys);
  return true;
}

}  // namespace

size_t SplitBytes(const std::vector<SplitRange>& splits) {
  size_t bytes = 0;
  for (const SplitRange& split : splits) bytes += kSplitHeadBytes + 4 * split.keys.size();
  return bytes;
}

std::string EncodeEnvelope(const Envelope& envelope, absl::string_view user) {
  char head[kEnvelopeBytes];
  PutHead(user.size(), head);
  head[4] = static_cast<char>(envelope.window);
  head[5] = static_cast<char>((envelope.atomics ? kAtomics : 0) | envelope.splits.size() << kSplitsShift);
  const uint64_t page = envelope.probe_address / kProbeAlignment;
  memcpy(head + 6, &page, 6);
  memcpy(head + 12, &envelope.probe_rkey, 4);
  std::string bytes = absl::StrCat(absl::string_view(head, sizeof(head)), user);
  for (const SplitRange& split : envelope.splits) bytes += EncodeSplit(split);
  return bytes;
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
  uint64_t page = 0;
  memcpy(&page, bytes.data() + 6, 6);
  static_assert(kMaxProbePage < UINT64_MAX / kProbeAlignment);
  envelope.probe_address = page * kProbeAlignment;
  memcpy(&envelope.probe_rkey, bytes.data() + 12, 4);
  *user = bytes.substr(kEnvelopeBytes, user_bytes);
  envelope.splits.resize(static_cast<uint8_t>(bytes[5]) >> kSplitsShift & kSplitsMask);
  absl::string_view rest = bytes.substr(kEnvelopeBytes + user_bytes);
  for (SplitRange& split : envelope.splits) {
    if (envelope.splits.size() > kMaxSplitRanges || !DecodeSplit(&rest, &split)) {
      return absl::InvalidArgumentError("the handshake tells of memory regions in a way that makes no sense");
    }
  }
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
