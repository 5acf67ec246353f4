#include "kv/wire/handshake.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "kv/layout/words.h"
#include "kv/wire/fields.h"

namespace farlook::kv {
namespace {

// The bytes of docs/protocol.md.
constexpr char kConnect[] =
    "46524c4b18000202"   // "FRLK", 24 bytes, versions 2 to 2
    "0000000000000000"   // no flags
    "0807060504030201";  // the session to resume
constexpr char kFollow[] =
    "9502000064000000"                                                   // version 2, 100 bytes
    "01001800"                                                           // replica:
    "88776655443322110300000000000000"                                   // its incarnation, epoch 3,
    "0000000000000000"                                                   // and nothing accepted
    "0200080073686d3a2f2f2f61"                                           // it joins, at shm:///a
    "05003000"                                                           // fit:
    "00000001000000000000000400000000"                                   // values up to 16 MiB, 64 MiB,
    "abababababababababababababababababababababababababababababababab";  // users
constexpr char kAccept[] =
    "46524c4b28000200"                   // "FRLK", 40 bytes, version 2
    "0000000034120000"                   // no flags; the table's rkey
    "8877665544332211"                   // incarnation
    "00000000007f00000000000400000000";  // the table's address, 64 MiB
constexpr char kReject[] =
    "46524c4b02020200"  // "FRLK", kFull, versions 2 to 2
    "66756c6c";         // "full"
constexpr char kHello[] =
    "9002000030000000"                  // version 2, 48 bytes
    "0100040001000000"                  // client: read-only
    "02001c00"                          // session:
    "08070605040302018877665544332211"  // its id, incarnation,
    "290000000000000003000000";         // acknowledged up to 41, epoch 3
constexpr char kWelcome[] =
    "9102000054000000"                  // version 2, 84 bytes
    "01001000"                          // session:
    "08070605040302010400000001000000"  // its id, epoch 4, resumed
    "02000c00"                          // limits:
    "000000010000000000010000"          // values up to 16 MiB, window 256
    "03001800"                          // counters:
    "00000010007f00000010000000000000"  // their address, 4 KiB,
    "7856000000040000"                  // rkey, 1,024 atomics in flight
    "04000800"                          // clock:
    "40420f0000000000";                 // 1,000,000 µs
constexpr char kRefusal[] =
    "9202000020000000"   // version 2, 32 bytes
    "0100010001000000"   // code: shutting down
    "020004006c617465"   // text: "late"
    "03000400f4010000";  // try again after 500 ms

std::string Bytes(absl::string_view hex) { return absl::HexStringToBytes(hex); }

template <typename T>
std::string With(std::string bytes, size_t offset, T value) {
  StoreAs(bytes.data() + offset, value);
  return bytes;
}

// A first message followed by `fields`, with the right length.
std::string WithFields(const std::string& message, const std::string& fields) {
  return With(message + fields, 4, static_cast<uint32_t>(message.size() + fields.size()));
}

Follow AFollow() {
  Follow follow;
  follow.incarnation = 0x1122'3344'5566'7788;
  follow.epoch = 3;
  follow.address = "shm:///a";
  follow.max_value_bytes = 16 << 20;
  follow.memory_bytes = 64 << 20;
  follow.users.fill(0xab);
  return follow;
}

std::string Field(uint16_t tag, absl::string_view value) {
  std::string bytes;
  AppendField(tag, value, &bytes);
  return bytes;
}

ConnectData AConnect() {
  ConnectData data;
  data.session = 0x0102'0304'0506'0708;
  return data;
}

AcceptData AnAccept() {
  AcceptData data;
  data.incarnation = 0x1122'3344'5566'7788;
  data.table = {0x7f00'0000'0000, 64 << 20, 0x1234};
  return data;
}

Hello AHello() {
  Hello hello;
  hello.flags = Hello::kReadOnly;
  hello.session = 0x0102'0304'0506'0708;
  hello.epoch = 3;
  hello.incarnation = 0x1122'3344'5566'7788;
  hello.acknowledged = 41;
  return hello;
}

Welcome AWelcome() {
  Welcome welcome;
  welcome.flags = Welcome::kResumed;
  welcome.session = 0x0102'0304'0506'0708;
  welcome.epoch = 4;
  welcome.window = 256;
  welcome.counters = {0x7f00'1000'0000, 4096, 0x5678};
  welcome.atomics = 1024;
  welcome.max_value_bytes = 16 << 20;
  welcome.time_us = 1'000'000;
  return welcome;
}

Refusal ARefusal() {
  Refusal refusal;
  refusal.code = RefusalCode::kShuttingDown;
  refusal.text = "late";
  refusal.retry_after_ms = 500;
  return refusal;
}

TEST(Handshake, GoldenBytesAndBack) {
  EXPECT_EQ(absl::BytesToHexString(AConnect().Encode()), kConnect);
  EXPECT_EQ(absl::BytesToHexString(AnAccept().Encode()), kAccept);
  EXPECT_EQ(absl::BytesToHexString(AHello().Encode()), kHello);
  EXPECT_EQ(absl::BytesToHexString(AWelcome().Encode()), kWelcome);
  EXPECT_EQ(absl::BytesToHexString(ARefusal().Encode()), kRefusal);

  const auto connect = ConnectData::Decode(Bytes(kConnect) + "padding");
  ASSERT_TRUE(connect.ok()) << connect.status();
  EXPECT_EQ(connect->Encode(), Bytes(kConnect)) << "transports pad private data";
  EXPECT_EQ(connect->version(), 2);
  const auto accept = AcceptData::Decode(Bytes(kAccept) + "padding");
  ASSERT_TRUE(accept.ok()) << accept.status();
  EXPECT_EQ(accept->Encode(), Bytes(kAccept));
  const auto hello = Hello::Decode(Bytes(kHello));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->Encode(), Bytes(kHello));
  const auto welcome = Welcome::Decode(Bytes(kWelcome));
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_EQ(welcome->Encode(), Bytes(kWelcome));
  const auto refusal = Refusal::Decode(Bytes(kRefusal));
  ASSERT_TRUE(refusal.ok()) << refusal.status();
  EXPECT_EQ(refusal->Encode(), Bytes(kRefusal));
}

TEST(Handshake, FollowGoldenBytesAndBack) {
  EXPECT_EQ(absl::BytesToHexString(AFollow().Encode()), kFollow);
  const auto follow = Follow::Decode(Bytes(kFollow));
  ASSERT_TRUE(follow.ok()) << follow.status();
  EXPECT_EQ(follow->Encode(), Bytes(kFollow));
  EXPECT_EQ(follow->users, AFollow().users);
}

TEST(Handshake, FitsInPrivateData) {
  EXPECT_LE(ConnectData::kBytes, 40u);
  EXPECT_LE(AcceptData::kBytes, 180u - 88u);
}

TEST(RejectData, GoldenBytesAndBack) {
  RejectData data;
  data.code = RefusalCode::kFull;
  data.text = "full";
  EXPECT_EQ(absl::BytesToHexString(data.Encode(144)), kReject);
  const auto decoded = RejectData::Decode(Bytes(kReject));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->code, RefusalCode::kFull);
  EXPECT_EQ(decoded->text, "full");
  EXPECT_EQ(data.Encode(10), Bytes(kReject).substr(0, 10)) << "the text is cut";
  for (size_t bytes = 0; bytes < RejectData::kHeaderBytes; ++bytes) {
    EXPECT_FALSE(RejectData::Decode(Bytes(kReject).substr(0, bytes)).ok());
  }
  EXPECT_FALSE(RejectData::Decode("the server has no file descriptors left").ok()) << "of the transport";
  EXPECT_FALSE(RejectData::Decode(With(Bytes(kReject), 4, '\0')).ok());
  EXPECT_FALSE(RejectData::Decode(With(Bytes(kReject), 7, '\1')).ok());
}

TEST(ConnectData, EachWrongFieldHasItsReason) {
  const std::string connect = Bytes(kConnect);
  const auto decode = [](const std::string& bytes) { return ConnectData::Decode(bytes).status(); };
  for (size_t bytes = 0; bytes < connect.size(); ++bytes) {
    EXPECT_EQ(decode(connect.substr(0, bytes)).code(), absl::StatusCode::kInvalidArgument) << bytes;
  }
  EXPECT_EQ(decode(With(connect, 0, 'G')).message(), "the peer is not a Farlook client");
  EXPECT_EQ(decode(With(connect, 4, uint16_t{25})).message(),
            "the client's handshake has 24 bytes, its header states 25 and needs 24");
  EXPECT_EQ(decode(With(connect, 6, '\3')).message(), "malformed message: connect: an impossible range of versions");
  EXPECT_TRUE(decode(With(connect, 7, '\7')).ok()) << "a later client that also speaks ours";
  const absl::Status later = decode(With(With(connect, 6, '\3'), 7, '\4'));
  EXPECT_EQ(later.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(later.message(),
            "Farlook protocol version 2 here, 3 to 4 at the client: use the same release on both sides");
  EXPECT_TRUE(decode(With(connect, 8, 0x8000u)).ok()) << "flags that may be ignored";
  EXPECT_EQ(decode(With(connect, 8, 0x20000u)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ConnectData, AClientOfVersionOneIsTold) {
  // Expect: its Hello, which has its version where the length is now, is refused for its version.
  const absl::Status status = ConnectData::Decode(Bytes("46524c4b010028000000000000000000"
                                                        "00000000000000000000000000000000"
                                                        "0000000000000000"))
                                  .status();
  EXPECT_EQ(status.message(), "Farlook protocol version 2 here, 1 at the client: use the same release on both sides");
  EXPECT_EQ(RefusalFor(status), RefusalCode::kVersion);
}

TEST(AcceptData, EachWrongFieldHasItsReason) {
  const std::string accept = Bytes(kAccept);
  const auto decode = [](const std::string& bytes) { return AcceptData::Decode(bytes).status(); };
  for (size_t bytes = 0; bytes < accept.size(); ++bytes) {
    EXPECT_EQ(decode(accept.substr(0, bytes)).code(), absl::StatusCode::kInvalidArgument) << bytes;
  }
  EXPECT_EQ(decode(With(accept, 0, 'G')).message(), "the peer is not a Farlook server");
  EXPECT_EQ(decode(With(accept, 6, '\3')).message(),
            "Farlook protocol version 2 here, 3 at the server: use the same release on both sides");
  EXPECT_EQ(decode(With(accept, 4, uint16_t{1})).message(),
            "Farlook protocol version 2 here, 1 at the server: use the same release on both sides");
  EXPECT_TRUE(decode(With(accept, 8, 1u)).ok());
  EXPECT_EQ(decode(With(accept, 8, 0x10000u)).message(),
            "malformed message: accept: it has a table, and states that it has none");
  EXPECT_TRUE(decode(With(accept.substr(0, 12), 8, 0x10000u) + std::string(4, '\0') + accept.substr(16, 8) +
                     std::string(16, '\0'))
                  .ok());
  EXPECT_EQ(decode(With(accept, 8, 0x20000u)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(decode(With(accept, 16, uint64_t{0})).message(), "malformed message: accept: no incarnation");
  EXPECT_EQ(decode(With(accept, 32, kMinRegionBytes - 1)).message(),
            "malformed message: accept: impossible table size");
  EXPECT_EQ(decode(With(accept, 32, kMaxRegionBytes + 1)).message(),
            "malformed message: accept: impossible table size");
}

template <typename T>
void ExpectEachTruncationIsMalformed(absl::string_view hex) {
  const std::string whole = Bytes(hex);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_EQ(T::Decode(whole.substr(0, bytes)).status().code(), absl::StatusCode::kInvalidArgument) << bytes;
  }
  EXPECT_FALSE(T::Decode(whole + '\0').ok()) << "longer than it says";
  EXPECT_FALSE(T::Decode(With(whole, 2, '\1')).ok()) << "reserved bytes";
  EXPECT_FALSE(T::Decode(With(whole, 0, '\1')).ok()) << "another type";
}

TEST(FirstMessages, EachTruncationIsMalformed) {
  ExpectEachTruncationIsMalformed<Hello>(kHello);
  ExpectEachTruncationIsMalformed<Welcome>(kWelcome);
  ExpectEachTruncationIsMalformed<Refusal>(kRefusal);
}

TEST(FirstMessages, OfAnotherVersionAreToldSo) {
  EXPECT_EQ(Hello::Decode(With(Bytes(kHello), 1, '\3')).status().message(),
            "Farlook protocol version 2 here, 3 at the client: use the same release on both sides");
  EXPECT_EQ(Welcome::Decode(With(Bytes(kWelcome), 1, '\1')).status().message(),
            "Farlook protocol version 2 here, 1 at the server: use the same release on both sides");
  EXPECT_TRUE(Refusal::Decode(With(Bytes(kRefusal), 1, '\7')).ok()) << "what it says is why";
}

TEST(Hello, GrowsByFields) {
  const std::string head = Bytes("9002000008000000");
  EXPECT_TRUE(Hello::Decode(head).ok()) << "of a new session, without flags";
  const auto longer = Hello::Decode(WithFields(head, Field(1, absl::string_view("\1\0\0\0later", 9))));
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(longer->flags, Hello::kReadOnly);
  EXPECT_TRUE(Hello::Decode(WithFields(Bytes(kHello), Field(3, "anna"))).ok()) << "an unknown field";
  const absl::Status critical = Hello::Decode(WithFields(Bytes(kHello), Field(kCriticalTag | 6, "t"))).status();
  EXPECT_EQ(RefusalFor(critical), RefusalCode::kVersion);
  EXPECT_EQ(critical.message(),
            "the hello needs something that this release does not know (field 6): use the later release");

  const auto reason = [&](const std::string& fields) {
    const absl::Status status = Hello::Decode(WithFields(head, fields)).status();
    EXPECT_EQ(RefusalFor(status), RefusalCode::kMalformed);
    return std::string(status.message());
  };
  const std::string m = "malformed message: hello: ";
  EXPECT_EQ(reason(Field(1, "abc")), m + "field 1 is too short or invalid");
  EXPECT_EQ(reason(Field(2, std::string(27, 'x'))), m + "field 2 is too short or invalid");
  EXPECT_EQ(reason(Field(2, std::string(28, '\0'))), m + "field 2 is too short or invalid");
  EXPECT_EQ(reason(Field(1, "abcd").substr(0, 4)), m + "a field is cut short");
  EXPECT_EQ(RefusalFor(Hello::Decode(WithFields(head, Field(1, absl::string_view("\0\0\1\0", 4)))).status()),
            RefusalCode::kVersion)
      << "a flag that must be known";
}

TEST(Welcome, EachImpossibleValueHasItsReason) {
  const std::string welcome = Bytes(kWelcome), m = "malformed message: welcome: ";
  const auto reason = [](const std::string& bytes) { return std::string(Welcome::Decode(bytes).status().message()); };
  EXPECT_EQ(reason(With(welcome, 12, uint64_t{0})), m + "no session");
  EXPECT_EQ(reason(Bytes("9102000008000000")), m + "no session");
  EXPECT_EQ(reason(With(welcome, 40, 0u)), m + "an impossible window");
  EXPECT_EQ(reason(With(welcome, 40, kMaxWindow + 1)), m + "an impossible window");
  EXPECT_EQ(reason(With(welcome, 32, kMaxValueBytes + 1)), m + "impossible value limit");
  EXPECT_EQ(reason(With(welcome, 64, 0u)), m + "field 3 is too short or invalid") << "no rkey";
  EXPECT_EQ(reason(With(welcome, 68, 0u)), m + "field 3 is too short or invalid") << "no atomics";
  EXPECT_EQ(reason(With(welcome, 76, uint64_t{0})), m + "no time");
}

TEST(Refusal, HasTheGroupsRecordOrNot) {
  Refusal refusal = ARefusal();
  refusal.revision = 9;
  EXPECT_FALSE(Refusal::Decode(refusal.Encode()).ok()) << "half of it";
  refusal.record = std::string(Refusal::kMaxRecordBytes, 'r');
  const auto decoded = Refusal::Decode(refusal.Encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->revision, 9u);
  EXPECT_EQ(decoded->record, refusal.record);
}

TEST(Refusal, EachCodeHasItsStatus) {
  const auto code = [](RefusalCode refusal) { return RefusalStatus(refusal, "why").code(); };
  EXPECT_EQ(code(RefusalCode::kShuttingDown), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(RefusalCode::kFull), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(RefusalCode::kNotAllowed), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(RefusalCode::kUnknownName), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(RefusalCode::kVersion), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(RefusalCode::kMalformed), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(static_cast<RefusalCode>(99)), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(WorthTryingAgain(RefusalCode::kShuttingDown) && WorthTryingAgain(RefusalCode::kFull));
  EXPECT_FALSE(WorthTryingAgain(RefusalCode::kVersion) || WorthTryingAgain(RefusalCode::kNotAllowed));
  EXPECT_EQ(RefusalStatus(RefusalCode::kFull, "why").message(), "why");
  EXPECT_FALSE(Refusal::Decode(Bytes("9202000008000000")).ok()) << "without a code";
}

}  // namespace
}  // namespace farlook::kv
