#include "client/cli/pair_format.h"

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/encoding.h"
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
  EXPECT_EQ(FormatPair("user1", "text", 7, PairFormat::kJson), R"({"key":"user1","value":"text","version":7})");
  EXPECT_EQ(FormatPair("\xFF", absl::string_view("\0\xFF", 2), 7, PairFormat::kJson),
            R"({"key_base64":"/w==","value_base64":"AP8=","version":7})");
  EXPECT_EQ(FormatPair("a\tb", "c\\d\n", 7, PairFormat::kTsv), "a\\tb\tc\\\\d\\n");
}

TEST(PairFormatTest, RandomBytesSurvive) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string key;
    std::string value;
    for (uint32_t i = random() % 20; i > 0; --i) key.push_back(static_cast<char>(random()));
    for (uint32_t i = random() % 20; i > 0; --i) value.push_back("\t\n\r\\\"\0a\xC3\xA9"[random() % 9]);
    for (const PairFormat format : {PairFormat::kJson, PairFormat::kTsv}) {
      const std::string line = FormatPair(key, value, 1, format);
      ASSERT_EQ(line.find('\n'), std::string::npos) << line;
      const absl::StatusOr<Pair> pair = ParsePair(line, format);
      ASSERT_TRUE(pair.ok()) << pair.status() << " " << line;
      EXPECT_EQ(pair->key, key);
      EXPECT_EQ(pair->value, value);
    }
  }
}

TEST(PairFormatTest, UnknownFieldsAreIgnored) {
  const absl::StatusOr<Pair> pair = ParsePair(
      R"( {"x":{"key":"no","a":[1,{"value":"no"}]},"value":"v","n":null,"key":"k","t":1.5} )", PairFormat::kJson);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->key, "k");
  EXPECT_EQ(pair->value, "v");
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
  EXPECT_THAT(JsonError(R"({"key":"k"})"), HasSubstr("neither \"value\""));
  EXPECT_THAT(JsonError(R"({"key":"k","value":1})"), HasSubstr("\"value\" is a number, not a string"));
  EXPECT_THAT(JsonError(R"({"key":["k"],"value":"v"})"), HasSubstr("\"key\" is an array"));
  EXPECT_THAT(JsonError(R"({"key":"k","value":{"a":1}})"), HasSubstr("\"value\" is an object"));
  EXPECT_THAT(JsonError(R"({"key":"k","key_base64":"aw==","value":"v"})"), HasSubstr("key twice"));
  EXPECT_THAT(JsonError(R"({"key_base64":"!","value":"v"})"), HasSubstr("not base64"));
}

TEST(PairFormatTest, DeepNestingIsNoDanger) {
  EXPECT_FALSE(ParsePair(std::string(1 << 20, '['), PairFormat::kJson).ok());
  std::string deep = R"({"key":"k","value":"v","x":)";
  deep += std::string(1 << 20, '[') + std::string(1 << 20, ']') + "}";
  EXPECT_TRUE(ParsePair(deep, PairFormat::kJson).ok());
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
