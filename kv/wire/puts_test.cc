// The bytes of docs/protocol.md, "Several puts at once", and malformed messages.
#include "kv/wire/puts.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/wire/message_testing.h"

namespace farlook::kv {
namespace {

constexpr char kPuts[] =
    "15020000140000002a00000000000000"  // kPuts, kPresent, 20 bytes, number 42
    "000000000000000040420f0000000000"  // no version, deadline 1,000,000 µs
    "1000000000000000"                  // 16 bytes of options
    "0180080040420f000000000000000000"  // ttl: 1,000,000 µs, and four bytes that fill up
    "05000500757365723168656c6c6f"      // "user1", "hello"
    "020000007532";                     // "u2", ""

std::string TwoPuts() {
  PutsWriter puts(/*option_bytes=*/16);
  EXPECT_TRUE(puts.Add("user1", "hello"));
  EXPECT_TRUE(puts.Add("u2", ""));
  return std::string(puts.value());
}

std::string PutOf(size_t key_bytes, size_t value_bytes) {
  std::string put(Puts::kHeadBytes, '\0');
  StoreAs(put.data(), static_cast<uint16_t>(key_bytes));
  StoreAs(put.data() + 2, static_cast<uint16_t>(value_bytes));
  return absl::StrCat(put, std::string(key_bytes, 'k'), std::string(value_bytes, 'v'));
}

TEST(Puts, GoldenBytes) {
  const std::string value = TwoPuts();
  char options[RequestOptions::kMaxBytes];
  RequestOptions option;
  option.has_ttl = true;
  option.ttl_us = 1'000'000;
  Request puts;
  puts.type = RequestType::kPuts;
  puts.condition = Condition::kPresent;
  puts.number = 42;
  puts.deadline_us = 1'000'000;
  puts.options = {options, option.Encode(options)};
  puts.value = value;
  puts.value_bytes = static_cast<uint32_t>(value.size());
  EXPECT_EQ(absl::BytesToHexString(Encode(puts)), kPuts);
  const std::string bytes = Bytes(kPuts);
  const auto decoded = Request::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->condition, Condition::kPresent);
  EXPECT_EQ(decoded->option.ttl_us, 1'000'000u);
  Puts all;
  ASSERT_TRUE(Puts::Decode(decoded->value, &all));
  ASSERT_EQ(all.size, 2u);
  EXPECT_EQ(all.all[0].key, "user1");
  EXPECT_EQ(all.all[0].value, "hello");
  EXPECT_EQ(all.all[1].key, "u2");
  EXPECT_EQ(all.all[1].value, "");
}

TEST(Puts, WhatIsNoneIsRefused) {
  Puts all;
  const std::string value = TwoPuts();
  for (size_t cut = 0; cut < value.size(); ++cut) {
    EXPECT_EQ(Puts::Decode(absl::string_view(value).substr(0, cut), &all), cut == 14) << cut;  // 14: the first alone
  }
  EXPECT_FALSE(Puts::Decode(value + std::string(1, '\0'), &all));
  EXPECT_FALSE(Puts::Decode(PutOf(0, 5), &all));
  EXPECT_TRUE(Puts::Decode(PutOf(kMaxKeyBytes, 5), &all));
  EXPECT_FALSE(Puts::Decode(PutOf(kMaxKeyBytes + 1, 5), &all));
  EXPECT_FALSE(Puts::Decode(With(value, 2, ~uint16_t{0}), &all));
  std::string many;
  for (size_t i = 0; i < kMaxPuts; ++i) many += PutOf(1, 1);
  EXPECT_TRUE(Puts::Decode(many, &all));
  EXPECT_EQ(all.size, kMaxPuts);
  EXPECT_FALSE(Puts::Decode(many + PutOf(1, 1), &all));
}

TEST(Puts, AMessageTakesThosePutsThatFit) {
  for (const size_t option_bytes : {size_t{0}, size_t{16}}) {
    PutsWriter puts(option_bytes);
    const std::string thousand(1000, 'v');
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(puts.Add("k", thousand.substr(5)));
    const size_t left = kMaxMessageBytes - Request::kHeaderBytes - option_bytes - puts.value().size();
    EXPECT_FALSE(puts.Add("k", thousand.substr(0, left - 4)));
    EXPECT_FALSE(puts.Add(thousand.substr(0, left - 3), ""));
    EXPECT_FALSE(puts.Add(thousand, thousand));
    EXPECT_TRUE(puts.Add("k", thousand.substr(0, left - 5)));
    EXPECT_EQ(puts.value().size(), kMaxMessageBytes - Request::kHeaderBytes - option_bytes);
    EXPECT_FALSE(puts.Add("k", ""));
    Puts all;
    ASSERT_TRUE(Puts::Decode(puts.value(), &all));
    EXPECT_EQ(all.size, 5u);
  }
}

}  // namespace
}  // namespace farlook::kv
