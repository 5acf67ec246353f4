#include "kv/message.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/words.h"

namespace farlook::kv {
namespace {

// The bytes of docs/protocol.md.
constexpr char kPut[] =
    "01030500050000002a00000000000000"  // kPut, kVersion, 5 + 5 bytes, number 42
    "070000000000000040420f0000000000"  // version 7, deadline 1,000,000 µs
    "0000000000000000"                  // no options, no flags
    "757365723168656c6c6f";             // "user1", "hello"
constexpr char kPutPulled[] =
    "02010500000010002a00000000000000"   // kPutPulled, kAbsent, 5 + 1 Mi bytes, number 42
    "00000000000000000000000000000000"   // no version, no deadline
    "0000000000000000"                   // no options, no flags
    "7573657231000000"                   // "user1", padding
    "00100000007f0000"                   // the value's address
    "1100ffeeddccbbaa9900000000000000";  // its hash, rkey
constexpr char kGetRequest[] =
    "04000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "7573657231";
constexpr char kOptions[] =
    "04000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "1000000000000000"                  // 16 bytes of options
    "07000500616263646500000000000000"  // field 7: "abcde", and four bytes that fill up
    "7573657231";
constexpr char kStat[] =
    "06000600000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "736572766572";  // "server"
constexpr char kCounterAdd[] =
    "08000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "7573657231000000"                   // "user1", padding
    "fdffffffffffffff0000000000000000";  // -3
constexpr char kCounterSwap[] =
    "09000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "7573657231000000"
    "07000000000000000900000000000000";  // 7, 9
constexpr char kCounterRead[] =
    "0a000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "7573657231";
constexpr char kCellsDropped[] =
    "0c000000000000000000000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "07000000000000000000000000000000";  // sequence 7
constexpr char kGoodbye[] =
    "0d000000000000000000000000000000"
    "00000000000000000000000000000000"
    "0000000000000000";
constexpr char kPing[] =
    "05000000000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000";
constexpr char kTouch[] =
    "0f000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "1000000000000000"                  // 16 bytes of options
    "0180080040420f000000000000000000"  // ttl: 1,000,000 µs, and four bytes that fill up
    "7573657231";
constexpr char kPersist[] =
    "0f000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "7573657231";
constexpr char kPutKeepingTtl[] =
    "01030500050000002a00000000000000"
    "070000000000000040420f0000000000"
    "1000000000000000"                  // 16 bytes of options
    "02800000000000000300010001000000"  // keep_ttl, filled up; flags of the item: keep
    "757365723168656c6c6f";
constexpr const char* kRequests[] = {kPut,     kPutPulled,  kGetRequest,  kOptions,      kStat,
                                     kPing,    kCounterAdd, kCounterSwap, kCounterRead,  kCellsDropped,
                                     kGoodbye, kTouch,      kPersist,     kPutKeepingTtl};
constexpr char kReplyToTtl[] =
    "00000000080000002a00000000000000"  // kOk, 8 bytes of payload, number 42
    "0700000000000000000002000002efbe"
    "40420f0000000000"   // 1,000,000 µs
    "dc05000000000000";  // expires at 1,500 ms
constexpr char kReply[] =
    "02000000000000002a00000000000000"  // kExists, no payload, number 42
    "0700000000000000"                  // version 7
    "000002000002efbe"                  // slot
    "40420f0000000000";                 // 1,000,000 µs
constexpr char kReplyToGet[] =
    "00000000050000002a00000000000000"  // kOk, 5 bytes of payload, number 42
    "0700000000000000000002000002efbe"
    "40420f0000000000"
    "68656c6c6f";  // "hello"
constexpr char kReplyToAdd[] =
    "00000000100000002a00000000000000"  // kOk, 16 bytes of payload, number 42
    "00000000000000000000000000000000"
    "40420f0000000000"
    "fdffffffffffffffc002000000000000";  // -3, the cell at 704

std::string Bytes(absl::string_view hex) { return absl::HexStringToBytes(hex); }

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
  request.deadline_us = 1'000'000;
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
  add.operands.operand = -3;
  EXPECT_EQ(absl::BytesToHexString(Encode(add)), kCounterAdd);
  Request swap = ARequest(RequestType::kCounterSwap, "user1");
  swap.operands = {7, 9};
  EXPECT_EQ(absl::BytesToHexString(Encode(swap)), kCounterSwap);
  Request dropped;
  dropped.type = RequestType::kCellsDropped;
  dropped.operands.operand = 7;
  EXPECT_EQ(absl::BytesToHexString(Encode(dropped)), kCellsDropped);
  const std::string bytes = Bytes(kCounterSwap);
  const auto decoded = Request::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->operands.operand, 7);
  EXPECT_EQ(decoded->operands.desired, 9);
  EXPECT_EQ(decoded->key, "user1");
}

// `request` with these options, which are kept in `options`.
Request WithOptions(Request request, const RequestOptions& asked, std::string* options) {
  options->resize(RequestOptions::kMaxBytes);
  options->resize(asked.Encode(options->data()));
  request.options = *options;
  return request;
}

RequestOptions Ttl(uint64_t ttl_us) {
  RequestOptions options;
  options.ttl_us = ttl_us;
  options.has_ttl = true;
  return options;
}

TEST(Request, GoldenBytesOfExpiry) {
  std::string options;
  const Request touch = ARequest(RequestType::kTouch, "user1");
  EXPECT_EQ(absl::BytesToHexString(Encode(WithOptions(touch, Ttl(1'000'000), &options))), kTouch);
  EXPECT_EQ(absl::BytesToHexString(Encode(touch)), kPersist);
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kGetAndTouch, "user1"))),
            "10" + std::string(kPersist + 2));
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kTtl, "user1"))), "11" + std::string(kPersist + 2));
  RequestOptions keep;
  keep.keep_ttl = true;
  keep.item_flags = RequestOptions::kKeep;
  EXPECT_EQ(absl::BytesToHexString(Encode(WithOptions(APut(), keep, &options))), kPutKeepingTtl);

  const std::string bytes = Bytes(kTouch);
  const auto decoded = Request::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->type, RequestType::kTouch);
  EXPECT_EQ(decoded->key, "user1");
  EXPECT_TRUE(decoded->option.has_ttl);
  EXPECT_EQ(decoded->option.ttl_us, 1'000'000u);
  const std::string keeping_bytes = Bytes(kPutKeepingTtl);
  const auto keeping = Request::Decode(keeping_bytes);
  ASSERT_TRUE(keeping.ok()) << keeping.status();
  EXPECT_FALSE(keeping->option.has_ttl);
  EXPECT_TRUE(keeping->option.keep_ttl);
  EXPECT_EQ(keeping->option.item_flags, RequestOptions::kKeep);
  EXPECT_EQ(keeping->value, "hello");
}

TEST(Request, ATtlIsOfOneMillisecondToTenYears) {
  std::string options;
  const auto decodes = [&options](const RequestOptions& asked) {
    return Request::Decode(Encode(WithOptions(APut(), asked, &options))).status();
  };
  for (const uint64_t ttl_us : {uint64_t{0}, kMinTtlUs, uint64_t{5'000'000'000}, kMaxTtlUs}) {
    const std::string bytes = Encode(WithOptions(APut(), Ttl(ttl_us), &options));
    const auto request = Request::Decode(bytes);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_TRUE(request->option.has_ttl);
    EXPECT_EQ(request->option.ttl_us, ttl_us);
  }
  for (const uint64_t ttl_us : {uint64_t{1}, kMinTtlUs - 1, kMaxTtlUs + 1, ~uint64_t{0}}) {
    EXPECT_EQ(decodes(Ttl(ttl_us)).message(),
              absl::StrCat("malformed message: request: a ttl of ", ttl_us, " us: an item lives for 1 ms to 10 years"));
  }
  RequestOptions both = Ttl(kMinTtlUs);
  both.keep_ttl = true;
  EXPECT_EQ(decodes(both).message(), "malformed message: request: a ttl, and the one to be kept");
}

TEST(Request, OptionsOfExpiryStandOnlyWhereTheyMeanSomething) {
  std::string options;
  const std::string m = "malformed message: request: ";
  RequestOptions keep_ttl, keep, unknown;
  keep_ttl.keep_ttl = true;
  keep.item_flags = RequestOptions::kKeep;
  unknown.item_flags = 2;
  const auto reason = [&options](RequestType type, const RequestOptions& asked) {
    return RequestReason(Encode(WithOptions(ARequest(type, "user1"), asked, &options)));
  };
  for (const RequestType type :
       {RequestType::kGet, RequestType::kDelete, RequestType::kCounterRead, RequestType::kTtl}) {
    EXPECT_EQ(reason(type, Ttl(kMinTtlUs)), m + "a ttl where none belongs");
    EXPECT_EQ(reason(type, keep_ttl), m + "a ttl to be kept where none belongs");
    EXPECT_EQ(reason(type, keep), m + "flags of an item where none belong");
  }
  EXPECT_EQ(reason(RequestType::kTouch, keep_ttl), m + "a ttl to be kept where none belongs");
  for (const RequestType type : {RequestType::kTouch, RequestType::kGetAndTouch}) {
    EXPECT_EQ(reason(type, Ttl(kMinTtlUs)), "");
    EXPECT_EQ(RequestReason(With(Encode(ARequest(type, "user1")), 1, '\1')), m + "a condition where none belongs");
    EXPECT_EQ(RequestReason(Encode(ARequest(type, ""))), m + "empty key");
  }
  // Expect: a put with a flag of a later release is understood, and not executed.
  const std::string bytes = Encode(WithOptions(APut(), unknown, &options));
  const auto request = Request::Decode(bytes);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->unsupported);
}

TEST(Reply, ATtlsResultIsItsPayload) {
  char payload[TtlResult::kBytes];
  TtlResult{1'500}.Encode(payload);
  Reply reply;
  reply.number = 42;
  reply.version = 7;
  reply.slot = Slot(0xbeef, 4, 0x400000);
  reply.time_us = 1'000'000;
  reply.payload = {payload, sizeof payload};
  EXPECT_EQ(absl::BytesToHexString(Encode(reply)), kReplyToTtl);
  TtlResult result;
  ASSERT_TRUE(TtlResult::Decode(reply.payload, &result));
  EXPECT_EQ(result.expires_ms, 1'500u);
  EXPECT_FALSE(TtlResult::Decode(reply.payload.substr(1), &result));
}

TEST(Request, ImpossibleNumbersOfCountersAreMalformed) {
  const auto malformed = [](RequestType type, int64_t operand, int64_t desired = 0) {
    Request request = ARequest(type, type == RequestType::kCellsDropped ? "" : "user1");
    if (type == RequestType::kCellsDropped) request.number = 0;
    request.operands = {operand, desired};
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
  EXPECT_EQ(put->deadline_us, 1'000'000u);
  EXPECT_FALSE(put->unsupported);
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
  for (const char* hex : kRequests) {
    const std::string request_bytes = Bytes(hex);
    const auto request = Request::Decode(request_bytes);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(Encode(*request), Bytes(hex));
  }
}

TEST(Request, EachTruncationAndEachByteTooMuchIsMalformed) {
  for (const char* hex : kRequests) {
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
  EXPECT_EQ(RequestReason(put.substr(0, 39)), m + "shorter than its header");
  EXPECT_EQ(RequestReason(With(put, 0, '\0')), m + "unknown type 0");
  EXPECT_EQ(RequestReason(With(put, 0, '\16')), m + "unknown type 14");
  EXPECT_EQ(RequestReason(With(put, 1, '\4')), m + "unknown condition 4");
  EXPECT_EQ(RequestReason(With(put, 2, uint16_t{0})), m + "empty key");
  EXPECT_EQ(RequestReason(With(put, 2, uint16_t{1025})), m + "key above 1,024 bytes");
  EXPECT_EQ(RequestReason(With(put, 2, uint16_t{11})), m + "key is cut short");
  EXPECT_EQ(RequestReason(With(put, 4, 6u)), m + "value of another length than it says");
  EXPECT_EQ(RequestReason(With(put, 8, uint64_t{0})), m + "number 0");
  EXPECT_EQ(RequestReason(With(put, 36, 1u)), m + "reserved bytes are not zero");
  EXPECT_EQ(RequestReason(With(put, 1, '\0')), m + "a version where none belongs");
  EXPECT_EQ(RequestReason(With(get, 16, uint64_t{7})), m + "a version where none belongs");
  EXPECT_EQ(RequestReason(With(pulled, 45, '\1')), m + "where to pull the value from is cut short");
  EXPECT_EQ(RequestReason(With(pulled, 68, 1u)), m + "reserved bytes are not zero");
  EXPECT_EQ(RequestReason(With(pulled, 48, uint64_t{4})), m + "the value to pull is not aligned");
  EXPECT_EQ(RequestReason(With(Bytes(kCounterAdd), 45, '\1')), m + "what to do to the counter is cut short");
  EXPECT_EQ(RequestReason(get + "v"), m + "a value where none belongs");
  EXPECT_EQ(RequestReason(With(get, 4, 1u)), m + "a value where none belongs");
  EXPECT_EQ(RequestReason(With(ping, 1, '\1')), m + "a condition where none belongs");
  EXPECT_EQ(RequestReason(With(Bytes(kGoodbye), 8, uint64_t{1})), m + "a number where none belongs");
  EXPECT_EQ(RequestReason(With(Bytes(kGoodbye), 2, uint16_t{1}) + "k"), m + "a key where none belongs");
}

TEST(Request, OptionsAreIgnoredOrRefused) {
  const std::string options = Bytes(kOptions), m = "malformed message: request: ";
  const auto ignored = Request::Decode(options);
  ASSERT_TRUE(ignored.ok()) << ignored.status();
  EXPECT_FALSE(ignored->unsupported);
  EXPECT_EQ(ignored->key, "user1");
  EXPECT_EQ(ignored->options.size(), 16u);
  // Expect: what is critical and not known is said, so that it can be answered.
  const std::string critical_bytes = With(options, 41, '\x80');
  const auto critical = Request::Decode(critical_bytes);
  ASSERT_TRUE(critical.ok()) << critical.status();
  EXPECT_TRUE(critical->unsupported);
  EXPECT_EQ(critical->key, "user1");
  const std::string flag_bytes = With(Bytes(kGetRequest), 34, '\1');
  const auto flag = Request::Decode(flag_bytes);
  ASSERT_TRUE(flag.ok()) << flag.status();
  EXPECT_TRUE(flag->unsupported);

  EXPECT_EQ(RequestReason(With(options, 32, uint16_t{8})), m + "a field is cut short");
  EXPECT_EQ(RequestReason(With(options, 32, uint16_t{12})), m + "options of a length that is no multiple of 8");
  EXPECT_EQ(RequestReason(With(options, 32, uint16_t{24})), m + "options are cut short") << "longer than the message";
  EXPECT_EQ(RequestReason(With(options, 32, uint16_t{65528})), m + "options are cut short");
  EXPECT_EQ(RequestReason(With(options, 42, uint16_t{100})), m + "a field is cut short");
  EXPECT_EQ(RequestReason(With(Bytes(kGetRequest), 32, uint16_t{264}) + std::string(264, '\0')),
            m + "options above 256 bytes");
}

TEST(Request, WhatFitsInAMessage) {
  EXPECT_TRUE(FitsInMessage(1024, kMaxMessageBytes - 1024 - 40));
  EXPECT_FALSE(FitsInMessage(1024, kMaxMessageBytes - 1024 - 39));
  EXPECT_FALSE(FitsInMessage(1024, kMaxMessageBytes - 1024 - 40, 8));
}

TEST(Reply, GoldenBytesAndBack) {
  Reply reply;
  reply.code = Code::kExists;
  reply.number = 42;
  reply.version = 7;
  reply.slot = Slot(0xbeef, 4, 0x400000);
  reply.time_us = 1'000'000;
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
  EXPECT_EQ(decoded->time_us, 1'000'000u);
  EXPECT_EQ(decoded->payload, "hello");
}

TEST(Reply, ACountersResultIsItsPayload) {
  char payload[CounterResult::kBytes];
  CounterResult{-3, 704}.Encode(payload);
  Reply reply;
  reply.number = 42;
  reply.time_us = 1'000'000;
  reply.payload = {payload, sizeof payload};
  EXPECT_EQ(absl::BytesToHexString(Encode(reply)), kReplyToAdd);
  CounterResult result;
  ASSERT_TRUE(CounterResult::Decode(reply.payload, &result));
  EXPECT_EQ(result.value, -3);
  EXPECT_EQ(result.cell, 704u);
  EXPECT_FALSE(CounterResult::Decode(reply.payload.substr(1), &result));
}

TEST(Reply, EachWrongFieldHasItsReason) {
  const std::string reply = Bytes(kReplyToGet);
  const auto reason = [](const std::string& bytes) { return std::string(Reply::Decode(bytes).status().message()); };
  const std::string m = "malformed message: reply: ";
  for (size_t bytes = 0; bytes < reply.size(); ++bytes) {
    EXPECT_EQ(reason(reply.substr(0, bytes)),
              m + (bytes < 40 ? "shorter than its header" : "payload of another length than it says"));
  }
  EXPECT_EQ(reason(reply + "x"), m + "payload of another length than it says");
  EXPECT_EQ(reason(With(reply, 0, '\x0f')), m + "unknown code 15");
  EXPECT_EQ(reason(With(reply, 0, '\xff')), m + "unknown code 255") << "kMakingRoom is the server's own";
  EXPECT_TRUE(Reply::Decode(With(reply, 1, '\1')).ok()) << "an unknown flag";
  for (const size_t offset : {2, 3}) {
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
