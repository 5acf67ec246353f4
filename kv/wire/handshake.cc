#include "kv/wire/handshake.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kv/layout/epoch_word.h"
#include "kv/layout/words.h"
#include "kv/wire/fields.h"

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
      absl::StrCat("the ", who, " needs a feature that this release lacks: use the later release"));
}

// Checks the common beginning of both parts of private data: magic and length.
absl::Status CheckPrivateData(absl::string_view bytes, size_t least, absl::string_view who) {
  if (bytes.size() < 8 || LoadAs<uint32_t>(bytes.data()) != kConnectMagic) {
    return absl::InvalidArgumentError(absl::StrCat("the peer is not a Farlook ", who));
  }
  const uint16_t length = LoadAs<uint16_t>(bytes.data() + 4);
  if (length == 1) return OtherRelease(who, "1");  // the place of the version in version 1
  if (length < least || length > bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the ", who, "'s handshake has ", bytes.size(),
                                                   " bytes, its header states ", length, " and needs ", least));
  }
  return absl::OkStatus();
}

void BeginPrivateData(std::string* bytes) {
  StoreAs(bytes->data(), kConnectMagic);
  StoreAs(bytes->data() + 4, static_cast<uint16_t>(bytes->size()));
}

// Checks the head, and sets the fields that every first message has.
absl::Status CheckFirstMessage(absl::string_view bytes, FirstMessage type, absl::string_view what, uint8_t* version) {
  if (!IsFirstMessage(bytes, type)) return Malformed(absl::StrCat(what, ": another message where it belongs"));
  if (bytes.size() < kFirstMessageHeadBytes || LoadAs<uint32_t>(bytes.data() + 4) != bytes.size()) {
    return Malformed(absl::StrCat(what, ": wrong length"));
  }
  *version = LoadAs<uint8_t>(bytes.data() + 1);
  if (LoadAs<uint16_t>(bytes.data() + 2) != 0) return Malformed(absl::StrCat(what, ": reserved bytes are not zero"));
  // A refusal is decoded whatever its version: it may be about the version.
  if (type != FirstMessage::kRefusal && (*version < kMinVersion || *version > kMaxVersion)) {
    const bool from_client = type == FirstMessage::kHello || type == FirstMessage::kProof;
    return OtherRelease(from_client ? "client" : "server", absl::StrCat(*version));
  }
  return absl::OkStatus();
}

// The fields of a first message, described once for both directions. Visit() below calls
//   field(tag, is_there, parts...)   for a value that consists of these parts, in order, without padding;
//   field.Text(tag, text)            for a value that is the text; an empty one is left out.
// The writer leaves out a field that is not there. The reader treats a field as malformed if, once its parts are read,
// it should have been left out.

bool Always() { return true; }

class FieldWriter {
 public:
  explicit FieldWriter(std::string* bytes) : bytes_(bytes) {}

  template <typename IsThere, typename... Parts>
  void operator()(uint16_t tag, IsThere is_there, const Parts&... parts) {
    if (!is_there()) return;
    char value[(sizeof parts + ...)];
    char* at = value;
    ((StoreAs(at, parts), at += sizeof parts), ...);
    AppendField(tag, {value, sizeof value}, bytes_);
  }
  void Text(uint16_t tag, absl::string_view text) {
    if (!text.empty()) AppendField(tag, text.substr(0, kMaxMessageBytes / 2), bytes_);
  }

 private:
  std::string* const bytes_;
};

// Among the fields that Visit() describes, reads the one that was received.
class FieldReader {
 public:
  FieldReader(uint16_t tag, absl::string_view value) : tag_(tag), value_(value) {}

  template <typename IsThere, typename... Parts>
  void operator()(uint16_t tag, IsThere is_there, Parts&... parts) {
    if (tag != tag_) return;
    use_ = FieldUse::kMalformed;
    if (value_.size() < (sizeof parts + ...)) return;
    const char* at = value_.data();
    ((parts = LoadAs<Parts>(at), at += sizeof parts), ...);
    if (is_there()) use_ = FieldUse::kTaken;
  }
  void Text(uint16_t tag, std::string& text) {
    if (tag != tag_) return;
    text = std::string(value_);
    use_ = FieldUse::kTaken;
  }
  FieldUse use() const { return use_; }

 private:
  const uint16_t tag_;
  const absl::string_view value_;
  FieldUse use_ = FieldUse::kUnknown;
};

struct HelloFields {
  static constexpr FirstMessage kType = FirstMessage::kHello;
  static constexpr char kName[] = "hello";

  template <typename Message, typename Field>
  static void Visit(Message& m, Field& field) {
    field(Hello::kClient, Always, m.flags);
    field(
        Hello::kSession, [&] { return m.session != 0; }, m.session, m.incarnation, m.acknowledged, m.epoch);
    field.Text(Hello::kUser, m.user);
    field(
        Hello::kNonce, [&] { return m.nonce != Nonce{}; }, m.nonce);
  }
};

struct WelcomeFields {
  static constexpr FirstMessage kType = FirstMessage::kWelcome;
  static constexpr char kName[] = "welcome";

  template <typename Message, typename Field>
  static void Visit(Message& m, Field& field) {
    const auto has_counters = [&] { return m.counters.rkey != 0 && m.atomics != 0; };
    field(Welcome::kSession, Always, m.session, m.epoch, m.flags);
    field(Welcome::kLimits, Always, m.max_value_bytes, m.window);
    field(Welcome::kCounters, has_counters, m.counters.address, m.counters.bytes, m.counters.rkey, m.atomics);
    field(Welcome::kClock, Always, m.time_us);
    uint32_t zero = 0;
    const auto has_grant = [&] { return m.table.rkey != 0; };
    field(Welcome::kGrant, has_grant, m.table.address, m.table.bytes, m.table.rkey, zero, m.proof);
    field.Text(Welcome::kCluster, m.cluster);
    field.Text(Welcome::kMembers, m.members);
    field(
        Welcome::kFigures, [&] { return m.figures_ms != 0; }, m.figures_ms);
    field(
        Welcome::kSample, [&] { return m.sample != 0; }, m.sample);
    field(
        Welcome::kGets, [&] { return m.gets != 0; }, m.gets);
    const auto has_group = [&] { return m.group_epoch != 0 && m.lease_us != 0; };
    field(Welcome::kGroup, has_group, m.group_epoch, m.lease_us, zero);
    field(
        Welcome::kPuts, [&] { return m.puts != 0; }, m.puts);
    field(
        Welcome::kSlots, [&] { return m.slots != SlotWords{}; }, m.slots);
    field(
        Welcome::kHistory, [&] { return m.history != 0; }, m.history);
  }
};

struct ChallengeFields {
  static constexpr FirstMessage kType = FirstMessage::kChallenge;
  static constexpr char kName[] = "challenge";

  template <typename Message, typename Field>
  static void Visit(Message& m, Field& field) {
    field(Challenge::kNonce, Always, m.nonce);
  }
};

struct ProofFields {
  static constexpr FirstMessage kType = FirstMessage::kProof;
  static constexpr char kName[] = "proof";

  template <typename Message, typename Field>
  static void Visit(Message& m, Field& field) {
    field(Proof::kMac, Always, m.mac);
  }
};

struct FollowFields {
  static constexpr FirstMessage kType = FirstMessage::kFollow;
  static constexpr char kName[] = "follow";

  template <typename Message, typename Field>
  static void Visit(Message& m, Field& field) {
    field(Follow::kReplica, Always, m.incarnation, m.epoch, m.accepted);
    field.Text(Follow::kJoins, m.address);
    field(
        Follow::kTakes, [&] { return m.move != 0; }, m.move, m.items);
    field.Text(Follow::kTaker, m.taker);
    field(
        Follow::kFit, [&] { return m.memory_bytes != 0; }, m.max_value_bytes, m.memory_bytes, m.users);
  }
};

struct RefusalFields {
  static constexpr FirstMessage kType = FirstMessage::kRefusal;
  static constexpr char kName[] = "refusal";

  template <typename Message, typename Field>
  static void Visit(Message& m, Field& field) {
    const auto has_opinion = [&] { return m.retry_after_ms != 0; };
    field(Refusal::kCode, Always, m.code);
    field.Text(Refusal::kText, m.text);
    field(Refusal::kRetry, has_opinion, m.retry_after_ms);
    field(
        Refusal::kRevision, [&] { return m.revision != 0; }, m.revision);
    field.Text(Refusal::kRecord, m.record);
  }
};

template <typename Fields, typename Message>
std::string EncodeFirstMessage(const Message& message) {
  std::string bytes(kFirstMessageHeadBytes, '\0');
  FieldWriter writer(&bytes);
  Fields::Visit(message, writer);
  bytes[0] = static_cast<char>(Fields::kType);
  bytes[1] = static_cast<char>(message.version);
  StoreAs(bytes.data() + 4, static_cast<uint32_t>(bytes.size()));
  return bytes;
}

template <typename Fields, typename Message>
absl::Status DecodeFirstMessage(absl::string_view bytes, Message* message) {
  absl::Status status = CheckFirstMessage(bytes, Fields::kType, Fields::kName, &message->version);
  if (!status.ok()) return status;
  return ReadFields(Fields::kName, bytes.substr(kFirstMessageHeadBytes), [&](uint16_t tag, absl::string_view value) {
    FieldReader reader(tag, value);
    Fields::Visit(*message, reader);
    return reader.use();
  });
}

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
  if ((data.flags & kCriticalFlags & ~uint32_t{kWatch}) != 0) return UnknownFlags("client");
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
  if ((data.flags & kCriticalFlags & ~uint32_t{kAuthentication}) != 0) return UnknownFlags("server");
  if (data.incarnation == 0) return Malformed("accept: no incarnation");
  if ((data.flags & kAuthentication) != 0) {
    if (data.table.address != 0 || data.table.bytes != 0 || data.table.rkey != 0) {
      return Malformed("accept: it has a table, and states that it has none");
    }
    return data;
  }
  if (data.table.bytes < kMinRegionBytes || data.table.bytes > kMaxRegionBytes) {
    return Malformed("accept: impossible table size");
  }
  return data;
}

absl::Status RefusalStatus(RefusalCode code, absl::string_view text) {
  switch (code) {
    case RefusalCode::kShuttingDown:
      return absl::UnavailableError(text);
    case RefusalCode::kNotPrimary:
      return absl::UnavailableError(
          text.empty() ? std::string("this server is a backup, and its group has no primary at present")
                       : absl::StrCat("this server is a backup; its group's primary is at ", text));
    case RefusalCode::kGroupLost:
      return absl::DataLossError(text);
    case RefusalCode::kFull:
      return absl::ResourceExhaustedError(text);
    case RefusalCode::kNotAllowed:
      return absl::PermissionDeniedError(text);
    case RefusalCode::kNotAuthenticated:
      return absl::UnauthenticatedError(text);
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

std::string Hello::Encode() const { return EncodeFirstMessage<HelloFields>(*this); }

absl::StatusOr<Hello> Hello::Decode(absl::string_view bytes) {
  Hello hello;
  if (absl::Status status = DecodeFirstMessage<HelloFields>(bytes, &hello); !status.ok()) return status;
  if ((hello.flags & kCriticalFlags) != 0) return UnknownFlags("client");
  if (hello.user.size() > kMaxUserBytes) return Malformed("hello: the user's name is too long");
  return hello;
}

std::string Welcome::Encode() const { return EncodeFirstMessage<WelcomeFields>(*this); }

absl::StatusOr<Welcome> Welcome::Decode(absl::string_view bytes) {
  Welcome welcome;
  if (absl::Status status = DecodeFirstMessage<WelcomeFields>(bytes, &welcome); !status.ok()) return status;
  if (welcome.session == 0) return Malformed("welcome: no session");
  if (welcome.window == 0 || welcome.window > kMaxWindow) return Malformed("welcome: an impossible window");
  if (welcome.max_value_bytes > kMaxValueBytes) return Malformed("welcome: impossible value limit");
  if (welcome.time_us == 0) return Malformed("welcome: no time");
  if (welcome.table.rkey != 0 && (welcome.table.bytes < kMinRegionBytes || welcome.table.bytes > kMaxRegionBytes)) {
    return Malformed("welcome: impossible table size");
  }
  if (welcome.group_epoch > EpochWord::kMaxEpoch || welcome.lease_us > kMaxLeaseUs) {
    return Malformed("welcome: an impossible epoch or lease");
  }
  return welcome;
}

std::string Challenge::Encode() const { return EncodeFirstMessage<ChallengeFields>(*this); }

absl::StatusOr<Challenge> Challenge::Decode(absl::string_view bytes) {
  Challenge challenge;
  if (absl::Status status = DecodeFirstMessage<ChallengeFields>(bytes, &challenge); !status.ok()) return status;
  if (challenge.nonce == Nonce{}) return Malformed("challenge: no nonce");
  return challenge;
}

std::string Proof::Encode() const { return EncodeFirstMessage<ProofFields>(*this); }

absl::StatusOr<Proof> Proof::Decode(absl::string_view bytes) {
  Proof proof;
  if (absl::Status status = DecodeFirstMessage<ProofFields>(bytes, &proof); !status.ok()) return status;
  if (proof.mac == Mac{}) return Malformed("proof: there is none");
  return proof;
}

std::string Follow::Encode() const { return EncodeFirstMessage<FollowFields>(*this); }

absl::StatusOr<Follow> Follow::Decode(absl::string_view bytes) {
  Follow follow;
  if (absl::Status status = DecodeFirstMessage<FollowFields>(bytes, &follow); !status.ok()) return status;
  if (follow.incarnation == 0) return Malformed("follow: no incarnation");
  if ((follow.move != 0) != !follow.taker.empty()) return Malformed("follow: half of what it takes slots by");
  return follow;
}

std::string Refusal::Encode() const { return EncodeFirstMessage<RefusalFields>(*this); }

absl::StatusOr<Refusal> Refusal::Decode(absl::string_view bytes) {
  Refusal refusal;
  refusal.code = RefusalCode{0};
  if (absl::Status status = DecodeFirstMessage<RefusalFields>(bytes, &refusal); !status.ok()) return status;
  if (refusal.code == RefusalCode{0}) return Malformed("refusal: no code");
  if ((refusal.revision != 0) != !refusal.record.empty()) return Malformed("refusal: half of a group's record");
  return refusal;
}

}  // namespace farlook::kv
