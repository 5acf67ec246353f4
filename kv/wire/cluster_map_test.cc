#include "kv/wire/cluster_map.h"

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/hash.h"

namespace farlook::kv {
namespace {

ClusterMap TwoGroups() {
  ClusterMap map;
  map.name = "kv";
  map.id = 7;
  map.hash_seed = 0x0123'4567'89ab'cdef;
  map.groups.push_back({"kv.0", 3, {"rdma://a:1", "rdma://b:1"}, *ParseSlots("0-2047")});
  map.groups.push_back({"kv.1", 1, {"rdma://c:1"}, *ParseSlots("2048-4000,4002-4095")});
  map.groups.push_back({"kv.2", 0, {}, {}});
  return map;
}

TEST(ClusterMapTest, IsReadAsItWasWritten) {
  const std::string text = TwoGroups().Encode();
  EXPECT_EQ(text,
            "cluster kv 0000000000000007 0123456789abcdef\n"
            "group kv.0 3\nmember rdma://a:1\nmember rdma://b:1\nslots 0 2047\n"
            "group kv.1 1\nmember rdma://c:1\nslots 2048 4000\nslots 4002 4095\n"
            "group kv.2 0\n");
  auto map = ClusterMap::Decode(text);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->Encode(), text);
  EXPECT_EQ(map->Find("kv.1")->members.front(), "rdma://c:1");
  EXPECT_EQ(map->Find("kv.3"), nullptr);
}

TEST(ClusterMapTest, WhatMakesNoSenseIsRefused) {
  const std::string head = "cluster kv 0000000000000007 0123456789abcdef\n";
  for (const std::string& bad :
       {std::string(), std::string("group kv.0 3\n"), head + head, head + "member rdma://a:1\n", head + "slots 0 1\n",
        head + "group kv.0 3\ngroup kv.0 3\n", head + "group kv.0\n", head + "group kv/0 3\n", head + "group kv.0 x\n",
        head + "group kv.0 3\nslots 0 4096\n", head + "group kv.0 3\nslots 2 1\n",
        head + "group kv.0 3\nslots 0 9\ngroup kv.1 3\nslots 9 10\n", head + "group kv.0 3\nmember a,b\n",
        head + "group kv.0 3\nmember \n", head + "nonsense\n", std::string("cluster kv 7 8\n"),
        std::string("cluster ../kv 0000000000000007 0123456789abcdef\n")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ClusterMap::Decode(bad).status())) << bad;
  }
  std::string many = head;
  for (size_t i = 0; i <= kMaxGroups; ++i) absl::StrAppend(&many, "group g", i, " 1\n");
  EXPECT_FALSE(ClusterMap::Decode(many).ok());
}

TEST(ClusterMapTest, SlotsAreReadAndWritten) {
  for (const char* const text : {"", "0", "4095", "0-4095", "0-1,3,5-4095"}) {
    auto slots = ParseSlots(text);
    ASSERT_TRUE(slots.ok()) << slots.status();
    EXPECT_EQ(FormatSlots(*slots), text);
  }
  for (const char* const bad : {",", "a", "1-", "-1", "2-1", "0-4096", "0-2,2-3", "1-2-3", "1 2"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseSlots(bad).status())) << bad;
  }
}

// All slots have about the same number of keys, for any kind of keys, spread over the whole table.
TEST(ClusterMapTest, SlotsAreEvenAndApartFromTheTablesPositions) {
  constexpr int kKeys = 1 << 20;
  const Hasher hasher(5);
  std::array<int, kClusterSlots> keys = {};
  std::array<int, 256> positions = {};
  for (int i = 0; i < kKeys; ++i) {
    const uint64_t hash = hasher(absl::StrCat("user", i));
    const size_t slot = ClusterSlotOf(hash);
    ASSERT_LT(slot, kClusterSlots);
    ++keys[slot];
    if (slot < kClusterSlots / 16) ++positions[hash >> 56];
  }
  // Expect: six deviations of a Poisson distribution, of 256 each.
  for (const int count : keys) EXPECT_NEAR(count, kKeys / kClusterSlots, 6 * 16);
  for (const int count : positions) EXPECT_NEAR(count, kKeys / 16 / 256, 6 * 16);
}

}  // namespace
}  // namespace farlook::kv
