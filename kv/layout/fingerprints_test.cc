#include "kv/layout/fingerprints.h"

#include <cstdint>
#include <random>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kHash = 0x1234'5678'9abc'def0;
constexpr DirectoryEntry kEntry(/*segment_id=*/7, /*offset=*/kPageBytes);

// The main bucket of kHash, empty.
struct alignas(64) Bucket {
  const char* data() const { return reinterpret_cast<const char*>(words); }
  uint64_t words[kWordsPerBucket] = {BucketInfo(kEntry.segment_id(), BucketOf(kHash), /*link=*/0).word()};
};

uint64_t SlotOf(uint16_t fingerprint, uint64_t rest = 0x123'4567'89ab) { return uint64_t{fingerprint} << 48 | rest; }

// The expected result of the vectorized functions.
uint32_t Expected(const Bucket& bucket, uint16_t fingerprint) {
  uint32_t matches = 0;
  for (uint32_t i = 1; i < kWordsPerBucket; ++i) matches |= uint32_t{bucket.words[i] >> 48 == fingerprint} << i;
  return matches;
}

TEST(Fingerprints, EachWordIsFoundAndNoOther) {
  for (const uint16_t fingerprint : {0, 1, 0x7fff, 0x8000, 0xbeef, 0xffff}) {
    for (uint32_t i = 0; i < kWordsPerBucket; ++i) {
      SCOPED_TRACE(testing::Message() << fingerprint << " in word " << i);
      Bucket bucket;
      // All others differ from it in one bit, and contain it in their lower bits.
      for (uint32_t j = 0; j < kWordsPerBucket; ++j) {
        bucket.words[j] = SlotOf(fingerprint ^ uint16_t{1} << j, uint64_t{fingerprint} * 0x1'0001'0001);
      }
      bucket.words[i] = SlotOf(fingerprint);
      const uint32_t expected = i == 0 ? 0 : 1u << i;
      EXPECT_EQ(LikelyWords(bucket.data(), fingerprint), expected);
      EXPECT_EQ(MatchingWords(bucket.data(), fingerprint), expected);
    }
  }
}

TEST(Fingerprints, ManyWordsOfAnyContents) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 10'000; ++round) {
    Bucket bucket;
    const auto fingerprint = static_cast<uint16_t>(random());
    for (uint64_t& word : bucket.words) word = random() % 3 == 0 ? SlotOf(fingerprint, random() >> 16) : random();
    EXPECT_EQ(LikelyWords(bucket.data(), fingerprint), Expected(bucket, fingerprint));
    EXPECT_EQ(MatchingWords(bucket.data(), fingerprint), Expected(bucket, fingerprint));
  }
}

TEST(Fingerprints, ABucketProvesAbsenceOnlyOfWhatCanOnlyLieThere) {
  Bucket bucket;
  EXPECT_TRUE(ProvesAbsence(bucket.data(), kEntry, kHash));
  for (uint32_t i = 1; i < kWordsPerBucket; ++i) bucket.words[i] = SlotOf(FingerprintOf(kHash) ^ 0x8000);
  EXPECT_TRUE(ProvesAbsence(bucket.data(), kEntry, kHash));
  for (uint32_t i = 1; i < kWordsPerBucket; ++i) {
    SCOPED_TRACE(i);
    Bucket with_slot = bucket;
    with_slot.words[i] = SlotOf(FingerprintOf(kHash));
    EXPECT_FALSE(ProvesAbsence(with_slot.data(), kEntry, kHash));
  }
  // Flip each bit of the description: segment, number, link or constant.
  for (int bit = 0; bit < 64; ++bit) {
    SCOPED_TRACE(bit);
    Bucket other = bucket;
    other.words[0] ^= uint64_t{1} << bit;
    EXPECT_FALSE(ProvesAbsence(other.data(), kEntry, kHash));
  }
  EXPECT_FALSE(ProvesAbsence(bucket.data(), DirectoryEntry(8, kEntry.offset()), kHash));
  EXPECT_FALSE(ProvesAbsence(bucket.data(), kEntry, kHash ^ 0xff00'0000)) << "another bucket's";
}

}  // namespace
}  // namespace farlook::kv
