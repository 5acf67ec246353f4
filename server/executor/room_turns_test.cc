#include "server/executor/room_turns.h"

#include <vector>

#include "base/linked_list.h"
#include "gtest/gtest.h"

namespace farlook::server {
namespace {

struct Client : Linked<RoomTurnTag> {};

TEST(RoomTurns, GoRound) {
  Client a, b;
  RoomTurns<Client> turns;
  EXPECT_TRUE(turns.empty());
  turns.Add(&a);
  turns.Add(&b);
  turns.Add(&a);
  EXPECT_EQ(turns.Take(1), &a);
  turns.Add(&a);
  EXPECT_EQ(turns.Take(1), &b);
  // Expect: a connection that had its turn no longer waits.
  EXPECT_EQ(turns.size(), 1u);
  turns.Remove(&a);
  EXPECT_TRUE(turns.empty());
}

TEST(RoomTurns, StepsTakeASixthOfTheTimeWhileOthersAreServed) {
  Client a;
  RoomTurns<Client> turns;
  turns.Add(&a);
  ASSERT_EQ(turns.Take(1000), &a);
  turns.Took(1000, 1100);
  turns.Add(&a);
  turns.OthersServed();
  turns.OthersServed();
  EXPECT_EQ(turns.Take(1599), nullptr);
  EXPECT_EQ(turns.due_ns(), 1600);
  EXPECT_EQ(turns.Take(1600), &a);
  // Expect: no rest without other requests.
  turns.Took(1600, 1700);
  turns.Add(&a);
  EXPECT_EQ(turns.Take(1700), &a);
}

// Regression: a rest that was a multiple of the process's suspension delayed writes (seed 52 of the simulation's
// caches).
TEST(RoomTurns, ARestIsShortEvenAfterAStepInWhichTheProcessWasStopped) {
  Client a;
  RoomTurns<Client> turns;
  turns.Add(&a);
  ASSERT_EQ(turns.Take(1000), &a);
  turns.Took(1000, 10'000'000'000);
  turns.Add(&a);
  turns.OthersServed();
  EXPECT_EQ(turns.Take(10'000'000'000), nullptr);
  EXPECT_EQ(turns.Take(10'000'000'000 + RoomTurns<Client>::kLongestRestNs), &a);
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
