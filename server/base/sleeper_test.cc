#include "server/base/sleeper.h"

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>

#include "gtest/gtest.h"
#include "rdma/wake_fd.h"

namespace farlook::server {
namespace {

TEST(SleeperTest, IsWokenOnceAndOnlyForWhatItSaid) {
  int wakes = 0;
  Sleeper sleeper([&wakes] { ++wakes; });
  sleeper.Wake(Sleeper::kRecord);
  sleeper.Wake(Sleeper::kRecord);
  EXPECT_EQ(wakes, 2) << "it never said that it sleeps";
  sleeper.Woke();
  sleeper.Wake(Sleeper::kCommit);
  EXPECT_EQ(wakes, 3) << "nor that it does not";
  sleeper.Sleeps(Sleeper::kErrand | Sleeper::kRecord);
  sleeper.Wake(Sleeper::kCommit);
  EXPECT_EQ(wakes, 3);
  sleeper.Wake(Sleeper::kCommit | Sleeper::kErrand);
  sleeper.Wake(Sleeper::kRecord);
  EXPECT_EQ(wakes, 4);
  sleeper.Sleeps(Sleeper::kRecord);
  sleeper.Woke();
  sleeper.Wake(Sleeper::kRecord);
  EXPECT_EQ(wakes, 4) << "it is awake";
}

// Work that is published just when the sleeper goes to sleep, a little earlier or later each time, is seen: a lost
// wake-up makes it oversleep.
TEST(SleeperTest, SleepsThroughNothing) {
  constexpr uint64_t kRounds = 200'000;
  constexpr int kLongMs = 20'000;
  rdma::WakeFd wake;
  ASSERT_TRUE(wake.ok());
  Sleeper sleeper([&wake] { wake.Wake(); });
  std::atomic<uint64_t> made{0}, seen{0};
  std::thread maker([&] {
    std::minstd_rand random(1);
    for (uint64_t round = 1; round <= kRounds; ++round) {
      while (seen.load(std::memory_order_relaxed) + 1 < round) continue;
      for (volatile uint32_t pause = random() % 64; pause > 0;) pause = pause - 1;
      made.fetch_add(1, std::memory_order_seq_cst);
      sleeper.Wake(Sleeper::kRecord);
    }
  });
  bool overslept = false;
  uint64_t have = 0;
  while (have < kRounds && !overslept) {
    sleeper.Woke();
    have = made.load(std::memory_order_seq_cst);
    seen.store(have, std::memory_order_relaxed);
    if (have == kRounds) break;
    sleeper.Sleeps(Sleeper::kRecord);
    if (made.load(std::memory_order_seq_cst) != have) continue;
    pollfd fd{wake.fd(), POLLIN, 0};
    overslept = poll(&fd, 1, kLongMs) == 0;
    wake.Clear();
  }
  EXPECT_FALSE(overslept) << have << " of " << made.load();
  if (overslept) seen.store(kRounds);  // ends the maker
  maker.join();
}

}  // namespace
}  // namespace farlook::server
