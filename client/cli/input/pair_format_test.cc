#include "client/cli/input/pair_format.h"

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/input/encoding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;

std::string JsonError(absl::string_view line) {
  return std::string(ParsePair(line, PairFormat::kJson).status().message());
}
std::string TsvError(absl::string_view line) {
  return std::string(ParsePair(line, PairFormat::kTsv).status().message());
}

TEST(PairFormatTest, LinesLookAsDocumented) {
  const auto json = [](const Pair& pair) { return FormatPair(pair, PairFormat::kJson); };
  const auto tsv = [](const Pair& pair) { return FormatPair(pair, PairFormat::kTsv); };
  EXPECT_EQ(json({.key = "user1", .value = "text", .version = 7}), R"({"key":"user1","value":"text","version":7})");
  EXPECT_EQ(json({.key = "\xFF", .value = std::string("\0\xFF", 2), .version = 7}),
            R"({"key_base64":"/w==","value_base64":"AP8=","version":7})");
  EXPECT_EQ(tsv({.key = "a\tb", .value = "c\\d\n", .version = 7}), "a\\tb\tc\\\\d\\n");
  const Pair kept = {.key = "user2", .value = "text", .ttl_ms = 29998, .keep = true, .version = 8};
  EXPECT_EQ(json(kept), R"({"key":"user2","value":"text","ttl_ms":29998,"keep":true,"version":8})");
  EXPECT_EQ(tsv(kept), "user2\ttext\tttl_ms=29998\tkeep");
  const Pair counter = {.key = "hits", .counter = -42, .ttl_ms = 29998};
  EXPECT_EQ(json(counter), R"({"key":"hits","counter":-42,"ttl_ms":29998})");
  EXPECT_EQ(tsv(counter), "hits\t\tcounter=-42\tttl_ms=29998");
}

TEST(PairFormatTest, RandomBytesSurvive) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    Pair sent;
    for (uint32_t i = random() % 20; i > 0; --i) sent.key.push_back(static_cast<char>(random()));
    for (uint32_t i = random() % 20; i > 0; --i) sent.value.push_back("\t\n\r\\\"\0a\xC3\xA9"[random() % 9]);
    if (random() % 2 == 0) sent.ttl_ms = 1 + random();
    if (random() % 2 == 0) sent.keep = true;
    if (random() % 4 == 0) {
      sent.value.clear();
      sent.keep = false;
      sent.counter = static_cast<int64_t>(random()) - INT32_MAX;
    }
    for (const PairFormat format : {PairFormat::kJson, PairFormat::kTsv}) {
      const std::string line = FormatPair(sent, format);
      ASSERT_EQ(line.find('\n'), std::string::npos) << line;
      const absl::StatusOr<Pair> pair = ParsePair(line, format);
      ASSERT_TRUE(pair.ok()) << pair.status() << " " << line;
      EXPECT_EQ(pair->key, sent.key);
      EXPECT_EQ(pair->value, sent.value);
      EXPECT_EQ(pair->ttl_ms, sent.ttl_ms);
      EXPECT_EQ(pair->keep, sent.keep);
      EXPECT_EQ(pair->counter, sent.counter);
    }
  }
}

// Data that import ignored silently would be lost.
TEST(PairFormatTest, UnknownMembersAreErrors) {
  EXPECT_THAT(JsonError(R"({"key":"k","value":"v","ttl":5})"), HasSubstr("a member \"ttl\", which is not known"));
  EXPECT_THAT(JsonError(R"({"x":{"key":"no"},"key":"k","value":"v"})"), HasSubstr("\"x\""));
  EXPECT_THAT(TsvError("a\tb\tttl=5"), HasSubstr("\"ttl=5\", not ttl_ms=N"));
}

TEST(PairFormatTest, WhatIsNoNumberOrNoFlagIsAnError) {
  EXPECT_THAT(JsonError(R"({"key":"k","value":"v","ttl_ms":"5"})"), HasSubstr("\"ttl_ms\" is a string, not a number"));
  EXPECT_THAT(JsonError(R"({"key":"k","value":"v","ttl_ms":0})"), HasSubstr("a ttl of 0 ms"));
  EXPECT_THAT(JsonError(R"({"key":"k","value":"v","ttl_ms":-5})"), HasSubstr("a ttl of -5 ms"));
  EXPECT_THAT(JsonError(R"({"key":"k","value":"v","ttl_ms":1.5})"), HasSubstr("no number of 64 bits"));
  EXPECT_THAT(JsonError(R"({"key":"k","counter":9223372036854775808})"), HasSubstr("no number of 64 bits"));
  EXPECT_THAT(JsonError(R"({"key":"k","counter":1e3})"), HasSubstr("no number of 64 bits"));
  EXPECT_THAT(JsonError(R"({"key":"k","value":"v","keep":1})"), HasSubstr("\"keep\" is a number, not true or false"));
  EXPECT_THAT(JsonError(R"({"key":"k","value":"v","counter":1})"), HasSubstr("both value and counter"));
  EXPECT_THAT(JsonError(R"({"key":"k","counter":1,"keep":true})"), HasSubstr("\"keep\", which no counter has"));
  EXPECT_THAT(TsvError("a\tb\tcounter=1"), HasSubstr("both value and counter"));
  EXPECT_THAT(TsvError("a\tb\tttl_ms=0"), HasSubstr("\"ttl_ms=0\""));
  EXPECT_TRUE(
      ParsePair(R"({"version":18446744073709551615,"key":"k","value":"v","keep":false})", PairFormat::kJson).ok());
}

TEST(PairFormatTest, JsonErrorsSayWhatIsWrong) {
  EXPECT_THAT(JsonError(""), HasSubstr("not JSON at position"));
  EXPECT_THAT(JsonError("user1\ttext"), HasSubstr("not JSON at position 1"));
  EXPECT_THAT(JsonError(R"({"key":"k","value":"v"} x)"), HasSubstr("not JSON"));
  EXPECT_THAT(JsonError(R"({"key":"k","value":"v")"), HasSubstr("not JSON"));
  EXPECT_THAT(JsonError("{\"key\":\"\xFF\",\"value\":\"v\"}"), HasSubstr("not JSON"));
  EXPECT_THAT(JsonError("[]"), HasSubstr("not an object"));
  EXPECT_THAT(JsonError("\"key\""), HasSubstr("not an object"));
  EXPECT_THAT(JsonError("3"), HasSubstr("not an object"));
  EXPECT_THAT(JsonError("{}"), HasSubstr("neither \"key\""));
  EXPECT_THAT(JsonError(R"({"key":"k"})"), HasSubstr("none of \"value\""));
  EXPECT_THAT(JsonError(R"({"key":"k","value":1})"), HasSubstr("\"value\" is a number, not a string"));
  EXPECT_THAT(JsonError(R"({"key":["k"],"value":"v"})"), HasSubstr("\"key\" is an array"));
  EXPECT_THAT(JsonError(R"({"key":"k","value":{"a":1}})"), HasSubstr("\"value\" is an object"));
  EXPECT_THAT(JsonError(R"({"key":"k","key_base64":"aw==","value":"v"})"), HasSubstr("key twice"));
  EXPECT_THAT(JsonError(R"({"key_base64":"!","value":"v"})"), HasSubstr("not base64"));
}

TEST(PairFormatTest, DeepNestingIsNoDanger) {
  EXPECT_FALSE(ParsePair(std::string(1 << 20, '['), PairFormat::kJson).ok());
  std::string deep = R"({"key":"k","value":)";
  deep += std::string(1 << 20, '[') + std::string(1 << 20, ']') + "}";
  EXPECT_FALSE(ParsePair(deep, PairFormat::kJson).ok());
}

TEST(PairFormatTest, TsvErrorsSayWhatIsWrong) {
  EXPECT_THAT(TsvError("key value"), HasSubstr("no tab"));
  EXPECT_THAT(TsvError("a\tb\tc"), HasSubstr("second tab"));
  EXPECT_THAT(TsvError("a\\q\tb"), HasSubstr("key: unknown escape"));
  EXPECT_THAT(TsvError("a\tb\\"), HasSubstr("value: unknown escape"));
  EXPECT_EQ(ParsePair("a\tb\r", PairFormat::kTsv)->value, "b") << "lines of another system";
}

TEST(PairFormatTest, FormatsHaveNames) {
  EXPECT_EQ(*ParsePairFormat("json"), PairFormat::kJson);
  EXPECT_EQ(*ParsePairFormat("tsv"), PairFormat::kTsv);
  EXPECT_THAT(ParsePairFormat("csv").status().ToString(), HasSubstr("json, tsv"));
}

}  // namespace
}  // namespace farlook::cli
