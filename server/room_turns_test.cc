#include "server/room_turns.h"

#include <vector>

#include "gtest/gtest.h"

namespace farlook::server {
namespace {

TEST(RoomTurns, GoRound) {
  int a, b;
  RoomTurns<int> turns;
  EXPECT_TRUE(turns.empty());
  turns.Add(&a);
  turns.Add(&b);
  turns.Add(&a);
  EXPECT_EQ(turns.Take(1), &a);
  turns.Add(&a);
  EXPECT_EQ(turns.Take(1), &b);
  EXPECT_FALSE(turns.Has(&b));
  turns.Remove(&a);
  EXPECT_TRUE(turns.empty());
}

TEST(RoomTurns, StepsTakeASixthOfTheTimeWhileOthersAreServed) {
  int a;
  RoomTurns<int> turns;
  turns.Add(&a);
  ASSERT_EQ(turns.Take(1000), &a);
  turns.Took(1000, 1100);
  turns.Add(&a);
  turns.OthersServed();
  turns.OthersServed();
  EXPECT_EQ(turns.Take(1599), nullptr);
  EXPECT_EQ(turns.due_ns(), 1600);
  EXPECT_EQ(turns.Take(1600), &a);
  // Expect: nobody else, no rest.
  turns.Took(1600, 1700);
  turns.Add(&a);
  EXPECT_EQ(turns.Take(1700), &a);
}

// Rest as long as twice a stop of the process kept writes waiting after that: seed 52 of the simulation's caches.
TEST(RoomTurns, ARestIsShortEvenAfterAStepInWhichTheProcessWasStopped) {
  int a;
  RoomTurns<int> turns;
  turns.Add(&a);
  ASSERT_EQ(turns.Take(1000), &a);
  turns.Took(1000, 10'000'000'000);
  turns.Add(&a);
  turns.OthersServed();
  EXPECT_EQ(turns.Take(10'000'000'000), nullptr);
  EXPECT_EQ(turns.Take(10'000'000'000 + RoomTurns<int>::kLongestRestNs), &a);
}

TEST(RoomQueue, KeepsOrderAndKnowsItsKeys) {
  RoomQueue queue;
  queue.Add(3, 7, 100, "a");
  queue.Add(4, 8, 200, "b");
  EXPECT_TRUE(queue.Has(7) && queue.Has(8));
  EXPECT_EQ(queue.front().number, 3u);
  EXPECT_EQ(queue.front().since_ns, 100);
  queue.PopFront();
  EXPECT_FALSE(queue.Has(7));
  queue.Add(5, 7, 300, "c");
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.Clear(), (std::vector<uint64_t>{4, 5}));
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace farlook::server
