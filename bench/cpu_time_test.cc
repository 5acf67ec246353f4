#include "bench/cpu_time.h"

#include <unistd.h>

#include "bench/now.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

TEST(CpuTimeTest, TimesStandBehindAnyName) {
  const absl::StatusOr<CpuTime> time =
      ParseProcStat("77 (a ) S (b) S 1 77 77 0 -1 4194560 1 2 3 4 250 30 0 0 20 0 1 0 5 6 7");
  ASSERT_TRUE(time.ok()) << time.status();
  const double ticks_per_s = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(time->user_s, 250 / ticks_per_s);
  EXPECT_EQ(time->system_s, 30 / ticks_per_s);
}

TEST(CpuTimeTest, WhatIsNotAStatIsRefused) {
  EXPECT_FALSE(ParseProcStat("").ok());
  EXPECT_FALSE(ParseProcStat("1 (x) S 1 2").ok());
  EXPECT_FALSE(ParseProcStat("1 (x) S 1 2 3 4 5 6 7 8 9 10 many 12 13").ok());
}

TEST(CpuTimeTest, WorkIsSeenInBothPlaces) {
  const CpuTime before = OwnCpuTime();
  const int64_t deadline = NowNs() + int64_t{10} * 1'000'000'000;
  while ((OwnCpuTime() - before).total_s() < 0.05 && NowNs() < deadline) {
  }
  EXPECT_GE((OwnCpuTime() - before).total_s(), 0.05);
  const absl::StatusOr<CpuTime> proc = CpuTimeOf(getpid());
  ASSERT_TRUE(proc.ok()) << proc.status();
  EXPECT_NEAR(proc->total_s(), OwnCpuTime().total_s(), 0.05);
  const absl::StatusOr<int64_t> ns = CpuNsOf(getpid());
  ASSERT_TRUE(ns.ok()) << ns.status();
  EXPECT_NEAR(static_cast<double>(*ns) / 1e9, OwnCpuTime().total_s(), 0.05);
}

TEST(CpuTimeTest, AProcessThatIsNotThereIsNotFound) {
  EXPECT_EQ(CpuTimeOf(1 << 30).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CpuNsOf((1 << 22) + 1).status().code(), absl::StatusCode::kNotFound) << "the kernel has no larger ones";
}

}  // namespace
}  // namespace farlook::bench
