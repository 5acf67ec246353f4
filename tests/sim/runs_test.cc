// Tests the simulation itself: a seed decides everything, the intended events happen in its runs, and a failure becomes
// small enough to be read.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "gtest/gtest.h"
#include "tests/sim/plan.h"
#include "tests/sim/report.h"
#include "tests/sim/run.h"

namespace farlook::sim {
namespace {

TEST(SimRunTest, ASeedDecidesEverything) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Plan plan = DrawPlan(seed);
    const RunResult once = RunPlan(plan), again = RunPlan(plan);
    EXPECT_EQ(once.events, again.events) << "seed " << seed;
    EXPECT_EQ(once.read_retries, again.read_retries) << "seed " << seed;
    EXPECT_EQ(once.ended_in_pauses, again.ended_in_pauses) << "seed " << seed;
  }
}

// That they evict is shown by the violation when an item that is kept is evicted (mutation_test.cc).
TEST(SimRunTest, NothingIsWrongInCaches) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const RunResult result = RunPlan(DrawPlan(seed, Focus::kCaches));
    EXPECT_EQ(result.violation, "") << "seed " << seed;
    EXPECT_FALSE(result.undecided) << "seed " << seed;
  }
}

TEST(SimRunTest, TheRunsAreWhatOughtToBeTested) {
  Totals totals;
  for (uint64_t seed = 1; seed <= 60; ++seed) totals.Add(RunPlan(DrawPlan(seed)));
  for (uint64_t seed = 1; seed <= 3; ++seed) totals.Add(RunPlan(DrawPlan(seed, Focus::kLong)));  // few are
  for (uint64_t seed = 1; seed <= 20; ++seed) totals.Add(RunPlan(DrawPlan(seed, Focus::kReadsAtOnce)));
  const RunResult& sum = totals.sum;
  EXPECT_GT(sum.operations, 60'000u);
  EXPECT_GT(sum.splits, 60u);
  EXPECT_GT(sum.moved_items, 50u);
  EXPECT_GT(sum.moved_in_growth, 20u);
  EXPECT_GT(sum.read_retries, 1'000u);
  EXPECT_GT(sum.stale_locations, 1'000u);
  EXPECT_GT(sum.directory_refreshes, 100u);
  EXPECT_GT(sum.server_gets, 0u);
  EXPECT_GT(sum.ended_at_once, 5'000u);
  EXPECT_GT(sum.read_at_once, 300u);
  EXPECT_GT(sum.long_found, 5u);
  EXPECT_GT(sum.hostile_connections, 30u);
  EXPECT_GT(sum.reconnects, 100u);
  EXPECT_GT(sum.resent_requests, 100u);
  EXPECT_GT(sum.pulled_values, 100u);
  EXPECT_GT(sum.timeouts, 100u);
  EXPECT_GT(sum.restarts, 5u);
  EXPECT_GT(sum.no_memory, 10u);
  EXPECT_GT(sum.ended_in_pauses, 10'000u);
  EXPECT_GT(sum.atomics, 3'000u);
  EXPECT_GT(sum.counter_requests, 10'000u);
  EXPECT_GT(sum.dead_cells, 50u);
  EXPECT_GT(sum.unknown_atomics, 5u);
  // Expect: each fault strikes in some run. That any two occur together needs more runs: SimTest.
  for (size_t fault = 0; fault < kFaults; ++fault) {
    if ((kAllFaults >> fault & 1) == 0) continue;
    EXPECT_GT(totals.together[fault][fault], 0u) << NameOf(static_cast<Fault>(fault));
  }
}

// Runs of each kind in which mutations are sought are right without them.
TEST(SimRunTest, RunsOfEachKindAreRight) {
  for (int focus = 0; focus < kFoci; ++focus) {
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      const Plan plan = DrawPlan(seed, static_cast<Focus>(focus));
      ASSERT_EQ(RunPlan(plan).violation, "") << Explain(plan);
    }
  }
}

// In runs of groups replicas take each other's place.
TEST(SimRunTest, GroupsChange) {
  Totals totals;
  for (uint64_t seed = 1; seed <= 40; ++seed) totals.Add(RunPlan(DrawPlan(seed, Focus::kGroup)));
  EXPECT_GT(totals.sum.epochs, 400u);
  EXPECT_GT(totals.sum.restarts, 100u);
}

TEST(SimRunTest, SlotsMove) {
  Totals totals;
  for (uint64_t seed = 1; seed <= 20; ++seed) totals.Add(RunPlan(DrawPlan(seed, Focus::kSlots)));
  EXPECT_GT(totals.sum.slot_moves, 50u);
  EXPECT_GT(totals.sum.restarts, 30u);
}

TEST(SimRunTest, ItemsOfGroupsAreOfAllKinds) {
  Totals totals;
  for (uint64_t seed = 1; seed <= 40; ++seed) totals.Add(RunPlan(DrawPlan(seed, Focus::kGroupItems)));
  EXPECT_GT(totals.sum.epochs, 400u);
  EXPECT_GT(totals.sum.restarts, 100u);
  EXPECT_GT(totals.sum.slot_moves, 20u);
  EXPECT_GT(totals.sum.splits, 40u);
  EXPECT_GT(totals.sum.moved_items, 100u);
  EXPECT_GT(totals.sum.pulled_values, 300u);
  EXPECT_GT(totals.sum.counter_requests, 2'000u);
}

// Members run out of room, and stay members.
TEST(SimRunTest, FullGroupsRefuseWrites) {
  Totals totals;
  for (uint64_t seed = 1; seed <= 8; ++seed) totals.Add(RunPlan(DrawPlan(seed, Focus::kFullGroups)));
  EXPECT_GT(totals.sum.no_memory, 100u);
  EXPECT_GT(totals.sum.restarts, 10u);
  EXPECT_GT(totals.sum.moved_items, 20u);
}

// A server joins whose memory is as small as may be. The others have left it more than their own reserve.
TEST(SimRunTest, ASmallMemberHasRoomForWhatItIsFilledWith) {
  const Plan plan = DrawPlan(128, Focus::kFullGroups);
  EXPECT_EQ(RunPlan(plan).violation, "") << Explain(plan);
}

// An answer to a client that checks a member is lost, and all that is READ is doubted until it tries again.
TEST(SimRunTest, WhatWasWrongOnceIsRight) {
  const Plan plan = DrawPlan(1886, Focus::kGroup);
  EXPECT_EQ(RunPlan(plan).violation, "") << Explain(plan);
}

// Memory that leaves the index imitates buckets, and no reader is misled.
TEST(SimRunTest, WhereKeysBecomeFewMemoryLeavesTheIndex) {
  uint64_t merges = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const RunResult result = RunPlan(DrawPlan(seed, Focus::kShrinks));
    EXPECT_EQ(result.violation, "") << "seed " << seed;
    merges += result.merges;
  }
  EXPECT_GT(merges, 200u);
}

TEST(SimRunTest, AnyTwoFaultsAreSwitchedOnAndOffTogether) {
  std::array<std::array<std::array<int, 4>, kFaults>, kFaults> runs{};
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    const Plan plan = DrawPlan(seed);
    for (size_t a = 0; a < kFaults; ++a) {
      for (size_t b = 0; b < a; ++b) ++runs[a][b][(plan.faults >> a & 1) + 2 * (plan.faults >> b & 1)];
    }
  }
  for (size_t a = 0; a < kFaults; ++a) {
    for (size_t b = 0; b < a; ++b) {
      if ((kAllFaults >> a & kAllFaults >> b & 1) == 0) continue;
      for (const int count : runs[a][b]) {
        EXPECT_GT(count, 300) << NameOf(static_cast<Fault>(a)) << " and " << NameOf(static_cast<Fault>(b));
      }
    }
  }
}

TEST(SimRunTest, AFailureIsShrunkAndSaysHowToRunItAgain) {
  uint64_t seed = 1;
  while (RunPlan(DrawPlan(seed), Break::kVersionReused).violation.empty()) ASSERT_LE(++seed, 50u);
  const Plan small = ShrinkPlan(DrawPlan(seed), Break::kVersionReused);
  EXPECT_LT(small.operations, DrawPlan(seed).operations / 2);
  const RunResult result = RunPlan(small, Break::kVersionReused, /*noting=*/true);
  EXPECT_NE(result.violation, "");
  EXPECT_LT(std::count(result.trace.begin(), result.trace.end(), '\n'), 85);
  EXPECT_NE(CommandFor(small, Break::kVersionReused).find("--operations="), std::string::npos);
  std::printf("%s\n%s\n%s\n%s\n", Describe(small).c_str(), result.trace.c_str(), result.violation.c_str(),
              CommandFor(small, Break::kVersionReused).c_str());
}

}  // namespace
}  // namespace farlook::sim
