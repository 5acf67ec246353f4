#include "client/core/slot_owners.h"

#include <cstddef>

#include "gtest/gtest.h"
#include "kv/wire/cluster_map.h"

namespace farlook::client {
namespace {

kv::SlotSet Set(const char* text) { return *kv::ParseSlots(text); }
kv::SlotWords Words(const char* text) { return kv::WordsOf(Set(text)); }

class SlotOwnersTest : public testing::Test {
 protected:
  static constexpr size_t kWaits = 2;  // the number of cores
  SlotOwnersTest() {
    owners_.OnWelcome(0, Words("0-99"));
    owners_.OnWelcome(1, Words("100-199"));
    owners_.Open({});
  }
  SlotOwners owners_{2};
};

TEST_F(SlotOwnersTest, FollowTheWelcomesAndNotTheMap) {
  SlotOwners owners(2);
  EXPECT_EQ(owners.Route(5), kWaits);
  owners.Hint(0, Set("0-9"));
  EXPECT_EQ(owners.Route(5), 0u) << "it has not connected";
  EXPECT_FALSE(owners.unsettled());
  owners.OnWelcome(0, Words("5-6"));
  EXPECT_EQ(owners.Route(5), 0u);
  EXPECT_EQ(owners.Route(7), kWaits);
  EXPECT_TRUE(owners.HasAny(0));
  EXPECT_FALSE(owners.HasAny(1));
}

TEST_F(SlotOwnersTest, TheLaterWelcomeCounts) {
  owners_.OnWelcome(1, Words("50-199"));
  owners_.Open({});
  EXPECT_EQ(owners_.Route(49), 0u);
  EXPECT_EQ(owners_.Route(50), 1u);
  owners_.OnWelcome(0, Words("0-49"));
  EXPECT_EQ(owners_.Route(50), 1u);
  // A deposed server claims its former slots; the next primary of its group does not.
  owners_.OnWelcome(0, Words("0-99"));
  owners_.OnWelcome(0, Words("0-49"));
  owners_.Open({});
  EXPECT_EQ(owners_.Route(50), 1u) << "it has not said anything else";
  owners_.OnWelcome(1, Words("100-199"));
  EXPECT_EQ(owners_.Route(50), kWaits);
}

TEST_F(SlotOwnersTest, WhatChangesHandsIsClosedUntilItsRequestsHaveEnded) {
  owners_.OnWelcome(1, Words("50-199"));
  EXPECT_EQ(owners_.Route(50), kWaits);
  EXPECT_TRUE(owners_.unsettled());
  const kv::SlotSet opened = owners_.Open(Set("50"));
  EXPECT_EQ(kv::FormatSlots(opened), "51-99");
  EXPECT_EQ(owners_.Route(50), kWaits);
  EXPECT_EQ(owners_.Route(51), 1u);
  EXPECT_TRUE(owners_.unsettled());
  EXPECT_EQ(kv::FormatSlots(owners_.Open({})), "50");
  EXPECT_EQ(owners_.Route(50), 1u);
  EXPECT_FALSE(owners_.unsettled());
}

TEST_F(SlotOwnersTest, AClosedSlotWithoutAnOwnerStaysClosed) {
  owners_.Close(5);
  owners_.OnWelcome(0, Words("6-99"));
  EXPECT_TRUE(owners_.Open({}).none());
  EXPECT_TRUE(owners_.closed(5)) << "writes of it may still wait";
  EXPECT_FALSE(owners_.unsettled());
  owners_.OnWelcome(1, Words("5,100-199"));
  EXPECT_TRUE(owners_.unsettled());
  EXPECT_EQ(kv::FormatSlots(owners_.Open({})), "5");
  EXPECT_EQ(owners_.Route(5), 1u);
}

TEST_F(SlotOwnersTest, Grow) {
  owners_.Close(5);
  owners_.Grow();
  EXPECT_EQ(owners_.Route(5), kWaits + 1);
  EXPECT_EQ(owners_.Route(1000), kWaits + 1);
  EXPECT_EQ(owners_.Route(100), 1u);
  owners_.OnWelcome(2, Words("5,1000"));
  owners_.Open({});
  EXPECT_EQ(owners_.Route(5), 2u);
  EXPECT_EQ(owners_.Route(1000), 2u);
}

}  // namespace
}  // namespace farlook::client
