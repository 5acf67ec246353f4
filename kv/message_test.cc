#include "kv/message.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "kv/words.h"

namespace farlook::kv {
namespace {

// The bytes of docs/protocol.md.
constexpr char kHello[] =
    "46524c4b01002800"                  // "FRLK", version 1, 40 bytes
    "0100000003000000"                  // read-only; epoch 3
    "08070605040302018877665544332211"  // session, incarnation
    "2900000000000000";                 // acknowledged up to 41
constexpr char kWelcome[] =
    "46524c4b01005800"                  // "FRLK", version 1, 88 bytes
    "0100000004000000"                  // resumed; epoch 4
    "08070605040302018877665544332211"  // session, incarnation
    "0001000034120000"                  // window 256; the table's rkey
    "00000000007f00000000000400000000"  // its address, 64 MiB
    "7856000000040000"                  // the counters' rkey; 1,024 atomics in flight
    "00000010007f00000010000000000000"  // their address, 4 KiB
    "0000000100000000";                 // values up to 16 MiB
constexpr char kPut[] =
    "01030500050000002a00000000000000"  // kPut, kVersion, 5 + 5 bytes, number 42
    "07000000000000000000000000000000"  // version 7
    "757365723168656c6c6f";             // "user1", "hello"
constexpr char kPutPulled[] =
    "02010500000010002a00000000000000"   // kPutPulled, kAbsent, 5 + 1 Mi bytes, number 42
    "00000000000000000000000000000000"   //
    "7573657231000000"                   // "user1", padding
    "00100000007f0000"                   // the value's address
    "1100ffeeddccbbaa9900000000000000";  // its hash, rkey
constexpr char kGetRequest[] =
    "04000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "7573657231";
constexpr char kStat[] =
    "06000600000000002a00000000000000"
    "00000000000000000000000000000000"
    "736572766572";  // "server"
constexpr char kCounterAdd[] =
    "08000500000000002a00000000000000"
    "fdffffffffffffff0000000000000000"  // -3
    "7573657231";
constexpr char kCounterSwap[] =
    "09000500000000002a00000000000000"
    "07000000000000000900000000000000"  // 7, 9
    "7573657231";
constexpr char kCellsDropped[] =
    "0c000000000000000000000000000000"
    "07000000000000000000000000000000";  // sequence 7
constexpr char kPing[] =
    "05000000000000002a00000000000000"
    "00000000000000000000000000000000";
constexpr char kReply[] =
    "02000000000000002a00000000000000"  // kExists, no payload, number 42
    "0700000000000000"                  // version 7
    "000002000002efbe";                 // slot
constexpr char kReplyToGet[] =
    "00000000050000002a00000000000000"  // kOk, 5 bytes of payload, number 42
    "0700000000000000000002000002efbe"
    "68656c6c6f";  // "hello"

std::string Bytes(absl::string_view hex) { return absl::HexStringToBytes(hex); }

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
  welcome.incarnation = 0x1122'3344'5566'7788;
  welcome.window = 256;
  welcome.table = {0x7f00'0000'0000, 64 << 20, 0x1234};
  welcome.counters = {0x7f00'1000'0000, 4096, 0x5678};
  welcome.atomics = 1024;
  welcome.max_value_bytes = 16 << 20;
  return welcome;
}

Request ARequest(RequestType type, absl::string_view key) {
  Request request;
  request.type = type;
  request.number = 42;
  request.key = key;
  return request;
}

Request APut() {
  Request request = ARequest(RequestType::kPut, "user1");
  request.condition = Condition::kVersion;
  request.version = 7;
  request.value = "hello";
  request.value_bytes = 5;
  return request;
}

Request APutPulled() {
  Request request = ARequest(RequestType::kPutPulled, "user1");
  request.condition = Condition::kAbsent;
  request.value_bytes = 1 << 20;
  request.source = {0x7f00'0000'1000, 0xaabb'ccdd'eeff'0011, 0x99};
  return request;
}

std::string Encode(const Request& request) {
  std::vector<char> head(kMaxRequestHeadBytes, 0x55);
  const size_t bytes = request.EncodeHead(head.data());
  return std::string(head.data(), bytes) + std::string(request.value);
}

std::string Encode(const Reply& reply) {
  char head[Reply::kHeaderBytes];
  reply.EncodeHead(head);
  return std::string(head, sizeof head) + std::string(reply.payload);
}

template <typename T>
std::string With(std::string bytes, size_t offset, T value) {
  StoreAs(bytes.data() + offset, value);
  return bytes;
}

std::string RequestReason(const std::string& bytes) { return std::string(Request::Decode(bytes).status().message()); }

TEST(Hello, GoldenBytesAndBack) {
  EXPECT_EQ(absl::BytesToHexString(AHello().Encode()), kHello);
  const auto hello = Hello::Decode(Bytes(kHello));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->Encode(), Bytes(kHello));
  EXPECT_TRUE(Hello::Decode(Bytes(kHello) + "more").ok()) << "transports pad private data";
}

TEST(Welcome, GoldenBytesAndBack) {
  EXPECT_EQ(absl::BytesToHexString(AWelcome().Encode()), kWelcome);
  const auto welcome = Welcome::Decode(Bytes(kWelcome));
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_EQ(welcome->Encode(), Bytes(kWelcome));
}

TEST(Handshake, EachWrongFieldHasItsReason) {
  const std::string hello = Bytes(kHello), welcome = Bytes(kWelcome);
  for (size_t bytes = 0; bytes < hello.size(); ++bytes) {
    const absl::Status status = Hello::Decode(hello.substr(0, bytes)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              bytes < 8 ? "the peer is not a Farlook client"
                        : "the client's handshake has " + std::to_string(bytes) + " bytes, says 40 and needs 40");
  }
  for (size_t bytes = 0; bytes < welcome.size(); ++bytes) {
    EXPECT_EQ(Welcome::Decode(welcome.substr(0, bytes)).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Hello::Decode(With(hello, 0, 'G')).status().message(), "the peer is not a Farlook client");
  const absl::Status version = Hello::Decode(With(hello, 4, uint16_t{2})).status();
  EXPECT_EQ(version.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(version.message(), "Farlook protocol version 1 here, 2 at the client: use the same release on both sides");
  EXPECT_EQ(Hello::Decode(With(hello, 6, uint16_t{39})).status().message(),
            "the client's handshake has 40 bytes, says 39 and needs 40");
  EXPECT_EQ(Hello::Decode(With(hello, 6, uint16_t{41})).status().message(),
            "the client's handshake has 40 bytes, says 41 and needs 40");
  EXPECT_EQ(Hello::Decode(With(hello, 8, 2u)).status().message(), "malformed message: hello: unknown flags");

  const auto reason = [](const std::string& bytes) { return std::string(Welcome::Decode(bytes).status().message()); };
  EXPECT_EQ(reason(With(welcome, 0, 'G')), "the peer is not a Farlook server");
  const std::string no_session = "malformed message: welcome: no session, or an impossible window";
  EXPECT_EQ(reason(With(welcome, 16, uint64_t{0})), no_session);
  EXPECT_EQ(reason(With(welcome, 32, 0u)), no_session);
  EXPECT_EQ(reason(With(welcome, 32, kMaxWindow + 1)), no_session);
  EXPECT_EQ(reason(With(welcome, 48, kMinRegionBytes - 1)), "malformed message: welcome: impossible table size");
  EXPECT_EQ(reason(With(welcome, 48, kMaxRegionBytes + 1)), "malformed message: welcome: impossible table size");
  EXPECT_EQ(reason(With(welcome, 80, kMaxValueBytes + 1)), "malformed message: welcome: impossible value limit");
  const std::string cells = "malformed message: welcome: a key to cells without atomics, or atomics without a key";
  EXPECT_EQ(reason(With(welcome, 60, 0u)), cells);
  EXPECT_EQ(reason(With(welcome, 56, 0u)), cells);
}

TEST(Request, GoldenBytes) {
  EXPECT_EQ(absl::BytesToHexString(Encode(APut())), kPut);
  EXPECT_EQ(absl::BytesToHexString(Encode(APutPulled())), kPutPulled);
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kGet, "user1"))), kGetRequest);
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kDelete, "user1"))),
            "03" + std::string(kGetRequest + 2));
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kPing, ""))), kPing);
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kStat, "server"))), kStat);
}

TEST(Request, GoldenBytesOfCounters) {
  Request add = ARequest(RequestType::kCounterAdd, "user1");
  add.operand = -3;
  EXPECT_EQ(absl::BytesToHexString(Encode(add)), kCounterAdd);
  Request swap = ARequest(RequestType::kCounterSwap, "user1");
  swap.operand = 7;
  swap.desired = 9;
  EXPECT_EQ(absl::BytesToHexString(Encode(swap)), kCounterSwap);
  Request dropped;
  dropped.type = RequestType::kCellsDropped;
  dropped.operand = 7;
  EXPECT_EQ(absl::BytesToHexString(Encode(dropped)), kCellsDropped);
  const std::string bytes = Bytes(kCounterSwap);
  const auto decoded = Request::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->operand, 7);
  EXPECT_EQ(decoded->desired, 9);
  EXPECT_EQ(decoded->key, "user1");
}

TEST(Request, ImpossibleNumbersOfCountersAreMalformed) {
  const auto malformed = [](RequestType type, int64_t operand, int64_t desired = 0) {
    Request request = ARequest(type, type == RequestType::kCellsDropped ? "" : "user1");
    if (type == RequestType::kCellsDropped) request.number = 0;
    request.operand = operand;
    request.desired = desired;
    return !Request::Decode(Encode(request)).ok();
  };
  const int64_t live = (int64_t{1} << 61) - 1, dead = int64_t{1} << 62, delta = int64_t{1} << 40;
  EXPECT_FALSE(malformed(RequestType::kCounterCreate, live));
  EXPECT_FALSE(malformed(RequestType::kCounterCreate, -live - 1));
  EXPECT_TRUE(malformed(RequestType::kCounterCreate, live + 1));
  EXPECT_TRUE(malformed(RequestType::kCounterCreate, 1, 1));
  EXPECT_FALSE(malformed(RequestType::kCounterAdd, -delta));
  EXPECT_TRUE(malformed(RequestType::kCounterAdd, delta + 1));
  EXPECT_FALSE(malformed(RequestType::kCounterSwap, dead - 1, live));
  EXPECT_TRUE(malformed(RequestType::kCounterSwap, dead, 0));
  EXPECT_TRUE(malformed(RequestType::kCounterSwap, 0, live + 1));
  EXPECT_FALSE(malformed(RequestType::kCounterRead, 0));
  EXPECT_TRUE(malformed(RequestType::kCounterRead, 1));
  EXPECT_TRUE(malformed(RequestType::kCounterDelete, 1));
  EXPECT_FALSE(malformed(RequestType::kCellsDropped, 1));
  EXPECT_TRUE(malformed(RequestType::kCellsDropped, 0));
}

TEST(Request, DecodesToWhatWasEncoded) {
  const std::string put_bytes = Bytes(kPut);
  const auto put = Request::Decode(put_bytes);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->type, RequestType::kPut);
  EXPECT_EQ(put->condition, Condition::kVersion);
  EXPECT_EQ(put->number, 42u);
  EXPECT_EQ(put->version, 7u);
  EXPECT_EQ(put->key, "user1");
  EXPECT_EQ(put->value, "hello");
  EXPECT_EQ(put->value_bytes, 5u);
  // Every length of key, so every padding.
  for (size_t key_bytes = 1; key_bytes <= kMaxKeyBytes; ++key_bytes) {
    const std::string key(key_bytes, 'k');
    Request request = APutPulled();
    request.key = key;
    const std::string encoded = Encode(request);
    ASSERT_LE(encoded.size(), kMaxRequestHeadBytes);
    const auto pulled = Request::Decode(encoded);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    EXPECT_EQ(pulled->key, key);
    EXPECT_EQ(pulled->value_bytes, 1u << 20);
    EXPECT_EQ(pulled->source.address, request.source.address);
    EXPECT_EQ(pulled->source.hash, request.source.hash);
    EXPECT_EQ(pulled->source.rkey, request.source.rkey);
    EXPECT_EQ(Encode(*pulled), encoded);
  }
  for (const char* hex : {kGetRequest, kPing, kStat, kCounterAdd, kCounterSwap, kCellsDropped}) {
    const std::string request_bytes = Bytes(hex);
    const auto request = Request::Decode(request_bytes);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(Encode(*request), Bytes(hex));
  }
}

TEST(Request, EachTruncationAndEachByteTooMuchIsMalformed) {
  for (const char* hex : {kPut, kPutPulled, kGetRequest, kPing, kStat, kCounterAdd, kCounterSwap, kCellsDropped}) {
    const std::string whole = Bytes(hex);
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<int64_t>(bytes));
      EXPECT_EQ(Request::Decode({cut.data(), bytes}).status().code(), absl::StatusCode::kInvalidArgument) << bytes;
    }
    EXPECT_FALSE(Request::Decode(whole + std::string(1, '\0')).ok());
  }
}

TEST(Request, EachWrongFieldHasItsReason) {
  const std::string put = Bytes(kPut), pulled = Bytes(kPutPulled), get = Bytes(kGetRequest), ping = Bytes(kPing);
  const std::string m = "malformed message: request: ";
  EXPECT_EQ(RequestReason(put.substr(0, 31)), m + "shorter than its header");
  EXPECT_EQ(RequestReason(With(put, 0, '\0')), m + "unknown type 0");
  EXPECT_EQ(RequestReason(With(put, 0, '\15')), m + "unknown type 13");
  EXPECT_EQ(RequestReason(With(put, 1, '\4')), m + "unknown condition 4");
  EXPECT_EQ(RequestReason(With(put, 2, uint16_t{0})), m + "empty key");
  EXPECT_EQ(RequestReason(With(put, 2, uint16_t{1025})), m + "key above 1,024 bytes");
  EXPECT_EQ(RequestReason(With(put, 2, uint16_t{11})), m + "key is cut short");
  EXPECT_EQ(RequestReason(With(put, 4, 6u)), m + "value of another length than it says");
  EXPECT_EQ(RequestReason(With(put, 8, uint64_t{0})), m + "number 0");
  EXPECT_EQ(RequestReason(With(put, 24, uint64_t{1})), m + "reserved bytes are not zero");
  EXPECT_EQ(RequestReason(With(pulled, 37, '\1')), m + "where to pull the value from is cut short");
  EXPECT_EQ(RequestReason(With(pulled, 60, 1u)), m + "reserved bytes are not zero");
  EXPECT_EQ(RequestReason(With(pulled, 40, uint64_t{4})), m + "the value to pull is not aligned");
  EXPECT_EQ(RequestReason(get + "v"), m + "a value where none belongs");
  EXPECT_EQ(RequestReason(With(get, 4, 1u)), m + "a value where none belongs");
  EXPECT_EQ(RequestReason(With(ping, 1, '\1')), m + "a condition where none belongs");
}

TEST(Request, WhatFitsInAMessage) {
  EXPECT_TRUE(FitsInMessage(1024, kMaxMessageBytes - 1024 - 32));
  EXPECT_FALSE(FitsInMessage(1024, kMaxMessageBytes - 1024 - 31));
}

TEST(Reply, GoldenBytesAndBack) {
  Reply reply;
  reply.code = Code::kExists;
  reply.number = 42;
  reply.version = 7;
  reply.slot = Slot(0xbeef, 4, 0x400000);
  EXPECT_EQ(absl::BytesToHexString(Encode(reply)), kReply);
  reply.code = Code::kOk;
  reply.payload = "hello";
  EXPECT_EQ(absl::BytesToHexString(Encode(reply)), kReplyToGet);
  const std::string bytes = Bytes(kReplyToGet);
  const auto decoded = Reply::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->code, Code::kOk);
  EXPECT_EQ(decoded->number, 42u);
  EXPECT_EQ(decoded->version, 7u);
  EXPECT_EQ(decoded->slot, reply.slot);
  EXPECT_EQ(decoded->payload, "hello");
}

TEST(Reply, EachWrongFieldHasItsReason) {
  const std::string reply = Bytes(kReplyToGet);
  const auto reason = [](const std::string& bytes) { return std::string(Reply::Decode(bytes).status().message()); };
  const std::string m = "malformed message: reply: ";
  for (size_t bytes = 0; bytes < reply.size(); ++bytes) {
    EXPECT_EQ(reason(reply.substr(0, bytes)),
              m + (bytes < 32 ? "shorter than its header" : "payload of another length than it says"));
  }
  EXPECT_EQ(reason(reply + "x"), m + "payload of another length than it says");
  EXPECT_EQ(reason(With(reply, 0, '\x0d')), m + "unknown code 13");
  for (const size_t offset : {1, 2, 3}) {
    EXPECT_EQ(reason(With(reply, offset, '\1')), m + "reserved bytes are not zero");
  }
}

TEST(Code, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int code = 0; code < kCodes; ++code) names.insert(std::string(CodeName(static_cast<Code>(code))));
  EXPECT_EQ(names.size(), static_cast<size_t>(kCodes));
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_EQ(CodeName(static_cast<Code>(kCodes)), "unknown");
}

}  // namespace
}  // namespace farlook::kv
