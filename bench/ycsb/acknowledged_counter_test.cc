#include "bench/ycsb/acknowledged_counter.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

TEST(AcknowledgedCounterTest, NothingIsAcknowledgedAtFirst) {
  AcknowledgedCounter counter(1000);
  EXPECT_EQ(counter.last(), 999);
  EXPECT_EQ(counter.Next(), 1000);
  EXPECT_EQ(counter.Next(), 1001);
  EXPECT_EQ(counter.last(), 999);
}

TEST(AcknowledgedCounterTest, AGapHoldsBackWhatFollowsIt) {
  AcknowledgedCounter counter(0);
  for (int i = 0; i < 4; ++i) counter.Next();
  EXPECT_TRUE(counter.Acknowledge(1));
  EXPECT_TRUE(counter.Acknowledge(3));
  EXPECT_EQ(counter.last(), -1);
  EXPECT_TRUE(counter.Acknowledge(0));
  EXPECT_EQ(counter.last(), 1);
  EXPECT_TRUE(counter.Acknowledge(2));
  EXPECT_EQ(counter.last(), 3);
}

TEST(AcknowledgedCounterTest, TheWindowTurnsRoundAndItsBoundIsReported) {
  constexpr int64_t kWindow = AcknowledgedCounter::kWindow;
  AcknowledgedCounter counter(0);
  for (int64_t i = 0; i < kWindow + 2; ++i) counter.Next();
  for (int64_t i = 1; i < kWindow; ++i) ASSERT_TRUE(counter.Acknowledge(i));
  // Expect: number 0 is still missing, so kWindow has no place.
  EXPECT_FALSE(counter.Acknowledge(kWindow));
  EXPECT_EQ(counter.last(), -1);
  EXPECT_TRUE(counter.Acknowledge(0));
  EXPECT_EQ(counter.last(), kWindow - 1);
  EXPECT_TRUE(counter.Acknowledge(kWindow));
  EXPECT_EQ(counter.last(), kWindow);
}

TEST(AcknowledgedCounterTest, ThreadsTogetherReachTheEnd) {
  AcknowledgedCounter counter(10);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 5000; ++i) {
        const int64_t number = counter.Next();
        EXPECT_LT(counter.last(), number);
        EXPECT_TRUE(counter.Acknowledge(number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.last(), 10 + 4 * 5000 - 1);
}

}  // namespace
}  // namespace farlook::bench
