#include "rdma/host/word_copy.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farlook::rdma {
namespace {

// 8-byte aligned bytes in a known pattern.
struct Source {
  Source() {
    for (size_t i = 0; i < sizeof(words); ++i) reinterpret_cast<char*>(words)[i] = static_cast<char>(i * 7 + 1);
  }
  const char* data() const { return reinterpret_cast<const char*>(words); }
  uint64_t words[64];
};

TEST(WordCopyTest, EveryLengthAtEveryAlignment) {
  const Source source;
  for (size_t shift = 0; shift < 8; ++shift) {
    for (uint32_t bytes = 1; bytes <= 200; ++bytes) {
      uint64_t words[40];
      memset(words, 0x55, sizeof(words));
      char* const to = reinterpret_cast<char*>(words) + 8 + shift;
      const Sge piece = {to, bytes};
      ExecuteRead(&piece, 1, source.data());
      ASSERT_EQ(memcmp(to, source.data(), bytes), 0) << bytes << " at " << shift;
      ASSERT_EQ(to[-1], 0x55);
      ASSERT_EQ(to[bytes], 0x55) << bytes << " at " << shift;
    }
  }
}

TEST(WordCopyTest, LongOnesWithinWhatIsPrefetchedAndBeyond) {
  constexpr size_t kMost = 2 * kPrefetchAheadBytes + 200;
  std::vector<uint64_t> from(kMost / 8 + 1), to(kMost / 8 + 3);
  std::mt19937_64 random(1);
  for (uint64_t& word : from) word = random();
  for (size_t bytes = kPrefetchAheadBytes - 8; bytes <= kMost; ++bytes) {
    memset(to.data(), 0x55, to.size() * 8);
    char* const begin = reinterpret_cast<char*>(to.data() + 1);
    const Sge piece = {begin, static_cast<uint32_t>(bytes)};
    ExecuteRead(&piece, 1, reinterpret_cast<const char*>(from.data()));
    ASSERT_EQ(memcmp(begin, from.data(), bytes), 0) << bytes;
    ASSERT_EQ(begin[-1], 0x55) << bytes;
    ASSERT_EQ(begin[bytes], 0x55) << bytes;
  }
}

TEST(WordCopyTest, AnySplitIntoPieces) {
  const Source source;
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    std::mt19937_64 random(seed);
    uint64_t words[64];
    memset(words, 0x55, sizeof(words));
    std::string expected(sizeof(words), 0x55);
    std::vector<Sge> pieces;
    size_t at = 0;
    size_t taken = 0;
    for (size_t i = 0, count = 1 + random() % kMaxReadSges; i < count; ++i) {
      at += random() % 10;
      const size_t bytes = random() % 60;  // may be 0
      pieces.push_back({reinterpret_cast<char*>(words) + at, static_cast<uint32_t>(bytes)});
      expected.replace(at, bytes, absl::string_view(source.data() + taken, bytes).data(), bytes);
      at += bytes;
      taken += bytes;
    }
    ExecuteRead(pieces.data(), pieces.size(), source.data());
    ASSERT_EQ(memcmp(words, expected.data(), expected.size()), 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace farlook::rdma
