#include "rdma/durations.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace farlook::rdma {
namespace {

TEST(DurationsTest, WhatIsTooLongIsTheLongest) {
  constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();
  constexpr int64_t kThisCentury = int64_t{4'102'444'800} * 1'000'000'000;
  EXPECT_EQ(NsOfMs(3000), 3'000'000'000);
  EXPECT_EQ(NsOfUs(20), 20'000);
  EXPECT_EQ(NsOfMs(-1), 0);
  for (const int64_t longest : {NsOfMs(kInfinite), NsOfUs(kInfinite), NsOfMs(kInfinite / 1'000'000)}) {
    EXPECT_GT(longest, kMostNs - 1'000'000);
    EXPECT_LE(longest, kMostNs);
    EXPECT_LT(longest, kInfinite - kThisCentury);
  }
}

}  // namespace
}  // namespace farlook::rdma
