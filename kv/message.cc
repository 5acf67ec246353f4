#include "kv/message.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kv/counter_value.h"
#include "kv/words.h"

namespace farlook::kv {
namespace {

// What every handshake message begins with. `least` is the length that this version needs; later ones may be longer.
absl::Status CheckHandshake(absl::string_view bytes, size_t least, absl::string_view who) {
  if (bytes.size() < 8 || LoadAs<uint32_t>(bytes.data()) != kHandshakeMagic) {
    return absl::InvalidArgumentError(absl::StrCat("the peer is not a Farlook ", who));
  }
  const uint16_t version = LoadAs<uint16_t>(bytes.data() + 4);
  if (version != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("Farlook protocol version ", kProtocolVersion, " here, ", version,
                                                      " at the ", who, ": use the same release on both sides"));
  }
  const uint16_t length = LoadAs<uint16_t>(bytes.data() + 6);
  if (length < least || length > bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", who, "'s handshake has ", bytes.size(), " bytes, says ", length, " and needs ", least));
  }
  return absl::OkStatus();
}

void BeginHandshake(std::string* bytes) {
  StoreAs<uint32_t>(bytes->data(), kHandshakeMagic);
  StoreAs<uint16_t>(bytes->data() + 4, kProtocolVersion);
  StoreAs<uint16_t>(bytes->data() + 6, static_cast<uint16_t>(bytes->size()));
}

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed message: ", what));
}

bool AllZero(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

// Fills in and checks what a request about a counter says beside its key.
absl::Status DecodeCounter(const char* at, Request* request) {
  request->operand = LoadAs<int64_t>(at + 16);
  request->desired = LoadAs<int64_t>(at + 24);
  const auto live = [](int64_t value) { return StateOf(value) == CellState::kLive; };
  bool possible = request->operand == 0;
  switch (request->type) {
    case RequestType::kCounterCreate:
      possible = live(request->operand);
      break;
    case RequestType::kCounterAdd:
      possible = ValidDelta(request->operand);
      break;
    case RequestType::kCounterSwap:  // a value out of range may be expected: that is how it is put right
      possible = StateOf(request->operand) != CellState::kDead && live(request->desired);
      break;
    case RequestType::kCellsDropped:
      possible = request->operand != 0 && request->key.empty();
      break;
    default:
      break;
  }
  if (request->type != RequestType::kCounterSwap && request->desired != 0) possible = false;
  return possible ? absl::OkStatus() : Malformed("request: an impossible number for a counter");
}

}  // namespace

std::string Hello::Encode() const {
  std::string bytes(kBytes, '\0');
  BeginHandshake(&bytes);
  char* at = bytes.data();
  StoreAs(at + 8, flags);
  StoreAs(at + 12, epoch);
  StoreAs(at + 16, session);
  StoreAs(at + 24, incarnation);
  StoreAs(at + 32, acknowledged);
  return bytes;
}

absl::StatusOr<Hello> Hello::Decode(absl::string_view bytes) {
  if (absl::Status status = CheckHandshake(bytes, kBytes, "client"); !status.ok()) return status;
  const char* at = bytes.data();
  Hello hello;
  hello.flags = LoadAs<uint32_t>(at + 8);
  hello.epoch = LoadAs<uint32_t>(at + 12);
  hello.session = LoadAs<uint64_t>(at + 16);
  hello.incarnation = LoadAs<uint64_t>(at + 24);
  hello.acknowledged = LoadAs<uint64_t>(at + 32);
  if ((hello.flags & ~uint32_t{kReadOnly}) != 0) return Malformed("hello: unknown flags");
  return hello;
}

std::string Welcome::Encode() const {
  std::string bytes(kBytes, '\0');
  BeginHandshake(&bytes);
  char* at = bytes.data();
  StoreAs(at + 8, flags);
  StoreAs(at + 12, epoch);
  StoreAs(at + 16, session);
  StoreAs(at + 24, incarnation);
  StoreAs(at + 32, window);
  StoreAs(at + 36, table.rkey);
  StoreAs(at + 40, table.address);
  StoreAs(at + 48, table.bytes);
  StoreAs(at + 56, counters.rkey);
  StoreAs(at + 60, atomics);
  StoreAs(at + 64, counters.address);
  StoreAs(at + 72, counters.bytes);
  StoreAs(at + 80, max_value_bytes);
  return bytes;
}

absl::StatusOr<Welcome> Welcome::Decode(absl::string_view bytes) {
  if (absl::Status status = CheckHandshake(bytes, kBytes, "server"); !status.ok()) return status;
  const char* at = bytes.data();
  Welcome welcome;
  welcome.flags = LoadAs<uint32_t>(at + 8);
  welcome.epoch = LoadAs<uint32_t>(at + 12);
  welcome.session = LoadAs<uint64_t>(at + 16);
  welcome.incarnation = LoadAs<uint64_t>(at + 24);
  welcome.window = LoadAs<uint32_t>(at + 32);
  welcome.table = {LoadAs<uint64_t>(at + 40), LoadAs<uint64_t>(at + 48), LoadAs<uint32_t>(at + 36)};
  welcome.counters = {LoadAs<uint64_t>(at + 64), LoadAs<uint64_t>(at + 72), LoadAs<uint32_t>(at + 56)};
  welcome.atomics = LoadAs<uint32_t>(at + 60);
  welcome.max_value_bytes = LoadAs<uint64_t>(at + 80);
  if (welcome.session == 0 || welcome.window == 0 || welcome.window > kMaxWindow) {
    return Malformed("welcome: no session, or an impossible window");
  }
  if (welcome.table.bytes < kMinRegionBytes || welcome.table.bytes > kMaxRegionBytes) {
    return Malformed("welcome: impossible table size");
  }
  if (welcome.max_value_bytes > kMaxValueBytes) return Malformed("welcome: impossible value limit");
  if ((welcome.counters.rkey != 0) != (welcome.atomics != 0)) {
    return Malformed("welcome: a key to cells without atomics, or atomics without a key");
  }
  return welcome;
}

size_t Request::EncodeHead(char* to) const {
  std::memset(to, 0, kHeaderBytes);
  StoreAs(to, static_cast<uint8_t>(type));
  StoreAs(to + 1, static_cast<uint8_t>(condition));
  StoreAs(to + 2, static_cast<uint16_t>(key.size()));
  StoreAs(to + 4, value_bytes);
  StoreAs(to + 8, number);
  if (type >= RequestType::kCounterCreate) {
    StoreAs(to + 16, operand);
    StoreAs(to + 24, desired);
  } else {
    StoreAs(to + 16, version);
  }
  if (!key.empty()) std::memcpy(to + kHeaderBytes, key.data(), key.size());
  size_t bytes = kHeaderBytes + key.size();
  if (type != RequestType::kPutPulled) return bytes;
  for (; bytes % 8 != 0; ++bytes) to[bytes] = 0;
  StoreAs(to + bytes, source.address);
  StoreAs(to + bytes + 8, source.hash);
  StoreAs(to + bytes + 16, source.rkey);
  StoreAs(to + bytes + 20, uint32_t{0});
  return bytes + ValueSource::kBytes;
}

absl::StatusOr<Request> Request::Decode(absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return Malformed("request: shorter than its header");
  const char* at = bytes.data();
  Request request;
  const uint8_t type = LoadAs<uint8_t>(at);
  const uint8_t condition = LoadAs<uint8_t>(at + 1);
  const size_t key_bytes = LoadAs<uint16_t>(at + 2);
  if (type < static_cast<uint8_t>(RequestType::kPut) || type > static_cast<uint8_t>(RequestType::kCellsDropped)) {
    return Malformed(absl::StrCat("request: unknown type ", type));
  }
  request.type = static_cast<RequestType>(type);
  if (condition > static_cast<uint8_t>(Condition::kVersion)) {
    return Malformed(absl::StrCat("request: unknown condition ", condition));
  }
  request.condition = static_cast<Condition>(condition);
  request.value_bytes = LoadAs<uint32_t>(at + 4);
  request.number = LoadAs<uint64_t>(at + 8);
  const bool counter = request.type >= RequestType::kCounterCreate;
  if (!counter) {
    request.version = LoadAs<uint64_t>(at + 16);
    if (LoadAs<uint64_t>(at + 24) != 0) return Malformed("request: reserved bytes are not zero");
  }
  const bool numbered = request.type != RequestType::kCellsDropped;
  if (numbered && request.number == 0) return Malformed("request: number 0");
  if (!numbered && request.number != 0) return Malformed("request: a number where none belongs");
  if (key_bytes > kMaxKeyBytes) return Malformed("request: key above 1,024 bytes");
  if (bytes.size() - kHeaderBytes < key_bytes) return Malformed("request: key is cut short");
  request.key = bytes.substr(kHeaderBytes, key_bytes);
  absl::string_view rest = bytes.substr(kHeaderBytes + key_bytes);

  const bool keyed = request.type != RequestType::kPing && request.type != RequestType::kStat && numbered;
  if (keyed && key_bytes < kMinKeyBytes) return Malformed("request: empty key");
  if ((!keyed || counter) && request.condition != Condition::kAlways)
    return Malformed("request: a condition where none belongs");
  if (counter) {
    if (absl::Status status = DecodeCounter(at, &request); !status.ok()) return status;
  }
  switch (request.type) {
    case RequestType::kPut:
      if (rest.size() != request.value_bytes) return Malformed("request: value of another length than it says");
      request.value = rest;
      return request;
    case RequestType::kPutPulled: {
      const size_t padding = (8 - (kHeaderBytes + key_bytes) % 8) % 8;
      if (rest.size() != padding + ValueSource::kBytes || !AllZero(rest.substr(0, padding))) {
        return Malformed("request: where to pull the value from is cut short");
      }
      const char* source = rest.data() + padding;
      request.source.address = LoadAs<uint64_t>(source);
      request.source.hash = LoadAs<uint64_t>(source + 8);
      request.source.rkey = LoadAs<uint32_t>(source + 16);
      if (LoadAs<uint32_t>(source + 20) != 0) return Malformed("request: reserved bytes are not zero");
      if (request.source.address % 8 != 0) return Malformed("request: the value to pull is not aligned");
      return request;
    }
    default:
      if (!rest.empty() || request.value_bytes != 0) return Malformed("request: a value where none belongs");
      return request;
  }
}

absl::string_view CodeName(Code code) {
  static constexpr absl::string_view kNames[kCodes] = {
      "ok",        "not_found", "exists",          "version_mismatch", "no_memory",     "index_full",  "too_large",
      "read_only", "bad_value", "outcome_unknown", "wrong_kind",       "shutting_down", "out_of_range"};
  const size_t i = static_cast<size_t>(code);
  return i < kCodes ? kNames[i] : "unknown";
}

void Reply::EncodeHead(char* to) const {
  StoreAs(to, uint64_t{static_cast<uint8_t>(code)} | uint64_t{payload.size()} << 32);
  StoreAs(to + 8, number);
  StoreAs(to + 16, version);
  StoreAs(to + 24, slot.word());
}

absl::StatusOr<Reply> Reply::Decode(absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return Malformed("reply: shorter than its header");
  const char* at = bytes.data();
  const uint8_t code = LoadAs<uint8_t>(at);
  if (code >= kCodes) return Malformed(absl::StrCat("reply: unknown code ", code));
  if (LoadAs<uint8_t>(at + 1) != 0 || LoadAs<uint16_t>(at + 2) != 0) {
    return Malformed("reply: reserved bytes are not zero");
  }
  Reply reply;
  reply.code = static_cast<Code>(code);
  reply.number = LoadAs<uint64_t>(at + 8);
  reply.version = LoadAs<uint64_t>(at + 16);
  reply.slot = Slot(LoadAs<uint64_t>(at + 24));
  reply.payload = bytes.substr(kHeaderBytes);
  if (reply.payload.size() != LoadAs<uint32_t>(at + 4))
    return Malformed("reply: payload of another length than it says");
  return reply;
}

}  // namespace farlook::kv
