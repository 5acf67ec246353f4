#include "kv/layout/segment.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

TEST(Position, GrowsWithTheHash) {
  // Near each step's start, and at random.
  for (size_t step = 1; step < kStepStart.size(); ++step) {
    const uint64_t start = kStepStart[step];
    EXPECT_EQ(PositionOf(start), uint64_t{step} << 61);
    for (uint64_t d = 1; d < 1000; ++d) {
      ASSERT_LE(PositionOf(start - d), PositionOf(start - d + 1));
      ASSERT_EQ(PositionOf(start - d) >> 61, step - 1);
      ASSERT_LE(PositionOf(start + d - 1), PositionOf(start + d));
    }
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const uint64_t a = random(), b = random();
    ASSERT_EQ(a < b, PositionOf(a) < PositionOf(b)) << a << " " << b;
  }
  EXPECT_EQ(PositionOf(0), 0u);
  EXPECT_GT(PositionOf(~0ull), 0xffff'ffff'ffff'0000u);
}

// Step i of the positions holds a share of the hashes in proportion to 2^(i/8), evenly spread within.
TEST(Position, SharesOfTheStepsAreWithinOnePercent) {
  double sum = 0;
  for (int i = 0; i < 8; ++i) sum += std::exp2(i / 8.0);
  constexpr int kKeys = 8'000'000;
  std::array<int, 64> count{};
  std::mt19937_64 random(2);
  for (int i = 0; i < kKeys; ++i) ++count[PositionOf(random()) >> 58];
  for (size_t eighth = 0; eighth < 64; ++eighth) {
    const double share = std::exp2(static_cast<double>(eighth / 8) / 8.0) / sum / 8;
    EXPECT_NEAR(count[eighth] / (share * kKeys), 1.0, 0.01) << eighth;
  }
  // No segment is ever denser than twice another of its level.
  EXPECT_LT(std::exp2(7 / 8.0), 2.0);
}

TEST(Bucket, EachMainBucketGetsItsShareOfTheHashes) {
  std::array<int, kMainBuckets> count{};
  for (uint64_t middle = 0; middle < 0x10000; ++middle) {
    const uint32_t bucket = BucketOf(0xabcd'ef01'0000'1234 | middle << 16);
    ASSERT_LT(bucket, kMainBuckets);
    ++count[bucket];
  }
  for (const int n : count) EXPECT_NEAR(n, 65536.0 / kMainBuckets, 1.0);
  EXPECT_EQ(LinkedBucket(1), 240u);
  EXPECT_EQ(LinkedBucket(kOverflowBuckets), 255u);
}

TEST(BucketInfo, GoldenWord) {
  const BucketInfo info(9, 17, 3);
  EXPECT_EQ(info.word(), 0x0000'0024'b511'0300u);
  EXPECT_EQ(info.segment_id(), 9u);
  EXPECT_EQ(info.link(), 3u);
  EXPECT_EQ(BucketInfo(9, 17, 0).WithLink(16).word(), 0x0000'0024'b511'1000u);
}

TEST(BucketInfo, DescribesItsBucketAndNoOther) {
  const BucketInfo info(9, 17, 3);
  EXPECT_TRUE(info.Describes(9, 17));
  EXPECT_TRUE(info.WithLink(0).Describes(9, 17)) << "with whatever link";
  EXPECT_FALSE(info.Describes(9, 16));
  EXPECT_FALSE(info.Describes(8, 17));
  EXPECT_FALSE(BucketInfo().Describes(9, 17)) << "retired";
  EXPECT_FALSE(BucketInfo().Describes(0, 0)) << "zeros are never a description";
  for (int bit = 0; bit < 64; ++bit) {
    const bool in_link = bit >= 8 && bit < 13;
    EXPECT_EQ(BucketInfo(info.word() ^ 1ull << bit).Describes(9, 17), in_link) << "bit " << bit;
  }
  const uint32_t last_id = (1u << 30) - 1;
  EXPECT_EQ(BucketInfo(last_id, 255, 16).segment_id(), last_id);
  EXPECT_TRUE(BucketInfo(last_id, 255, 16).Describes(last_id, 255));
}

TEST(DirectoryEntry, GoldenWordAndLimits) {
  const DirectoryEntry entry(9, 0x208000);
  EXPECT_EQ(entry.word(), 0x0000'0024'0000'4100u);
  EXPECT_EQ(entry.segment_id(), 9u);
  EXPECT_EQ(entry.offset(), 0x208000u);
  const DirectoryEntry last((1u << 30) - 1, kMaxRegionBytes - kSegmentBytes);
  EXPECT_EQ(last.segment_id(), (1u << 30) - 1);
  EXPECT_EQ(last.offset(), kMaxRegionBytes - kSegmentBytes);
  EXPECT_TRUE(last.ValidIn(kMaxRegionBytes));
}

TEST(DirectoryEntry, OnlyAWholeSegmentInsideTheRegionIsValid) {
  const uint64_t region = 16 << 20;
  EXPECT_FALSE(DirectoryEntry().ValidIn(region));
  EXPECT_FALSE(DirectoryEntry(1, 0).ValidIn(region));
  EXPECT_FALSE(DirectoryEntry(0, 1 << 20).ValidIn(region));
  EXPECT_TRUE(DirectoryEntry(1, region - kSegmentBytes).ValidIn(region));
  EXPECT_FALSE(DirectoryEntry(1, region - kSegmentBytes + kBucketBytes).ValidIn(region));
  EXPECT_FALSE(DirectoryEntry(1, region).ValidIn(region));
  EXPECT_FALSE(DirectoryEntry(~0ull).ValidIn(region));
  EXPECT_FALSE(DirectoryEntry(~0ull).ValidIn(kSegmentBytes));
}

}  // namespace
}  // namespace farlook::kv
