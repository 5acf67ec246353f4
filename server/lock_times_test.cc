#include "server/lock_times.h"

#include <cstdint>
#include <ctime>

#include "gtest/gtest.h"

namespace farlook::server {
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

uint64_t ProcessorNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

TEST(LockTimes, AHoldThatWorksIsNoted) {
  LockTimes times;
  absl::Mutex mutex;
  times.Sample();
  {
    TimedLock lock(&mutex, &times);
    for (const uint64_t start_ns = ProcessorNs(); ProcessorNs() - start_ns < 3'000'000;) {
    }
  }
  EXPECT_GE(times.longest_ns(), 2'900'000u);
  DurationBuckets buckets;
  times.AddTo(&buckets);
  EXPECT_EQ(buckets.count(), 1u);
}

TEST(LockTimes, AHoldInWhichTheThreadDoesNotRunIsNot) {
  LockTimes times;
  absl::Mutex mutex;
  times.Sample();
  {
    TimedLock lock(&mutex, &times);
    const timespec pause{0, 50'000'000};
    nanosleep(&pause, nullptr);
  }
  EXPECT_LT(times.longest_ns(), 25'000'000u);
}

TEST(LockTimes, TicksAreOfTheRightLength) {
  timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  const uint64_t start_ticks = Ticks();
  const timespec pause{0, 20'000'000};
  nanosleep(&pause, nullptr);
  const uint64_t ticks = Ticks() - start_ticks;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double ns =
      1e9 * static_cast<double>(now.tv_sec - start.tv_sec) + static_cast<double>(now.tv_nsec - start.tv_nsec);
  const double measured = static_cast<double>(ticks) * static_cast<double>(TickScale()) / 4294967296.0;
  EXPECT_GT(measured, 0.8 * ns);
  EXPECT_LT(measured, 1.2 * ns);
}

}  // namespace
}  // namespace farlook::server
