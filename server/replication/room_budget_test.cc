#include "server/replication/room_budget.h"

#include "gtest/gtest.h"
#include "kv/wire/room.h"

namespace farlook::server {
namespace {

constexpr uint64_t kOne = 1, kTwo = 2, kJoiner = 3;

TEST(RoomBudget, WithoutMembersOrReportsAllHasRoom) {
  RoomBudget budget;
  budget.Appended(1, 1 << 30);
  EXPECT_TRUE(budget.HasRoomFor(1 << 30));
  budget.SetMembers({kOne});
  EXPECT_TRUE(budget.HasRoomFor(1 << 30));
  budget.OnAccepted(kJoiner, 1, {100, 100});
  EXPECT_TRUE(budget.HasRoomFor(1 << 30)) << "it is no member";
}

TEST(RoomBudget, WhatIsOnItsWayCounts) {
  RoomBudget budget;
  budget.SetMembers({kOne});
  budget.OnAccepted(kOne, 0, {1'000, 1'000});
  EXPECT_TRUE(budget.HasRoomFor(1'000));
  EXPECT_FALSE(budget.HasRoomFor(1'001));
  budget.Appended(1, 600);
  budget.Appended(2, 0);
  budget.Appended(3, 300);
  EXPECT_TRUE(budget.HasRoomFor(100));
  EXPECT_FALSE(budget.HasRoomFor(101));
  // Expect: a report covers the records that were accepted with it, and no others.
  budget.OnAccepted(kOne, 2, {400, 400});
  EXPECT_TRUE(budget.HasRoomFor(100));
  EXPECT_FALSE(budget.HasRoomFor(101));
  budget.OnAccepted(kOne, 3, {50, 50});
  EXPECT_FALSE(budget.HasRoomFor(51));
  budget.OnAccepted(kOne, 2, {4'000, 4'000});
  EXPECT_FALSE(budget.HasRoomFor(51)) << "a late report";
  budget.OnAccepted(kOne, 3, {4'000, 4'000});
  EXPECT_TRUE(budget.HasRoomFor(4'000)) << "items were deleted";
}

TEST(RoomBudget, TheSmallestMemberDecides) {
  RoomBudget budget;
  budget.SetMembers({kOne, kTwo});
  budget.OnAccepted(kOne, 0, {1'000, 1'000});
  budget.OnAccepted(kTwo, 0, {500, 500});
  EXPECT_FALSE(budget.HasRoomFor(501));
  budget.Appended(1, 100);
  budget.OnAccepted(kOne, 1, {900, 900});
  EXPECT_FALSE(budget.HasRoomFor(401));
  EXPECT_TRUE(budget.HasRoomFor(400));
  budget.SetMembers({kOne});
  EXPECT_TRUE(budget.HasRoomFor(900));
  budget.Forget(kOne);
  EXPECT_TRUE(budget.HasRoomFor(1 << 20));
}

TEST(RoomBudget, LongPiecesNeedMore) {
  RoomBudget budget;
  budget.SetMembers({kOne});
  budget.OnAccepted(kOne, 0, {1 << 20, 100'000});
  EXPECT_TRUE(budget.HasRoomFor(4'000));
  EXPECT_TRUE(budget.HasRoomFor(100'000));
  EXPECT_FALSE(budget.HasRoomFor(100'001));
  budget.Appended(1, 96'000);
  EXPECT_TRUE(budget.HasRoomFor(4'000));
  EXPECT_FALSE(budget.HasRoomFor(5'000)) << "what is on its way may need the same place";
}

// The budget keeps no marks of records that all members had accepted before it joined.
TEST(RoomBudget, AMemberThatIsBehindTheOthersHasNoRoomBeforeItCaughtUp) {
  RoomBudget budget;
  budget.SetMembers({kOne});
  budget.Appended(1, 500);
  budget.Appended(2, 500);
  budget.OnAccepted(kOne, 2, {10'000, 10'000});
  budget.OnAccepted(kJoiner, 1, {10'000, 10'000});
  budget.SetMembers({kOne, kJoiner});
  EXPECT_FALSE(budget.HasRoomFor(1));
  budget.OnAccepted(kJoiner, 2, {9'000, 9'000});
  EXPECT_TRUE(budget.HasRoomFor(9'000));
  EXPECT_FALSE(budget.HasRoomFor(9'001));
}

}  // namespace
}  // namespace farlook::server
