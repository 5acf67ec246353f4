// Random runs of a group find nothing wrong; and with each rule broken some run does.
//
//   bazel test --config=opt --test_env=FARLOOK_SEEDS=100000 --test_timeout=3600 //cluster:group_run_test
#include "cluster/group_run.h"

#include <cstdlib>
#include <iostream>
#include <string>

#include "cluster/breaks.h"
#include "gtest/gtest.h"

namespace farlook::cluster {
namespace {

constexpr int kSteps = 3'000;

uint64_t Seeds() {
  const char* const seeds = std::getenv("FARLOOK_SEEDS");
  return seeds == nullptr ? 1'000 : std::strtoull(seeds, nullptr, 10);
}

TEST(GroupRun, NothingIsStaleOrLost) {
  broken = Break::kNone;
  RunResult sum;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    const RunResult run = RunGroup(seed, kSteps);
    ASSERT_EQ(run.wrong, "") << "seed " << seed;
    sum.writes += run.writes;
    sum.gets += run.gets;
    sum.promotions += run.promotions;
    sum.additions += run.additions;
    sum.removals += run.removals;
    sum.unknown += run.unknown;
    sum.stepped_down += run.stepped_down;
    sum.crashes += run.crashes;
    sum.left += run.left;
  }
  std::cout << sum.writes << " writes, " << sum.gets << " gets, " << sum.promotions << " promotions, " << sum.additions
            << " additions, " << sum.removals << " removals, " << sum.unknown << " unknown outcomes, "
            << sum.stepped_down << " stepped down, " << sum.crashes << " crashes, " << sum.left << " left\n";
  // Else these runs would prove nothing.
  const int runs = static_cast<int>(Seeds());
  EXPECT_GT(sum.writes, runs);
  EXPECT_GT(sum.gets, runs);
  EXPECT_GT(sum.promotions, runs / 4);
  EXPECT_GT(sum.additions, runs);
  EXPECT_GT(sum.removals, runs / 4);
  EXPECT_GT(sum.unknown, runs);
  EXPECT_GT(sum.stepped_down, runs / 4);
  EXPECT_GT(sum.crashes, runs / 8);
  EXPECT_GT(sum.left, runs / 8);
}

TEST(GroupRun, EachBreakIsFound) {
  for (int i = 1; i <= static_cast<int>(Break::kLast); ++i) {
    broken = static_cast<Break>(i);
    uint64_t seed = 1;
    while (seed <= 20'000 && RunGroup(seed, kSteps).wrong.empty()) ++seed;
    EXPECT_LE(seed, 20'000) << "break " << i << " was not found";
    std::cout << "break " << i << ": seed " << seed << ": " << RunGroup(seed, kSteps).wrong << "\n";
  }
  broken = Break::kNone;
}

}  // namespace
}  // namespace farlook::cluster
