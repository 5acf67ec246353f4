#include "server/base/server_time.h"

#include <ctime>

#include "gtest/gtest.h"

namespace farlook::server {
namespace {

TEST(ServerTimeTest, GoesOnFromItsStart) {
  const ServerTime time(1'000'000, 5'000'000'000);
  EXPECT_EQ(time.At(5'000'000'000), 1'000'000u);
  EXPECT_EQ(time.At(5'000'001'999), 1'000'001u);
  EXPECT_EQ(time.At(7'000'000'000), 3'000'000u);
}

TEST(ServerTimeTest, IsTheHostsSince2020) {
  timespec before, after;
  clock_gettime(CLOCK_REALTIME, &before);
  const uint64_t shown_us = ServerTime::OfHost(77'000).At(77'000);
  clock_gettime(CLOCK_REALTIME, &after);
  constexpr int64_t k2020S = (50 * 365 + 12) * 86'400;
  EXPECT_GE(shown_us, static_cast<uint64_t>(before.tv_sec - k2020S) * 1'000'000);
  EXPECT_LE(shown_us, static_cast<uint64_t>(after.tv_sec + 1 - k2020S) * 1'000'000);
}

TEST(ServerTimeTest, ARequestIsOverAtItsDeadlineUnlessItHasNone) {
  const ServerTime time(1'000);
  EXPECT_FALSE(time.IsOver(0, 0));
  EXPECT_FALSE(time.IsOver(1'001, 999));
  EXPECT_TRUE(time.IsOver(1'001, 1'000));
  EXPECT_TRUE(time.IsOver(1, 0)) << "kv::Request::kLongOver";
}

}  // namespace
}  // namespace farlook::server
