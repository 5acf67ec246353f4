#include "client/server_clock.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace farlook::client {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

TEST(ServerClockTest, NothingIsKnownBeforeTheFirstMessage) { EXPECT_EQ(ServerClock().At(5 * kSecondNs), 0); }

TEST(ServerClockTest, WhatHasNoDeadlineIsNeverOver) {
  ServerClock clock;
  clock.Hear(77'000'000, 3 * kSecondNs);
  EXPECT_EQ(clock.At(kNever), 0);
}

// Two clocks that run at rates as different as any, one of them for an hour without a message.
TEST(ServerClockTest, IsNeverEarlyAndLateByAtMostTwiceTheDrift) {
  for (const int64_t drift : {-ServerClock::kDriftParts, int64_t{0}, ServerClock::kDriftParts}) {
    for (const int64_t left_us : {int64_t{1}, int64_t{20'000}, int64_t{1'000'000}, int64_t{3'600'000'000}}) {
      ServerClock clock;
      const uint64_t heard_us = 123'456'789;
      clock.Hear(heard_us, 7 * kSecondNs);
      const int64_t truth_us = left_us + (drift == 0 ? 0 : left_us / drift);
      const int64_t told_us = static_cast<int64_t>(clock.At(7 * kSecondNs + left_us * 1000) - heard_us);
      EXPECT_GE(told_us, truth_us);
      EXPECT_LE(told_us, truth_us + 2 * left_us / ServerClock::kDriftParts + 1);
    }
  }
}

TEST(ServerClockTest, ADeadlineInThePastIsOver) {
  ServerClock clock;
  clock.Hear(50, 9 * kSecondNs);
  EXPECT_EQ(clock.At(3 * kSecondNs), 50);
}

TEST(ServerClockTest, IsToldAnewAfterASecond) {
  ServerClock clock;
  clock.Hear(1, 5 * kSecondNs);
  EXPECT_FALSE(clock.stale(6 * kSecondNs - 1));
  EXPECT_TRUE(clock.stale(6 * kSecondNs));
  clock.Hear(1'000'100, 6 * kSecondNs);
  EXPECT_FALSE(clock.stale(6 * kSecondNs));
  EXPECT_EQ(clock.At(6 * kSecondNs), 1'000'100);
}

}  // namespace
}  // namespace farlook::client
