#include "kv/layout/hash.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

std::string RandomBytes(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string data(bytes, '\0');
  for (char& c : data) c = static_cast<char>(random());
  return data;
}

TEST(Hasher, IsXxh3WithItsSeed) {
  for (const uint64_t seed : {0ull, 1ull, 42ull, 0xfedc'ba98'7654'3210ull}) {
    const Hasher hasher(seed);
    for (size_t bytes = 0; bytes <= 2000; ++bytes) {
      const std::string data = RandomBytes(bytes, bytes);
      ASSERT_EQ(hasher(data), XXH3_64bits_withSeed(data.data(), bytes, seed)) << seed << " " << bytes;
    }
  }
}

// Pinned: another hash would be another layout.
TEST(Hasher, GoldenHash) { EXPECT_EQ(Hasher(42)("user1"), 0x198a'04be'88e6'0c9fu); }

TEST(Hasher, TwoPiecesHashAsOne) {
  const Hasher hasher(42);
  for (size_t bytes = 0; bytes <= 2000; bytes = bytes < 300 ? bytes + 1 : bytes + 37) {
    const std::string data = RandomBytes(bytes, bytes);
    const absl::string_view all(data);
    for (size_t cut = 0; cut <= bytes; cut += 1 + bytes / 7) {
      ASSERT_EQ(hasher(all.substr(0, cut), all.substr(cut)), hasher(all)) << bytes << " " << cut;
    }
    ASSERT_EQ(hasher(all, absl::string_view()), hasher(all)) << bytes;
    ASSERT_EQ(hasher(absl::string_view(), all), hasher(all)) << bytes;
  }
}

TEST(Hasher, TheFirstWordMayComeFromElsewhere) {
  const Hasher hasher(42);
  size_t taken = 0;
  for (size_t bytes = 0; bytes <= 2000; ++bytes) {
    if (!Hasher::TakesFirstWord(bytes)) continue;
    ++taken;
    const std::string data = RandomBytes(bytes, bytes);
    std::string others = data;
    for (size_t i = 0; i < 8; ++i) others[i] = static_cast<char>(~others[i]);
    ASSERT_EQ(hasher(LoadAs<uint64_t>(data.data()), others.data(), bytes), hasher(data)) << bytes;
  }
  EXPECT_EQ(taken, 240u - 39u);
}

}  // namespace
}  // namespace farlook::kv
