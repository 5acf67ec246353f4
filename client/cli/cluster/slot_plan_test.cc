#include "client/cli/cluster/slot_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kMaps = 100;  // for each seed

kv::SlotSet Slots(absl::string_view text) { return kv::ParseSlots(text).value(); }

std::vector<std::string> Texts(const std::vector<SlotMove>& moves) {
  std::vector<std::string> texts;
  for (const SlotMove& move : moves)
    texts.push_back(absl::StrCat(move.from, ">", move.to, ":", kv::FormatSlots(move.slots)));
  return texts;
}

size_t CountRanges(const std::vector<GroupSlots>& groups) {
  size_t count = 0;
  for (const GroupSlots& group : groups) count += kv::RangesOf(group.slots).size();
  return count;
}

size_t CountMoved(const std::vector<SlotMove>& moves) {
  size_t count = 0;
  for (const SlotMove& move : moves) count += move.slots.count();
  return count;
}

// 1 to 250 groups that have all slots: in a few ranges, in many, or slot by slot; some have none.
std::vector<GroupSlots> RandomMap(std::mt19937* random) {
  const size_t count = (*random)() % 8 == 0 ? 1 + (*random)() % kv::kMaxGroups : 1 + (*random)() % 12;
  const size_t owners = 1 + (*random)() % count;
  const size_t longest = size_t{1} << (*random)() % 12;
  std::vector<GroupSlots> groups(count);
  for (size_t i = 0; i < count; ++i) groups[i].name = absl::StrCat("kv.", i);
  std::shuffle(groups.begin(), groups.end(), *random);
  for (size_t slot = 0; slot < kv::kClusterSlots;) {
    kv::SlotSet& slots = groups[(*random)() % owners].slots;
    for (size_t left = 1 + (*random)() % longest; left > 0 && slot < kv::kClusterSlots; --left) slots.set(slot++);
  }
  return groups;
}

// The properties of any plan.
void CheckMoves(const std::vector<GroupSlots>& groups, const std::vector<SlotMove>& moves) {
  std::vector<GroupSlots> now = groups;
  std::set<std::pair<std::string, std::string>> pairs;
  std::set<std::string> givers, takers;
  for (const SlotMove& move : moves) {
    EXPECT_TRUE(move.slots.any());
    EXPECT_TRUE(pairs.emplace(move.from, move.to).second) << "two moves from " << move.from << " to " << move.to;
    givers.insert(move.from);
    takers.insert(move.to);
    // Expect: a group gives slots that it has then.
    const auto from = std::find_if(now.begin(), now.end(), [&](const GroupSlots& g) { return g.name == move.from; });
    ASSERT_NE(from, now.end());
    EXPECT_TRUE((move.slots & ~from->slots).none());
    now = SlotsAfter(std::move(now), {move});
  }
  for (const std::string& giver : givers) EXPECT_EQ(takers.count(giver), 0u) << giver << " gives and takes";
  // Expect: each slot belongs to one group.
  kv::SlotSet all;
  size_t sum = 0;
  for (const GroupSlots& group : now) {
    all |= group.slots;
    sum += group.slots.count();
  }
  EXPECT_TRUE(all.all());
  EXPECT_EQ(sum, kv::kClusterSlots);
  // Expect: few moves, each of which splits at most one range in two.
  EXPECT_LT(moves.size(), std::max<size_t>(groups.size(), 1));
  EXPECT_LE(CountRanges(now), CountRanges(groups) + moves.size());
}

// The minimum number of moved slots: what exceeds the share, where those with the most keep the remainder.
size_t LeastToMove(const std::vector<GroupSlots>& groups) {
  std::vector<size_t> counts;
  for (const GroupSlots& group : groups) counts.push_back(group.slots.count());
  std::sort(counts.rbegin(), counts.rend());
  const size_t share = kv::kClusterSlots / counts.size(), left = kv::kClusterSlots % counts.size();
  size_t moved = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const size_t most = share + (i < left ? 1 : 0);
    moved += counts[i] > most ? counts[i] - most : 0;
  }
  return moved;
}

class SlotPlanTest : public testing::TestWithParam<uint32_t> {};

TEST_P(SlotPlanTest, ABalanceIsEvenAndMovesTheLeast) {
  std::mt19937 random(GetParam());
  for (int i = 0; i < kMaps && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", GetParam(), ", map ", i));
    std::vector<GroupSlots> groups = RandomMap(&random);
    const std::vector<SlotMove> moves = PlanBalance(groups);
    CheckMoves(groups, moves);
    EXPECT_EQ(CountMoved(moves), LeastToMove(groups));
    const std::vector<GroupSlots> after = SlotsAfter(groups, moves);
    const auto [fewest, most] =
        std::minmax_element(after.begin(), after.end(),
                            [](const GroupSlots& a, const GroupSlots& b) { return a.slots.count() < b.slots.count(); });
    EXPECT_LE(most->slots.count() - fewest->slots.count(), 1u);
    // Expect: then there is nothing to do, and the order of the groups does not matter.
    EXPECT_THAT(PlanBalance(after), IsEmpty());
    std::shuffle(groups.begin(), groups.end(), random);
    EXPECT_EQ(Texts(PlanBalance(groups)), Texts(moves));
  }
}

TEST_P(SlotPlanTest, AShareComesFromThoseThatHaveTheMost) {
  std::mt19937 random(GetParam());
  for (int i = 0; i < kMaps && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", GetParam(), ", map ", i));
    const std::vector<GroupSlots> groups = RandomMap(&random);
    const GroupSlots& group = groups[random() % groups.size()];
    const std::vector<SlotMove> moves = PlanShare(group.name, groups);
    CheckMoves(groups, moves);
    const size_t share = kv::kClusterSlots / groups.size();
    EXPECT_EQ(CountMoved(moves), share - std::min(share, group.slots.count()));
    const std::vector<GroupSlots> after = SlotsAfter(groups, moves);
    size_t most = 0, fewest_of_givers = kv::kClusterSlots;
    for (const GroupSlots& other : after) {
      if (other.name != group.name) most = std::max(most, other.slots.count());
    }
    for (const SlotMove& move : moves) {
      EXPECT_EQ(move.to, group.name);
      for (const GroupSlots& giver : after) {
        if (giver.name == move.from) fewest_of_givers = std::min(fewest_of_givers, giver.slots.count());
      }
    }
    EXPECT_LE(moves.empty() ? 0 : most, fewest_of_givers + 1);
    // Expect: an even distribution stays even.
    if (const auto even = SlotsAfter(groups, PlanBalance(groups)); groups.size() > 1) {
      std::vector<GroupSlots> one_more = even;
      one_more.push_back({"new", {}});
      EXPECT_THAT(PlanBalance(SlotsAfter(one_more, PlanShare("new", one_more))), IsEmpty());
    }
  }
}

TEST_P(SlotPlanTest, ARemovedGroupHasNothingLeft) {
  std::mt19937 random(GetParam());
  for (int i = 0; i < kMaps && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", GetParam(), ", map ", i));
    const std::vector<GroupSlots> groups = RandomMap(&random);
    if (groups.size() == 1) continue;
    const GroupSlots& group = groups[random() % groups.size()];
    const std::vector<SlotMove> moves = PlanRemoval(group.name, groups);
    CheckMoves(groups, moves);
    EXPECT_EQ(CountMoved(moves), group.slots.count());
    for (const SlotMove& move : moves) EXPECT_EQ(move.from, group.name);
    // Expect: an even distribution stays even.
    const std::vector<GroupSlots> even = SlotsAfter(groups, PlanBalance(groups));
    std::vector<GroupSlots> left = SlotsAfter(even, PlanRemoval(group.name, even));
    std::erase_if(left, [&](const GroupSlots& one) { return one.name == group.name; });
    EXPECT_THAT(PlanBalance(left), IsEmpty());
  }
}

TEST_P(SlotPlanTest, PiecesFitAndAreTheWhole) {
  std::mt19937 random(GetParam());
  for (int i = 0; i < kMaps / 10 && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", GetParam(), ", map ", i));
    const std::vector<SlotMove> moves = PlanBalance(RandomMap(&random));
    const size_t room = 9 + random() % 1000;
    const std::vector<SlotMove> pieces = CutToFit(moves, room);
    size_t next = 0;
    for (const SlotMove& move : moves) {
      kv::SlotSet slots;
      for (; next < pieces.size() && pieces[next].from == move.from && pieces[next].to == move.to; ++next) {
        EXPECT_LE(kv::FormatSlots(pieces[next].slots).size(), room);
        EXPECT_TRUE((slots & pieces[next].slots).none());
        slots |= pieces[next].slots;
      }
      EXPECT_EQ(slots, move.slots);
    }
    EXPECT_EQ(next, pieces.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SlotPlanTest, testing::Values(1, 2, 3));

TEST(SlotPlanExamplesTest, AThirdGroupGetsARangeOfEach) {
  const std::vector<GroupSlots> groups = {{"kv.0", Slots("0-2047")}, {"kv.1", Slots("2048-4095")}, {"kv.2", {}}};
  const auto expected = ElementsAre("kv.0>kv.2:0-682", "kv.1>kv.2:2048-2729");
  EXPECT_THAT(Texts(PlanBalance(groups)), expected);
  EXPECT_THAT(Texts(PlanShare("kv.2", groups)), expected);
}

TEST(SlotPlanExamplesTest, WhatIsCutTouchesWhatTheTakerHas) {
  EXPECT_THAT(Texts(PlanBalance({{"a", Slots("0-3000")}, {"b", Slots("3001-4095")}})), ElementsAre("a>b:2048-3000"));
  EXPECT_THAT(Texts(PlanBalance({{"a", Slots("1095-4095")}, {"b", Slots("0-1094")}})), ElementsAre("a>b:1095-2047"));
  EXPECT_THAT(Texts(PlanBalance({{"a", Slots("0-2999,3999")}, {"b", Slots("3000-3998,4000-4095")}})),
              ElementsAre("a>b:2047-2999"));
  // Expect: a range of the exact length is better.
  EXPECT_THAT(Texts(PlanBalance({{"a", Slots("0-2047,2049-2050")}, {"b", Slots("2048,2051-4095")}})),
              ElementsAre("a>b:2049-2050"));
}

TEST(SlotPlanExamplesTest, EqualPartsAreMovedWhole) {
  // Expect: two moves, not three.
  EXPECT_THAT(
      Texts(PlanBalance(
          {{"a", Slots("0-1033")}, {"b", Slots("1034-2077")}, {"c", Slots("2078-3081")}, {"d", Slots("3082-4095")}})),
      ElementsAre("b>c:2058-2077", "a>d:0-9"));
}

TEST(SlotPlanExamplesTest, NobodyElseMeansNoMove) {
  EXPECT_THAT(PlanBalance({}), IsEmpty());
  EXPECT_THAT(PlanBalance({{"a", Slots("0-4095")}}), IsEmpty());
  EXPECT_THAT(PlanRemoval("a", {{"a", Slots("0-4095")}}), IsEmpty());
  EXPECT_THAT(PlanRemoval("c", {{"a", Slots("0-4095")}, {"b", {}}}), IsEmpty());
  EXPECT_THAT(PlanShare("c", {{"a", Slots("0-4095")}, {"b", {}}}), IsEmpty());
}

}  // namespace
}  // namespace farlook::cli
