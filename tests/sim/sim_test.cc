// Simulated runs, a new seed each: no run may have a violation.
//
//     bazel test --config=opt //tests/sim:sim_test      2,000 seeds, 200 of groups, 200 of clusters, 100 of items of groups
//     tools/soak --seeds N                              other seeds, N of them
//
// A failing seed is shrunk; the test prints what happened, and the command that runs it again.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "tests/sim/report.h"
#include "tests/sim/run.h"

namespace farlook::sim {
namespace {

constexpr uint64_t kBatches = 20;  // so that shards can share them

uint64_t Seeds() {
  const char* text = std::getenv("FARLOOK_SIM_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 2'000;
}

// Runs one parameter's share of the seeds, of which there are `seeds`.
void RunPart(Focus focus, uint64_t part, uint64_t seeds) {
  const uint64_t each = std::max<uint64_t>(1, seeds / kBatches);
  Totals totals;
  for (uint64_t seed = part * each + 1; seed <= (part + 1) * each; ++seed) {
    const Plan plan = DrawPlan(seed, focus);
    const RunResult result = RunPlan(plan);
    totals.Add(result);
    ASSERT_EQ(result.violation, "") << Explain(plan);
  }
  std::printf("%s\n", totals.ToString().c_str());
  // A history that takes too long to judge is not judged; they are rare.
  EXPECT_LE(totals.undecided, 1 + totals.runs / 50);
}

class SimTest : public testing::TestWithParam<uint64_t> {};

TEST_P(SimTest, NothingIsWrong) { RunPart(Focus::kAll, GetParam(), Seeds()); }

TEST_P(SimTest, NothingIsWrongThatIsReadAtOnce) { RunPart(Focus::kReadsAtOnce, GetParam(), Seeds() / 20); }

TEST_P(SimTest, NoWakeUpIsLost) { RunPart(Focus::kSleepers, GetParam(), Seeds() / 20); }

// Fewer, since each takes long.
class GroupSimTest : public testing::TestWithParam<uint64_t> {};

TEST_P(GroupSimTest, NothingThatAGroupAcknowledgedIsLost) { RunPart(Focus::kGroup, GetParam(), Seeds() / 10); }

TEST_P(GroupSimTest, NothingIsLostWhileSlotsMove) { RunPart(Focus::kSlots, GetParam(), Seeds() / 20); }

TEST_P(GroupSimTest, NothingIsLostWhileSlotsMoveSlowly) { RunPart(Focus::kSlowSlots, GetParam(), Seeds() / 40); }

TEST_P(GroupSimTest, WritesKeepTheirOrderWhileSlotsMove) { RunPart(Focus::kBusySlots, GetParam(), Seeds() / 40); }

TEST_P(GroupSimTest, NothingIsLostWhateverBefallsItems) { RunPart(Focus::kGroupItems, GetParam(), Seeds() / 20); }

TEST_P(GroupSimTest, NoMemberIsLostForLackOfRoom) { RunPart(Focus::kFullGroups, GetParam(), Seeds() / 100); }

INSTANTIATE_TEST_SUITE_P(Seeds, GroupSimTest, testing::Range(uint64_t{0}, kBatches));
INSTANTIATE_TEST_SUITE_P(Seeds, SimTest, testing::Range(uint64_t{0}, kBatches));

}  // namespace
}  // namespace farlook::sim
