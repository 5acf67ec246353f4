#include "kv/wire/duration_buckets.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

static_assert(DurationBuckets::BucketOf(0) == 0 && DurationBuckets::BucketOf(63) == 0);
static_assert(DurationBuckets::BucketOf(64) == 1 && DurationBuckets::EndOf(0) == 64);
static_assert(DurationBuckets::BucketOf(79) == 1 && DurationBuckets::EndOf(1) == 80);
static_assert(DurationBuckets::BucketOf(128) == 5 && DurationBuckets::EndOf(4) == 128);
static_assert(DurationBuckets::BucketOf(~uint64_t{0}) == DurationBuckets::kBuckets - 1);

TEST(DurationBuckets, EachDurationIsBelowTheEndOfItsBucketAndNotOfTheOneBefore) {
  for (uint64_t ns = 1; ns < 16'000'000'000; ns += ns / 7 + 1) {
    const size_t bucket = DurationBuckets::BucketOf(ns);
    EXPECT_LT(ns, DurationBuckets::EndOf(bucket));
    if (bucket > 0) {
      EXPECT_GE(ns, DurationBuckets::EndOf(bucket - 1));
    }
  }
}

TEST(DurationBuckets, CountsAndQuantiles) {
  DurationBuckets buckets;
  EXPECT_EQ(buckets.Quantile(0.5), 0u);
  buckets.Add(DurationBuckets::BucketOf(100), 998);
  buckets.Add(DurationBuckets::BucketOf(5'000), 1);
  buckets.Add(DurationBuckets::BucketOf(2'000'000), 1);
  EXPECT_EQ(buckets.count(), 1000u);
  EXPECT_EQ(buckets.Below(1024), 998u);
  EXPECT_EQ(buckets.Below(8192), 999u);
  EXPECT_EQ(buckets.Quantile(0.5), 112u);
  EXPECT_EQ(buckets.Quantile(0.9985), DurationBuckets::EndOf(DurationBuckets::BucketOf(5'000)));
  EXPECT_EQ(buckets.Quantile(1), DurationBuckets::EndOf(DurationBuckets::BucketOf(2'000'000)));
}

}  // namespace
}  // namespace farlook::kv
