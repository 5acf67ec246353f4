#include "client/slot_owners.h"

#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"
#include "kv/cluster_map.h"

namespace farlook::client {
namespace {

constexpr int64_t kMs = 1'000'000;

kv::SlotSet Set(const char* text) { return *kv::ParseSlots(text); }
kv::SlotWords Words(const char* text) { return kv::WordsOf(Set(text)); }

class SlotOwnersTest : public testing::Test {
 protected:
  static constexpr size_t kNobody = 2;
  SlotOwnersTest() {
    owners_.Told(0, Words("0-99"));
    owners_.Told(1, Words("100-199"));
    owners_.Settle({}, 0);
  }
  SlotOwners owners_{2};
};

TEST_F(SlotOwnersTest, FollowTheWelcomesAndNotTheMap) {
  SlotOwners owners(2);
  EXPECT_EQ(owners.Route(5), kNobody);
  owners.Hint(0, Set("0-9"));
  EXPECT_EQ(owners.Route(5), 0u) << "it has not connected";
  EXPECT_FALSE(owners.unsettled());
  owners.Told(0, Words("5-6"));
  EXPECT_EQ(owners.Route(5), 0u);
  EXPECT_EQ(owners.Route(7), kNobody);
  EXPECT_TRUE(owners.HasAny(0));
  EXPECT_FALSE(owners.HasAny(1));
}

TEST_F(SlotOwnersTest, TheLaterWelcomeCounts) {
  owners_.Told(1, Words("50-199"));
  owners_.Settle({}, 0);
  EXPECT_EQ(owners_.Route(49), 0u);
  EXPECT_EQ(owners_.Route(50), 1u);
  owners_.Told(0, Words("0-49"));
  EXPECT_EQ(owners_.Route(50), 1u);
  // A server that was deposed claims what it had; the next one of its group does not.
  owners_.Told(0, Words("0-99"));
  owners_.Told(0, Words("0-49"));
  owners_.Settle({}, 0);
  EXPECT_EQ(owners_.Route(50), 1u) << "it has not said anything else";
  owners_.Told(1, Words("100-199"));
  EXPECT_EQ(owners_.Route(50), kNobody);
}

TEST_F(SlotOwnersTest, WhatChangesHandsIsNobodysUntilItsRequestsHaveEnded) {
  owners_.Told(1, Words("50-199"));
  EXPECT_EQ(owners_.Route(50), kNobody);
  EXPECT_TRUE(owners_.unsettled());
  const kv::SlotSet settled = owners_.Settle(Set("50"), 0);
  EXPECT_EQ(kv::FormatSlots(settled), "51-99");
  EXPECT_EQ(owners_.Route(50), kNobody);
  EXPECT_EQ(owners_.Route(51), 1u);
  EXPECT_TRUE(owners_.unsettled());
  EXPECT_EQ(kv::FormatSlots(owners_.Settle({}, 0)), "50");
  EXPECT_EQ(owners_.Route(50), 1u);
  EXPECT_FALSE(owners_.unsettled());
}

TEST_F(SlotOwnersTest, WhatItsOwnerRefusesIsTriedAgainAfterPausesThatDouble) {
  int64_t now_ns = 1000 * kMs;
  for (const int64_t pause_ms : {1, 2, 4, 8, 16, 20, 20}) {
    owners_.Refused(0, 5, now_ns);
    owners_.Refused(0, 6, now_ns);
    EXPECT_EQ(owners_.Route(5), kNobody);
    EXPECT_EQ(owners_.next_try_ns(), now_ns + pause_ms * kMs);
    EXPECT_TRUE(owners_.Settle({}, owners_.next_try_ns() - 1).none());
    EXPECT_TRUE(owners_.unsettled());
    now_ns = owners_.next_try_ns();
    EXPECT_EQ(kv::FormatSlots(owners_.Settle({}, now_ns)), "5-6");
    EXPECT_EQ(owners_.Route(5), 0u);
  }
  owners_.Refused(0, 5, now_ns + 101 * kMs);
  EXPECT_EQ(owners_.next_try_ns(), now_ns + 102 * kMs) << "a new one";
}

TEST_F(SlotOwnersTest, WhereAnotherOneHasItThereIsNoPause) {
  owners_.Refused(0, 5, kMs);
  owners_.Told(1, Words("5,100-199"));
  EXPECT_EQ(kv::FormatSlots(owners_.Settle({}, kMs)), "5");
  EXPECT_EQ(owners_.Route(5), 1u);
  owners_.Refused(0, 5, kMs);  // late
  EXPECT_EQ(kv::FormatSlots(owners_.Settle({}, kMs)), "5");
}

TEST_F(SlotOwnersTest, Grow) {
  owners_.Refused(0, 5, kMs);
  owners_.Grow();
  EXPECT_EQ(owners_.Route(5), 3u);
  EXPECT_EQ(owners_.Route(1000), 3u);
  EXPECT_EQ(owners_.Route(100), 1u);
  owners_.Told(2, Words("5,1000"));
  owners_.Settle({}, kMs);
  EXPECT_EQ(owners_.Route(5), 2u);
  EXPECT_EQ(owners_.Route(1000), 2u);
}

}  // namespace
}  // namespace farlook::client
