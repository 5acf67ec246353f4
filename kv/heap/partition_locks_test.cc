#include "kv/heap/partition_locks.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

TEST(PartitionLock, OneAtATimeHasIt) {
  constexpr int kThreads = 4, kTurns = 50'000;
  PartitionLock lock;
  int64_t turns = 0;  // not atomic: a concurrent increment would be lost
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        LockedPartition held(&lock);
        ++turns;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, kThreads * kTurns);
}

TEST(PartitionLock, WhoSleepsForItIsWoken) {
  PartitionLock lock;
  std::atomic<int> asked{0}, had{0};
  std::vector<std::thread> threads;
  lock.Lock();
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      ++asked;
      LockedPartition held(&lock);
      ++had;
    });
  }
  while (asked.load() < 3) std::this_thread::yield();
  // Long enough for them to give up spinning; if it is not, no wake-up is needed.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(had.load(), 0);
  lock.Unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(had.load(), 3);
}

TEST(PartitionLock, WhoTriesGetsItOnlyWhileNobodyHasIt) {
  PartitionLock lock;
  const auto others_get_it = [&lock] {
    bool got = false;
    std::thread([&] { got = OthersLock(&lock).held(); }).join();
    return got;
  };
  {
    const LockedPartition held(&lock);
    EXPECT_FALSE(others_get_it());
  }
  EXPECT_TRUE(others_get_it());
  EXPECT_TRUE(others_get_it()) << "who tried has let it go";
  if (!lock.TryLock()) GTEST_FAIL() << "nobody has it";
  EXPECT_FALSE(others_get_it());
  lock.Unlock();
  EXPECT_TRUE(OthersLock(nullptr).held());
}

}  // namespace
}  // namespace farlook::kv
