#include "server/base/byte_size.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::server {
namespace {

TEST(ByteSizeTest, UnderstandsUnits) {
  const std::vector<std::pair<const char*, uint64_t>> cases = {
      {"0", 0},
      {"1", 1},
      {"100b", 100},
      {"64k", 64 << 10},
      {"64KiB", 64 << 10},
      {"64 kb", 64 << 10},
      {"512m", 512 << 20},
      {"512MiB", 512 << 20},
      {"4g", 4ull << 30},
      {"4GiB", 4ull << 30},
      {"4GB", 4ull << 30},
      {"1.5g", 3ull << 29},
      {"2t", 2ull << 40},
      {" 7g ", 7ull << 30},
      {"8388607t", 8388607ull << 40},
  };
  for (const auto& [text, bytes] : cases) {
    ByteSize size;
    std::string error;
    EXPECT_TRUE(AbslParseFlag(text, &size, &error)) << text << ": " << error;
    EXPECT_EQ(size.bytes, bytes) << text;
  }
}

TEST(ByteSizeTest, RefusesTheRestAndSaysWhatItWants) {
  for (const char* text : {"", "g", "-1", "4x", "4gg", "4gibi", "1.5", "0x10", "1e9", "1..5g", "9000000t",
                           "99999999999999999999", "4 5g", "four"}) {
    ByteSize size{42};
    std::string error;
    EXPECT_FALSE(AbslParseFlag(text, &size, &error)) << text;
    EXPECT_EQ(size.bytes, 42u) << text;
    EXPECT_NE(error.find("4GiB"), std::string::npos);
  }
}

TEST(ByteSizeTest, FormatsExactly) {
  EXPECT_EQ(FormatByteSize(0), "0");
  EXPECT_EQ(FormatByteSize(100), "100");
  EXPECT_EQ(FormatByteSize(3ull << 29), "1536MiB");
  EXPECT_EQ(FormatByteSize(4ull << 30), "4GiB");
  EXPECT_EQ(FormatByteSize(1ull << 60), "1048576TiB");
}

}  // namespace
}  // namespace farlook::server
