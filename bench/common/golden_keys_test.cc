// Keys and scrambled positions equal those that the Java YCSB made (testdata/keys.tsv).
#include <cstdint>
#include <fstream>
#include <string>

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
    BuildKeyName(n, &name);
    EXPECT_EQ(name, key);
    EXPECT_EQ(FnvHash64(n) % 1001, mod_1001);
    EXPECT_EQ(FnvHash64(n) % 1000001, mod_1000001);
    ++vectors;
  }
  EXPECT_TRUE(file.eof());
  EXPECT_EQ(vectors, 64);
}

TEST(KeyNameTest, WhatWasThereBeforeIsReplaced) {
  std::string name = "what was here before, longer than any key";
  BuildKeyName(0, &name);
  EXPECT_EQ(name, "user6284781860667377211");
}

}  // namespace
}  // namespace farlook::bench
