// The bytes of docs/protocol.md, "Several gets at once", and malformed messages.
#include "kv/wire/gets.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/wire/message_testing.h"

namespace farlook::kv {
namespace {

constexpr char kGets[] =
    "140000000b0000002a00000000000000"  // kGets, 11 bytes of keys, number 42
    "00000000000000000000000000000000"
    "0000000000000000"
    "050075736572310200"  // "user1"
    "7532";               // "u2"
constexpr char kPack[] =
    "8200020000000000"                  // two replies
    "00000000050000002a00000000000000"  // kOk, 5 bytes, number 42
    "0700000000000000000002000002efbe"
    "40420f0000000000"
    "68656c6c6f000000"                  // "hello", filled up
    "01000000000000002b00000000000000"  // kNotFound, number 43
    "00000000000000000000000000000000"
    "40420f0000000000";

std::string TwoKeys() {
  GetsWriter keys;
  EXPECT_TRUE(keys.Add("user1"));
  EXPECT_TRUE(keys.Add("u2"));
  return std::string(keys.value());
}

std::string TwoReplies() {
  Reply found;
  found.number = 42;
  found.version = 7;
  found.slot = Slot(0xbeef, 4, 0x400000);
  found.time_us = 1'000'000;
  found.payload = "hello";
  Reply absent;
  absent.code = Code::kNotFound;
  absent.number = 43;
  absent.time_us = 1'000'000;
  ReplyPack pack;
  EXPECT_TRUE(pack.empty());
  EXPECT_TRUE(pack.Add(found));
  EXPECT_TRUE(pack.Add(absent));
  return std::string(pack.Finish());
}

bool Whole(absl::string_view message) {
  PackedReplies pack(message);
  for (absl::string_view reply; pack.Next(&reply);) {
    if (!Reply::Decode(reply).ok()) return false;
  }
  return pack.whole();
}

TEST(Gets, GoldenBytes) {
  const std::string keys = TwoKeys();
  Request gets = ARequest(RequestType::kGets, "");
  gets.value = keys;
  gets.value_bytes = static_cast<uint32_t>(keys.size());
  EXPECT_EQ(absl::BytesToHexString(Encode(gets)), kGets);
  const std::string bytes = Bytes(kGets);
  const auto decoded = Request::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  GetKeys asked;
  ASSERT_TRUE(GetKeys::Decode(decoded->value, &asked));
  ASSERT_EQ(asked.size, 2u);
  EXPECT_EQ(asked.keys[0], "user1");
  EXPECT_EQ(asked.keys[1], "u2");
  EXPECT_EQ(absl::BytesToHexString(TwoReplies()), kPack);
}

TEST(Gets, KeysThatAreNoneAreRefused) {
  GetKeys asked;
  const std::string keys = TwoKeys();
  for (size_t cut = 0; cut < keys.size(); ++cut) {
    EXPECT_EQ(GetKeys::Decode(absl::string_view(keys).substr(0, cut), &asked), cut == 7) << cut;  // 7: the first alone
  }
  EXPECT_FALSE(GetKeys::Decode(absl::string_view("\0\0", 2), &asked));
  const auto key_of = [](size_t bytes) {
    return std::string{static_cast<char>(bytes & 0xff), static_cast<char>(bytes >> 8)} + std::string(bytes, 'k');
  };
  EXPECT_TRUE(GetKeys::Decode(key_of(kMaxKeyBytes), &asked));
  EXPECT_FALSE(GetKeys::Decode(key_of(kMaxKeyBytes + 1), &asked));
  std::string many;
  for (size_t i = 0; i < kMaxGets; ++i) many += key_of(1);
  EXPECT_TRUE(GetKeys::Decode(many, &asked));
  EXPECT_EQ(asked.size, kMaxGets);
  EXPECT_FALSE(GetKeys::Decode(many + key_of(1), &asked));
}

TEST(Gets, AMessageTakesTheKeysThatFit) {
  GetsWriter keys;
  const std::string longest(kMaxKeyBytes, 'k');
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(keys.Add(longest));
  EXPECT_FALSE(keys.Add(longest));
  const size_t left = kMaxMessageBytes - Request::kHeaderBytes - keys.value().size();
  EXPECT_FALSE(keys.Add(longest.substr(0, left - 1)));
  EXPECT_TRUE(keys.Add(longest.substr(0, left - 2)));
  GetKeys asked;
  ASSERT_TRUE(GetKeys::Decode(keys.value(), &asked));
  EXPECT_EQ(asked.size, 4u);
}

TEST(ReplyPack, TakesTheRepliesThatFit) {
  ReplyPack pack;
  Reply reply;
  const std::string value(1000, 'v');
  reply.payload = value;
  for (uint64_t i = 0; i < 3; ++i) {
    reply.number = i + 1;
    EXPECT_TRUE(pack.Add(reply));
  }
  EXPECT_FALSE(pack.Add(reply));
  EXPECT_LE(pack.Finish().size(), kMaxMessageBytes);
  EXPECT_TRUE(Whole(pack.Finish()));
  pack.Clear();
  // Expect: the longest payload of a pack is one word shorter than the longest of a message.
  const std::string longest(kMaxReplyPayloadBytes, 'v');
  reply.payload = longest;
  EXPECT_FALSE(pack.Add(reply));
  EXPECT_TRUE(pack.empty());
  reply.payload = absl::string_view(longest).substr(8);
  EXPECT_TRUE(pack.Add(reply));
  EXPECT_EQ(pack.Finish().size(), kMaxMessageBytes);
}

TEST(ReplyPack, WhatIsNoneIsRefused) {
  const std::string pack = TwoReplies();
  EXPECT_TRUE(ReplyPack::Is(pack));
  EXPECT_TRUE(Whole(pack));
  for (size_t cut = 0; cut < pack.size(); ++cut) EXPECT_FALSE(Whole(pack.substr(0, cut))) << cut;
  EXPECT_FALSE(Whole(pack + std::string(8, '\0')));
  for (const size_t at : {1, 4, 7, 53, 55}) {  // zero bytes: of the head, and of the padding
    EXPECT_FALSE(Whole(With(pack, at, '\1'))) << at;
  }
  EXPECT_FALSE(Whole(With(pack, 2, uint16_t{0})));
  EXPECT_FALSE(Whole(With(pack, 2, uint16_t{1})));
  EXPECT_FALSE(Whole(With(pack, 2, uint16_t{3})));
  EXPECT_FALSE(Whole(With(pack, 12, ~uint32_t{0})));  // a payload longer than the message
}

}  // namespace
}  // namespace farlook::kv
