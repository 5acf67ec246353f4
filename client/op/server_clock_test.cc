#include "client/op/server_clock.h"

#include <cstdint>
#include <limits>
#include <random>

#include "client/op/last_time.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"

namespace farlook::client {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct FakeClock final : rdma::Clock {
  int64_t NowNs() const override { return now_ns; }
  int64_t now_ns = 0;
};

class ServerClockTest : public ::testing::Test {
 protected:
  // A message without delay.
  void Update(uint64_t time_us, int64_t now_ns) {
    real_.now_ns = now_ns;
    clock_.Update(time_us, now_ns, now_ns);
  }

  FakeClock real_;
  LastTime time_{real_};
  ServerClock clock_{&time_};
};

TEST_F(ServerClockTest, NothingIsKnownBeforeTheFirstMessage) {
  EXPECT_EQ(clock_.DeadlineAt(5 * kSecondNs), 0);
  EXPECT_EQ(clock_.Now().lo, 0);
  EXPECT_EQ(clock_.Now().hi, std::numeric_limits<uint64_t>::max());
}

TEST_F(ServerClockTest, WhatHasNoDeadlineIsNeverOver) {
  Update(77'000'000, 3 * kSecondNs);
  EXPECT_EQ(clock_.DeadlineAt(kNever), 0);
}

// Two clocks with the maximum difference in rate, one of them for an hour without a message.
TEST_F(ServerClockTest, DeadlinesAreNeverEarlyAndLateByAtMostTwiceTheDrift) {
  for (const int64_t drift : {-ServerClock::kDriftParts, int64_t{0}, ServerClock::kDriftParts}) {
    for (const int64_t left_us : {int64_t{1}, int64_t{20'000}, int64_t{1'000'000}, int64_t{3'600'000'000}}) {
      const uint64_t updated_us = 123'456'789;
      clock_.Forget();
      Update(updated_us, 7 * kSecondNs);
      const int64_t truth_us = left_us + (drift == 0 ? 0 : left_us / drift);
      const int64_t deadline_us = static_cast<int64_t>(clock_.DeadlineAt(7 * kSecondNs + left_us * 1000) - updated_us);
      EXPECT_GE(deadline_us, truth_us);
      EXPECT_LE(deadline_us, truth_us + 2 * left_us / ServerClock::kDriftParts + 1);
    }
  }
}

TEST_F(ServerClockTest, ADeadlineInThePastIsOver) {
  Update(50, 9 * kSecondNs);
  EXPECT_EQ(clock_.DeadlineAt(3 * kSecondNs), 50);
}

TEST_F(ServerClockTest, IsToldAnewAfterASecond) {
  Update(1, 5 * kSecondNs);
  EXPECT_FALSE(clock_.stale(6 * kSecondNs - 1));
  EXPECT_TRUE(clock_.stale(6 * kSecondNs));
  Update(1'000'100, 6 * kSecondNs);
  EXPECT_FALSE(clock_.stale(6 * kSecondNs));
  EXPECT_EQ(clock_.DeadlineAt(6 * kSecondNs), 1'000'100);
}

// Messages with any delay, and any rates of the two clocks within the drift.
TEST_F(ServerClockTest, TheServersTimeIsWithinTheInterval) {
  std::mt19937_64 random(20);
  const auto below = [&random](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); };
  for (int run = 0; run < 300; ++run) {
    const int64_t parts = run % 3 == 0 ? 0 : (run % 3 == 1 ? 1 : -1) * (ServerClock::kDriftParts + below(5000));
    int64_t server_ns = 1'000'000'000 + below(kSecondNs);
    real_.now_ns = below(kSecondNs);
    clock_.Forget();
    const auto pass = [&](int64_t ns) {
      real_.now_ns += ns;
      server_ns += ns + (parts == 0 ? 0 : ns / parts);
    };
    for (int message = 0; message < 20; ++message) {
      const int64_t posted_ns = real_.now_ns;
      pass(below(message % 4 == 0 ? 300'000'000 : 5'000));
      const uint64_t time_us = static_cast<uint64_t>(server_ns) / 1000;
      pass(below(5'000));
      clock_.Update(time_us, posted_ns, real_.now_ns);
      pass(below(message % 2 == 0 ? 5 * kSecondNs : 10'000));
      const ServerClock::Interval now = clock_.Now();
      ASSERT_LE(now.lo, static_cast<uint64_t>(server_ns) / 1000) << run << " " << message;
      ASSERT_GE(now.hi, static_cast<uint64_t>(server_ns) / 1000) << run << " " << message;
    }
  }
}

TEST_F(ServerClockTest, TheIntervalIsTheMessagesWayAndWidensBy1000Ppm) {
  real_.now_ns = 100'000;
  clock_.Update(5'000'000, 20'000, 100'000);
  EXPECT_EQ(clock_.Now().lo, 5'000'000u);
  EXPECT_LE(clock_.Now().hi, 5'000'000u + 80 + 2);
  real_.now_ns += kSecondNs;
  EXPECT_EQ(clock_.Now().lo, 5'999'000u);
  EXPECT_GE(clock_.Now().hi, 6'001'080u);
  EXPECT_LE(clock_.Now().hi, 6'001'084u);
}

TEST_F(ServerClockTest, AnAnswerThatTookLongDoesNotWidenIt) {
  Update(5'000'000, 0);
  real_.now_ns = kSecondNs;
  clock_.Update(5'900'000, kSecondNs / 2, kSecondNs);
  EXPECT_FALSE(clock_.stale(kSecondNs)) << "it was asked, though";
  EXPECT_EQ(clock_.Now().lo, 5'999'000u);
  // Expect: after a jump of a clock the new time counts.
  Update(9'000'000, 2 * kSecondNs);
  EXPECT_EQ(clock_.Now().lo, 9'000'000u);
  Update(3'000'000, 3 * kSecondNs);
  EXPECT_LE(clock_.Now().hi, 3'000'002u);
}

}  // namespace
}  // namespace farlook::client
