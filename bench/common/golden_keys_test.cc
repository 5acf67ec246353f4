// Keys and scrambled positions equal those that the Java YCSB made (testdata/keys.tsv).
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "bench/common/key_name.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

TEST(GoldenKeysTest, EveryVectorOfTheJavaYcsbIsReproduced) {
  std::ifstream file("bench/common/testdata/keys.tsv");
  ASSERT_TRUE(file.is_open());
  std::string header;
  std::getline(file, header);
  ASSERT_EQ(header, "# n\tkey\tscrambled_mod_1001\tscrambled_mod_1000001");
  int64_t n, mod_1001, mod_1000001;
  std::string key;
  int vectors = 0;
  while (file >> n >> key >> mod_1001 >> mod_1000001) {
    SCOPED_TRACE(n);
    std::string name;
    BuildKeyName(n, KeyNaming{}, &name);
    EXPECT_EQ(name, key);
    EXPECT_EQ(FnvHash64(n) % 1001, mod_1001);
    EXPECT_EQ(FnvHash64(n) % 1000001, mod_1000001);
    ++vectors;
  }
  EXPECT_TRUE(file.eof());
  EXPECT_EQ(vectors, 64);
}

TEST(KeyNameTest, OrderedKeysAreTheNumberItself) {
  std::string name = "what was here before, longer than any key";
  BuildKeyName(42, KeyNaming{.ordered = true}, &name);
  EXPECT_EQ(name, "user42");
}

TEST(KeyNameTest, NumbersOfAllLengthsAreWrittenInFull) {
  std::vector<int64_t> numbers = {0, -1, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (int64_t power = 1; power <= std::numeric_limits<int64_t>::max() / 10; power *= 10) {
    for (int64_t number : {power - 1, power, power + 1, power * 7 + power / 3, 10 * (power - 1) + 9}) {
      numbers.push_back(number);
    }
  }
  for (int64_t number = 0; number < 10'000; ++number) numbers.push_back(number * 10'001);
  for (int64_t number : numbers) {
    std::string name;
    BuildKeyName(number, KeyNaming{.ordered = true}, &name);
    EXPECT_EQ(name, "user" + std::to_string(number));
    BuildKeyName(number, KeyNaming{.ordered = true, .zero_padding = 30}, &name);
    EXPECT_EQ(name, "user" + std::string(30 - std::to_string(number).size(), '0') + std::to_string(number));
  }
}

TEST(KeyNameTest, ZeroPaddingFillsUpToAndNeverCuts) {
  std::string name;
  BuildKeyName(42, KeyNaming{.ordered = true, .zero_padding = 5}, &name);
  EXPECT_EQ(name, "user00042");
  BuildKeyName(123456, KeyNaming{.ordered = true, .zero_padding = 5}, &name);
  EXPECT_EQ(name, "user123456");
  BuildKeyName(0, KeyNaming{.ordered = false, .zero_padding = 25}, &name);
  EXPECT_EQ(name, "user0000006284781860667377211");
}

}  // namespace
}  // namespace farlook::bench
