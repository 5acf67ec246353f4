#include "kv/handshake.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kv/fields.h"
#include "kv/words.h"

namespace farlook::kv {
namespace {

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed message: ", what));
}

absl::Status OtherRelease(absl::string_view who, absl::string_view theirs) {
  const std::string ours =
      kMinVersion == kMaxVersion ? absl::StrCat(kMaxVersion) : absl::StrCat(kMinVersion, " to ", kMaxVersion);
  return absl::FailedPreconditionError(absl::StrCat("Farlook protocol version ", ours, " here, ", theirs, " at the ",
                                                    who, ": use the same release on both sides"));
}

absl::Status UnknownFlags(absl::string_view who) {
  return absl::FailedPreconditionError(
      absl::StrCat("the ", who, " asks for something that this release does not know: use the later release"));
}

// What both parts of private data begin with: magic and length.
absl::Status CheckPrivateData(absl::string_view bytes, size_t least, absl::string_view who) {
  if (bytes.size() < 8 || LoadAs<uint32_t>(bytes.data()) != kConnectMagic) {
    return absl::InvalidArgumentError(absl::StrCat("the peer is not a Farlook ", who));
  }
  const uint16_t length = LoadAs<uint16_t>(bytes.data() + 4);
  if (length == 1) return OtherRelease(who, "1");  // where version 1 had its version
  if (length < least || length > bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", who, "'s handshake has ", bytes.size(), " bytes, says ", length, " and needs ", least));
  }
  return absl::OkStatus();
}

void BeginPrivateData(std::string* bytes) {
  StoreAs(bytes->data(), kConnectMagic);
  StoreAs(bytes->data() + 4, static_cast<uint16_t>(bytes->size()));
}

std::string BeginFirstMessage(FirstMessage type, uint8_t version) {
  std::string bytes(kFirstMessageHeadBytes, '\0');
  bytes[0] = static_cast<char>(type);
  bytes[1] = static_cast<char>(version);
  return bytes;
}

std::string EndFirstMessage(std::string bytes) {
  StoreAs(bytes.data() + 4, static_cast<uint32_t>(bytes.size()));
  return bytes;
}

// Checks the head, and sets what every first message has.
absl::Status CheckFirstMessage(absl::string_view bytes, FirstMessage type, absl::string_view what, uint8_t* version) {
  if (!IsFirstMessage(bytes, type)) return Malformed(absl::StrCat(what, ": another message where it belongs"));
  if (bytes.size() < kFirstMessageHeadBytes || LoadAs<uint32_t>(bytes.data() + 4) != bytes.size()) {
    return Malformed(absl::StrCat(what, ": another length than it says"));
  }
  *version = LoadAs<uint8_t>(bytes.data() + 1);
  if (LoadAs<uint16_t>(bytes.data() + 2) != 0) return Malformed(absl::StrCat(what, ": reserved bytes are not zero"));
  // A refusal is understood whatever its version: it may be about the version.
  if (type != FirstMessage::kRefusal && (*version < kMinVersion || *version > kMaxVersion)) {
    return OtherRelease(type == FirstMessage::kHello ? "client" : "server", absl::StrCat(*version));
  }
  return absl::OkStatus();
}

// The fixed-length part of a field's value, filled in order.
template <size_t kBytes>
class Value {
 public:
  template <typename T>
  Value& Add(T value) {
    StoreAs(bytes_ + used_, value);
    used_ += sizeof value;
    return *this;
  }
  absl::string_view bytes() const { return {bytes_, kBytes}; }

 private:
  char bytes_[kBytes] = {};
  size_t used_ = 0;
};

constexpr size_t kHelloSessionBytes = 28, kSessionBytes = 16, kLimitsBytes = 12, kCountersBytes = 24;

}  // namespace

std::string ConnectData::Encode() const {
  std::string bytes(kBytes, '\0');
  BeginPrivateData(&bytes);
  bytes[6] = static_cast<char>(min_version);
  bytes[7] = static_cast<char>(max_version);
  StoreAs(bytes.data() + 8, flags);
  StoreAs(bytes.data() + 16, session);
  return bytes;
}

absl::StatusOr<ConnectData> ConnectData::Decode(absl::string_view bytes) {
  if (absl::Status status = CheckPrivateData(bytes, kBytes, "client"); !status.ok()) return status;
  const char* at = bytes.data();
  ConnectData data;
  data.min_version = LoadAs<uint8_t>(at + 6);
  data.max_version = LoadAs<uint8_t>(at + 7);
  data.flags = LoadAs<uint32_t>(at + 8);
  data.session = LoadAs<uint64_t>(at + 16);
  if (data.min_version > data.max_version) return Malformed("connect: an impossible range of versions");
  if (data.min_version > kMaxVersion || data.max_version < kMinVersion) {
    return OtherRelease("client", data.min_version == data.max_version
                                      ? absl::StrCat(data.max_version)
                                      : absl::StrCat(data.min_version, " to ", data.max_version));
  }
  if ((data.flags & kCriticalFlags) != 0) return UnknownFlags("client");
  return data;
}

std::string AcceptData::Encode() const {
  std::string bytes(kBytes, '\0');
  BeginPrivateData(&bytes);
  bytes[6] = static_cast<char>(version);
  StoreAs(bytes.data() + 8, flags);
  StoreAs(bytes.data() + 12, table.rkey);
  StoreAs(bytes.data() + 16, incarnation);
  StoreAs(bytes.data() + 24, table.address);
  StoreAs(bytes.data() + 32, table.bytes);
  return bytes;
}

absl::StatusOr<AcceptData> AcceptData::Decode(absl::string_view bytes) {
  if (absl::Status status = CheckPrivateData(bytes, kBytes, "server"); !status.ok()) return status;
  const char* at = bytes.data();
  AcceptData data;
  data.version = LoadAs<uint8_t>(at + 6);
  data.flags = LoadAs<uint32_t>(at + 8);
  data.incarnation = LoadAs<uint64_t>(at + 16);
  data.table = {LoadAs<uint64_t>(at + 24), LoadAs<uint64_t>(at + 32), LoadAs<uint32_t>(at + 12)};
  if (data.version < kMinVersion || data.version > kMaxVersion) {
    return OtherRelease("server", absl::StrCat(data.version));
  }
  if ((data.flags & kAuthentication) != 0) {
    return absl::FailedPreconditionError("the server asks who the client is, which this release cannot prove");
  }
  if ((data.flags & kCriticalFlags) != 0) return UnknownFlags("server");
  if (data.incarnation == 0) return Malformed("accept: no incarnation");
  if (data.table.bytes < kMinRegionBytes || data.table.bytes > kMaxRegionBytes) {
    return Malformed("accept: impossible table size");
  }
  return data;
}

absl::Status RefusalStatus(RefusalCode code, absl::string_view text) {
  switch (code) {
    case RefusalCode::kShuttingDown:
      return absl::UnavailableError(text);
    case RefusalCode::kFull:
      return absl::ResourceExhaustedError(text);
    case RefusalCode::kNotAllowed:
      return absl::PermissionDeniedError(text);
    case RefusalCode::kUnknownName:
    case RefusalCode::kVersion:
    case RefusalCode::kMalformed:
      break;
  }
  return absl::FailedPreconditionError(text);
}

RefusalCode RefusalFor(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ? RefusalCode::kVersion : RefusalCode::kMalformed;
}

std::string RejectData::Encode(size_t most) const {
  std::string bytes(kHeaderBytes, '\0');
  StoreAs(bytes.data(), kConnectMagic);
  bytes[4] = static_cast<char>(code);
  bytes[5] = static_cast<char>(min_version);
  bytes[6] = static_cast<char>(max_version);
  bytes.append(text, 0, most - kHeaderBytes);
  return bytes;
}

absl::StatusOr<RejectData> RejectData::Decode(absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes || LoadAs<uint32_t>(bytes.data()) != kConnectMagic) {
    return Malformed("reject: not of a Farlook server");
  }
  RejectData data;
  data.code = static_cast<RefusalCode>(bytes[4]);
  data.min_version = LoadAs<uint8_t>(bytes.data() + 5);
  data.max_version = LoadAs<uint8_t>(bytes.data() + 6);
  data.text = std::string(bytes.substr(kHeaderBytes));
  if (bytes[4] == 0 || bytes[7] != 0) return Malformed("reject: no code, or reserved bytes are not zero");
  return data;
}

std::string Hello::Encode() const {
  std::string bytes = BeginFirstMessage(FirstMessage::kHello, version);
  AppendField(kClient, Value<4>().Add(flags).bytes(), &bytes);
  if (session != 0) {
    Value<kHelloSessionBytes> value;
    value.Add(session).Add(incarnation).Add(acknowledged).Add(epoch);
    AppendField(kSession, value.bytes(), &bytes);
  }
  return EndFirstMessage(std::move(bytes));
}

absl::StatusOr<Hello> Hello::Decode(absl::string_view bytes) {
  Hello hello;
  absl::Status status = CheckFirstMessage(bytes, FirstMessage::kHello, "hello", &hello.version);
  if (!status.ok()) return status;
  status = ReadFields("hello", bytes.substr(kFirstMessageHeadBytes), [&](uint16_t tag, absl::string_view value) {
    const char* at = value.data();
    switch (tag) {
      case kClient:
        if (value.size() < sizeof hello.flags) return FieldUse::kMalformed;
        hello.flags = LoadAs<uint32_t>(at);
        return FieldUse::kTaken;
      case kSession:
        if (value.size() < kHelloSessionBytes) return FieldUse::kMalformed;
        hello.session = LoadAs<uint64_t>(at);
        hello.incarnation = LoadAs<uint64_t>(at + 8);
        hello.acknowledged = LoadAs<uint64_t>(at + 16);
        hello.epoch = LoadAs<uint32_t>(at + 24);
        return hello.session != 0 ? FieldUse::kTaken : FieldUse::kMalformed;
      default:
        return FieldUse::kUnknown;
    }
  });
  if (!status.ok()) return status;
  if ((hello.flags & kCriticalFlags) != 0) return UnknownFlags("client");
  return hello;
}

std::string Welcome::Encode() const {
  std::string bytes = BeginFirstMessage(FirstMessage::kWelcome, version);
  AppendField(kSession, Value<kSessionBytes>().Add(session).Add(epoch).Add(flags).bytes(), &bytes);
  AppendField(kLimits, Value<kLimitsBytes>().Add(max_value_bytes).Add(window).bytes(), &bytes);
  if (counters.rkey != 0) {
    Value<kCountersBytes> value;
    value.Add(counters.address).Add(counters.bytes).Add(counters.rkey).Add(atomics);
    AppendField(kCounters, value.bytes(), &bytes);
  }
  AppendField(kClock, Value<8>().Add(time_us).bytes(), &bytes);
  return EndFirstMessage(std::move(bytes));
}

absl::StatusOr<Welcome> Welcome::Decode(absl::string_view bytes) {
  Welcome welcome;
  absl::Status status = CheckFirstMessage(bytes, FirstMessage::kWelcome, "welcome", &welcome.version);
  if (!status.ok()) return status;
  status = ReadFields("welcome", bytes.substr(kFirstMessageHeadBytes), [&](uint16_t tag, absl::string_view value) {
    const char* at = value.data();
    switch (tag) {
      case kSession:
        if (value.size() < kSessionBytes) return FieldUse::kMalformed;
        welcome.session = LoadAs<uint64_t>(at);
        welcome.epoch = LoadAs<uint32_t>(at + 8);
        welcome.flags = LoadAs<uint32_t>(at + 12);
        return FieldUse::kTaken;
      case kLimits:
        if (value.size() < kLimitsBytes) return FieldUse::kMalformed;
        welcome.max_value_bytes = LoadAs<uint64_t>(at);
        welcome.window = LoadAs<uint32_t>(at + 8);
        return FieldUse::kTaken;
      case kCounters:
        if (value.size() < kCountersBytes) return FieldUse::kMalformed;
        welcome.counters = {LoadAs<uint64_t>(at), LoadAs<uint64_t>(at + 8), LoadAs<uint32_t>(at + 16)};
        welcome.atomics = LoadAs<uint32_t>(at + 20);
        return welcome.counters.rkey != 0 && welcome.atomics != 0 ? FieldUse::kTaken : FieldUse::kMalformed;
      case kClock:
        if (value.size() < sizeof welcome.time_us) return FieldUse::kMalformed;
        welcome.time_us = LoadAs<uint64_t>(at);
        return FieldUse::kTaken;
      default:
        return FieldUse::kUnknown;
    }
  });
  if (!status.ok()) return status;
  if (welcome.session == 0) return Malformed("welcome: no session");
  if (welcome.window == 0 || welcome.window > kMaxWindow) return Malformed("welcome: an impossible window");
  if (welcome.max_value_bytes > kMaxValueBytes) return Malformed("welcome: impossible value limit");
  if (welcome.time_us == 0) return Malformed("welcome: no time");
  return welcome;
}

std::string Refusal::Encode() const {
  std::string bytes = BeginFirstMessage(FirstMessage::kRefusal, version);
  AppendField(kCode, Value<1>().Add(static_cast<uint8_t>(code)).bytes(), &bytes);
  AppendField(kText, absl::string_view(text).substr(0, kMaxMessageBytes / 2), &bytes);
  if (retry_after_ms != 0) AppendField(kRetry, Value<4>().Add(retry_after_ms).bytes(), &bytes);
  return EndFirstMessage(std::move(bytes));
}

absl::StatusOr<Refusal> Refusal::Decode(absl::string_view bytes) {
  Refusal refusal;
  uint8_t code = 0;
  absl::Status status = CheckFirstMessage(bytes, FirstMessage::kRefusal, "refusal", &refusal.version);
  if (!status.ok()) return status;
  status = ReadFields("refusal", bytes.substr(kFirstMessageHeadBytes), [&](uint16_t tag, absl::string_view value) {
    switch (tag) {
      case kCode:
        if (value.empty()) return FieldUse::kMalformed;
        code = LoadAs<uint8_t>(value.data());
        return FieldUse::kTaken;
      case kText:
        refusal.text = std::string(value);
        return FieldUse::kTaken;
      case kRetry:
        if (value.size() < sizeof refusal.retry_after_ms) return FieldUse::kMalformed;
        refusal.retry_after_ms = LoadAs<uint32_t>(value.data());
        return FieldUse::kTaken;
      default:
        return FieldUse::kUnknown;
    }
  });
  if (!status.ok()) return status;
  if (code == 0) return Malformed("refusal: no code");
  refusal.code = static_cast<RefusalCode>(code);
  return refusal;
}

}  // namespace farlook::kv
