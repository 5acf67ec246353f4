// Every call of libibverbs and librdmacm in start-up, connect, load and shutdown fails once. Needs verbs.
#include <cstdlib>

#include "gtest/gtest.h"
#include "tests/failnth/campaign.h"

namespace farlook::failnth {
namespace {

TEST(FailNthVerbsTest, EveryVerbsCallGivesAStatus) {
  Plan plan{Kind::kVerbsCall};
  // Queues are polled very often, and a run takes a while where verbs are emulated.
  const char* const of_each_place = std::getenv("FARLOOK_CALLS_OF_EACH_PLACE");
  plan.of_each_place = of_each_place == nullptr ? 1 : std::strtoull(of_each_place, nullptr, 10);
  plan.at_once = 2;
  const Summary summary = FailEveryNth(plan);
  Print(summary);
  EXPECT_TRUE(summary.failures.empty()) << summary.failures.size() << " failures";
  EXPECT_GT(summary.by_name.size(), 20u);
}

}  // namespace
}  // namespace farlook::failnth
