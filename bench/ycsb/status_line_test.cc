#include "bench/ycsb/status_line.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

TEST(StatusLineTest, ALineHasTheFormOfYcsb) {
  Measurements before, now;
  before.Record(Metric::kRead, {.start_ns = 0, .end_ns = 5000}, false);
  now.Merge(before);
  now.Record(Metric::kRead, {.start_ns = 0, .end_ns = 100}, false);
  const std::string line = StatusLine({.wall_ns = 1718272801'007'000'000,
                                       .elapsed_ns = 10 * kSecond,
                                       .interval_ns = 2 * kSecond,
                                       .operations = 5000,
                                       .last_operations = 3999,
                                       .operations_to_do = 30000},
                                      now, before);
  EXPECT_THAT(line, ContainsRegex("^20[0-9-]+ [0-9:]+:[0-9][0-9]:007 10 sec: 5000 operations; "
                                  "500.5 current ops/sec; est completion in 1 minute \\[READ: Count=1,"));
  EXPECT_THAT(line, EndsWith("Max=0.1, Min=0.1, Avg=0.1, 50=0.1, 90=0.1, 99=0.1, 99.9=0.1, 99.99=0.1]"));
}

TEST(StatusLineTest, BeforeTheFirstOperationThereIsNoRate) {
  const Measurements none;
  const std::string line = StatusLine({.operations_to_do = 100}, none, none);
  EXPECT_THAT(line, EndsWith(" 0 sec: 0 operations;"));
  EXPECT_THAT(line, Not(HasSubstr("ops/sec")));
}

TEST(StatusLineTest, IntendedLatenciesStandBeside) {
  const Measurements none;
  Measurements now;
  now.Record(Metric::kUpdate, {.intended_ns = -1000, .start_ns = 0, .end_ns = 1000}, true);
  const std::string line = StatusLine({.interval_ns = 1, .operations = 1}, now, none);
  EXPECT_THAT(line, HasSubstr("[UPDATE: Count=1, Max=1,"));
  EXPECT_THAT(line, HasSubstr("[Intended-UPDATE: Count=1, Max=2,"));
}

}  // namespace
}  // namespace farlook::bench
