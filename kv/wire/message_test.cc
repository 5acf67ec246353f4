#include "kv/wire/message.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/wire/message_testing.h"

namespace farlook::kv {
namespace {

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

// Request::Decode() decodes each message that PlainPut::Decode() accepts to the same put.
TEST(Request, APlainPutIsDecodedAsEachRequestIs) {
  const std::string bytes = Bytes(kPlainPut);
  int taken = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      PlainPut plain;
      if (!PlainPut::Decode(changed, &plain)) continue;
      ++taken;
      const auto request = Request::Decode(changed);
      ASSERT_TRUE(request.ok()) << at << " " << value << ": " << request.status();
      EXPECT_EQ(request->type, RequestType::kPut);
      EXPECT_EQ(request->condition, Condition::kAlways);
      EXPECT_EQ(request->flags, 0);
      EXPECT_TRUE(request->options.empty());
      EXPECT_FALSE(request->unsupported);
      EXPECT_EQ(plain.number, request->number);
      EXPECT_EQ(plain.deadline_us, request->deadline_us);
      EXPECT_EQ(plain.item.key, request->key);
      EXPECT_EQ(plain.item.value, request->value);
    }
  }
  // Any deadline, any key and value, any number except 0; the other bytes must have their original values.
  EXPECT_EQ(taken, (8 + 8 + 10) * 256 - 1 + 24);
}

TEST(Request, NoOtherIsAPlainPut) {
  PlainPut plain;
  for (const char* other : {kPut, kPutPulled, kGetRequest, kOptions, kStat, kCounterAdd, kPing, kTouch}) {
    EXPECT_FALSE(PlainPut::Decode(Bytes(other), &plain)) << other;
  }
  const std::string bytes = Bytes(kPlainPut);
  for (size_t shorter = 0; shorter < bytes.size(); ++shorter) {
    EXPECT_FALSE(PlainPut::Decode(bytes.substr(0, shorter), &plain)) << shorter;
  }
  EXPECT_FALSE(PlainPut::Decode(bytes + "x", &plain));
  // Without a key, and with one that is too long.
  for (const size_t key_bytes : {size_t{0}, kMaxKeyBytes + 1}) {
    Request put;
    const std::string key(key_bytes, 'k');
    put.type = RequestType::kPut;
    put.number = 1;
    put.key = key;
    std::string head(Request::kHeaderBytes + key_bytes, '\0');
    put.EncodeHead(head.data());
    EXPECT_FALSE(PlainPut::Decode(head, &plain)) << key_bytes;
    EXPECT_FALSE(Request::Decode(head).ok());
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
  EXPECT_EQ(RequestReason(With(put, 0, '\16')), m + "a number where none belongs");
  EXPECT_EQ(RequestReason(With(put, 1, '\4')), m + "unknown condition 4");
  EXPECT_EQ(RequestReason(With(put, 2, uint16_t{0})), m + "empty key");
  EXPECT_EQ(RequestReason(With(put, 2, uint16_t{1025})), m + "key above 1,024 bytes");
  EXPECT_EQ(RequestReason(With(put, 2, uint16_t{11})), m + "key is cut short");
  EXPECT_EQ(RequestReason(With(put, 4, 6u)), m + "value length does not match");
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
  // Expect: an unknown critical option is reported, so that it can be answered.
  const std::string critical_bytes = With(options, 41, '\x80');
  const auto critical = Request::Decode(critical_bytes);
  ASSERT_TRUE(critical.ok()) << critical.status();
  EXPECT_TRUE(critical->unsupported);
  EXPECT_EQ(critical->key, "user1");
  for (const auto& [flags, unsupported] : {std::pair{'\1', false}, {'\2', false}, {'\4', true}, {'\x81', true}}) {
    const std::string flag_bytes = With(Bytes(kGetRequest), 34, flags);
    const auto flag = Request::Decode(flag_bytes);
    ASSERT_TRUE(flag.ok()) << flag.status();
    EXPECT_EQ(flag->unsupported, unsupported) << int{flags};
  }

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
              m + (bytes < 40 ? "shorter than its header" : "payload length does not match"));
  }
  EXPECT_EQ(reason(reply + "x"), m + "payload length does not match");
  EXPECT_EQ(reason(With(reply, 0, static_cast<char>(kCodes))), m + absl::StrCat("unknown code ", kCodes));
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
