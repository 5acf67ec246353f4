#include "rdma/tcp/frame.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rdma/tcp/limits.h"
#include "rdma/transport.h"

namespace farlook::rdma::tcp {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Head {
  uint32_t payload_bytes;
  FrameType type;
  uint8_t zero[3];
  uint64_t argument;
};
static_assert(sizeof(Head) == kFrameHeadBytes);

constexpr size_t kReadPayloadBytes = 8;
constexpr char kMagic[] = "FARLOOK";  // with its zero as long as the argument, whose last byte is the version
static_assert(sizeof(kMagic) == sizeof(uint64_t));

// Limits of a payload's length.
struct Bounds {
  size_t least;
  size_t most;
};

Bounds BoundsOf(FrameType type) {
  switch (type) {
    case FrameType::kHello:
      return {0, kMaxHelloBytes};
    case FrameType::kWelcome:
      return {sizeof(Ticket), sizeof(Ticket) + kMaxWelcomeBytes};
    case FrameType::kReject:
      return {0, kMaxRejectBytes};
    case FrameType::kAttach:
      return {sizeof(Ticket), sizeof(Ticket)};
    case FrameType::kMessage:
      return {1, kMaxMessageBytes};
    case FrameType::kRead:
      return {kReadPayloadBytes, kReadPayloadBytes};
    case FrameType::kData:
      return {1, kChunkBytes};
    case FrameType::kAttached:
    case FrameType::kTaken:
    case FrameType::kRefused:
      return {0, 0};
  }
  return {1, 0};  // no length is valid for an unknown type
}

// Returns the address for the payload; its padding is zero.
char* AppendHead(FrameType type, uint64_t argument, size_t payload_bytes, Bytes* out) {
  const size_t padded = PaddedBytes(payload_bytes);
  char* const to = out->Grow(kFrameHeadBytes + padded);
  if (to == nullptr) return nullptr;
  const Head head = {static_cast<uint32_t>(payload_bytes), type, {}, argument};
  memcpy(to, &head, sizeof(head));
  if (padded > payload_bytes) memset(to + kFrameHeadBytes + padded - 8, 0, 8);
  return to + kFrameHeadBytes;
}

}  // namespace

bool AppendFrame(FrameType type, uint64_t argument, absl::string_view head, absl::string_view body, Bytes* out) {
  char* const to = AppendHead(type, argument, head.size() + body.size(), out);
  if (to == nullptr) return false;
  if (!head.empty()) memcpy(to, head.data(), head.size());
  if (!body.empty()) memcpy(to + head.size(), body.data(), body.size());
  return true;
}

bool AppendRead(const ReadOrder& order, Bytes* out) {
  char payload[kReadPayloadBytes];
  memcpy(payload, &order.rkey, 4);
  memcpy(payload + 4, &order.bytes, 4);
  return AppendFrame(FrameType::kRead, order.address, absl::string_view(payload, sizeof(payload)), "", out);
}

char* AppendData(size_t bytes, Bytes* out) { return AppendHead(FrameType::kData, 0, bytes, out); }

uint64_t Greeting() {
  uint64_t greeting;
  memcpy(&greeting, kMagic, sizeof(greeting));
  return greeting | uint64_t{kVersion} << 56;
}

absl::Status CheckGreeting(const Frame& frame) {
  constexpr uint64_t kMagicMask = (uint64_t{1} << 56) - 1;
  if (((frame.argument ^ Greeting()) & kMagicMask) != 0) {
    return absl::FailedPreconditionError("the program that answers there does not speak Farlook's protocol");
  }
  if (frame.argument == Greeting()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the other side has version ", frame.argument >> 56,
                                                    " of the protocol over TCP, and this one version ", kVersion));
}

Parsed NextFrame(absl::string_view* bytes, Frame* frame) {
  if (bytes->size() < kFrameHeadBytes) return Parsed::kPartial;
  Head head;
  memcpy(&head, bytes->data(), sizeof(head));
  const Bounds bounds = BoundsOf(head.type);
  if (head.payload_bytes < bounds.least || head.payload_bytes > bounds.most) return Parsed::kInvalid;
  if (head.zero[0] != 0 || head.zero[1] != 0 || head.zero[2] != 0) return Parsed::kInvalid;
  const size_t whole = kFrameHeadBytes + PaddedBytes(head.payload_bytes);
  if (bytes->size() < whole) return Parsed::kPartial;
  frame->type = head.type;
  frame->argument = head.argument;
  frame->payload = bytes->substr(kFrameHeadBytes, head.payload_bytes);
  bytes->remove_prefix(whole);
  return Parsed::kFrame;
}

ReadOrder ReadOrderOf(const Frame& frame) {
  ReadOrder order;
  order.address = frame.argument;
  memcpy(&order.rkey, frame.payload.data(), 4);
  memcpy(&order.bytes, frame.payload.data() + 4, 4);
  return order;
}

bool LiesWithin(const ReadOrder& order, uint64_t bytes) {
  return order.bytes > 0 && order.bytes <= kMaxReadBytes && order.address % 8 == 0 && order.address <= bytes &&
         order.bytes <= bytes - order.address;
}

}  // namespace farlook::rdma::tcp
