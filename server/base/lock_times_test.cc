#include "server/base/lock_times.h"

#include <cstdint>
#include <ctime>

#include "gtest/gtest.h"

namespace farlook::server {
namespace {

uint64_t ProcessorNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

TEST(LockTimes, AHoldThatWorksIsNoted) {
  LockTimes times;
  kv::PartitionLock mutex;
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
  kv::PartitionLock mutex;
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
