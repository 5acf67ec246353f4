#include "bench/ycsb/pacer.h"

#include <thread>

#include "bench/common/clocks.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

TEST(PacerTest, WithoutATargetNothingWaits) {
  const std::atomic<bool> stop{false};
  Random random(1);
  Pacer pacer(0, &stop);
  pacer.Start(&random);
  EXPECT_FALSE(pacer.active());
  EXPECT_EQ(pacer.NextDue(), 0);
  EXPECT_EQ(pacer.NextDue(), 0);
}

TEST(PacerTest, OperationsAreDueATickApartHoweverLateTheyAre) {
  const std::atomic<bool> stop{false};
  Random random(1);
  Pacer pacer(10000, &stop);
  pacer.Start(&random);
  const int64_t first = pacer.NextDue();
  EXPECT_LE(first, NowNs());
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(pacer.NextDue() - first, i * 100'000);
}

TEST(PacerTest, WaitingEndsNotBeforeItsTime) {
  const std::atomic<bool> stop{false};
  Pacer pacer(1000, &stop);
  const int64_t due = NowNs() + 3'000'000;
  pacer.WaitUntil(due);
  EXPECT_GE(NowNs(), due);
}

TEST(PacerTest, AStopEndsALongWait) {
  std::atomic<bool> stop{false};
  Pacer pacer(0.001, &stop);
  std::thread waiter([&pacer] { pacer.WaitUntil(NowNs() + int64_t{1000} * 1'000'000'000); });
  stop.store(true);
  waiter.join();
}

}  // namespace
}  // namespace farlook::bench
