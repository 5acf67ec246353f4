#include "client/cli/input/json_line.h"

#include <string>

#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

TEST(JsonLineTest, KeepsTheOrderOfFields) {
  EXPECT_EQ(JsonLine().ToString(), "{}");
  EXPECT_EQ(JsonLine().Bytes("z", "1").Bool("a", false).Number("m", uint64_t{18446744073709551615u}).ToString(),
            R"({"z":"1","a":false,"m":18446744073709551615})");
  EXPECT_EQ(JsonLine().Object("inner", JsonLine().Number("x", 1.5)).ToString(), R"({"inner":{"x":1.5}})");
}

TEST(JsonLineTest, BytesAreTextOrBase64) {
  EXPECT_EQ(JsonLine().Bytes("k", "a\"\\\n\xC3\xA9").ToString(), "{\"k\":\"a\\\"\\\\\\n\xC3\xA9\"}");
  EXPECT_EQ(JsonLine().Bytes("k", absl::string_view("\0", 1)).ToString(), R"({"k":"\u0000"})");
  EXPECT_EQ(JsonLine().Bytes("k", "\xFF").ToString(), R"({"k_base64":"/w=="})");
  // Expect: all control characters are escaped, since some terminals obey these too.
  EXPECT_EQ(JsonLine().Bytes("k", "\x7F\xC2\x80\xC2\x9F\xC2\xA0").ToString(),
            "{\"k\":\"\\u007f\\u0080\\u009f\xC2\xA0\"}");
}

TEST(JsonLineTest, NumbersAreRecognized) {
  EXPECT_EQ(JsonLine().NumberOrBytes("n", "18446744073709551615").ToString(), R"({"n":18446744073709551615})");
  EXPECT_EQ(JsonLine().NumberOrBytes("n", "-2.5").ToString(), R"({"n":-2.5})");
  EXPECT_EQ(JsonLine().NumberOrBytes("n", "0.10").ToString(), R"({"n":0.10})");
  EXPECT_EQ(JsonLine().NumberOrBytes("n", "0").ToString(), R"({"n":0})");
  for (const char* text : {"-", ".5", "5.", "007", "1.2.3", "12e4", "0x1", "+1", " 1"}) {
    EXPECT_EQ(JsonLine().NumberOrBytes("n", text).ToString(), "{\"n\":\"" + std::string(text) + "\"}");
  }
  EXPECT_EQ(JsonLine().NumberOrBytes("n", "nan").ToString(), R"({"n":"nan"})");
  EXPECT_EQ(JsonLine().NumberOrBytes("n", "1e999").ToString(), R"({"n":"1e999"})");
  EXPECT_EQ(JsonLine().NumberOrBytes("n", "4 GiB").ToString(), R"({"n":"4 GiB"})");
  EXPECT_EQ(JsonLine().NumberOrBytes("n", "").ToString(), R"({"n":""})");
}

}  // namespace
}  // namespace farlook::cli
