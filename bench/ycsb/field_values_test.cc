#include "bench/ycsb/field_values.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

std::string Deterministic(absl::string_view key, absl::string_view name, size_t length) {
  std::string bytes = "left over from before";
  DeterministicFieldValue(key, name, length, &bytes);
  return bytes;
}

// The expected values were computed with Java's own String.hashCode.
TEST(FieldValuesTest, DeterministicValuesEqualThoseOfJava) {
  EXPECT_EQ(Deterministic("user6284781860667377211", "field0", 100),
            "user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:-169193395:-1039977118:-10");
  EXPECT_EQ(Deterministic("user8517097267634966620", "field9", 100),
            "user8517097267634966620:field9:-557952544:-154748015:-999445747:39902524:407413116:601987099:1564411");
  EXPECT_EQ(Deterministic("user1", "field3", 40), "user1:field3:-1268391123:-559500112:-142");
}

TEST(FieldValuesTest, ShortDeterministicValuesAreCut) {
  EXPECT_EQ(Deterministic("user1", "field3", 5), "user1");
  EXPECT_EQ(Deterministic("user1", "field3", 0), "");
}

TEST(FieldValuesTest, RandomValuesHaveTheirLengthAndPrint) {
  Random random(1);
  for (size_t length : {0, 1, 7, 8, 9, 100, 1001}) {
    std::string bytes = "before";
    RandomFieldValue(length, &random, &bytes);
    ASSERT_EQ(bytes.size(), length);
    for (char c : bytes) EXPECT_TRUE(c >= '@' && c <= '_') << c;
  }
}

TEST(FieldValuesTest, RandomValuesDiffer) {
  Random random(1);
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    std::string bytes;
    RandomFieldValue(20, &random, &bytes);
    EXPECT_TRUE(seen.insert(bytes).second);
  }
}

}  // namespace
}  // namespace farlook::bench
