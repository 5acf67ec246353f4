#include "server/log.h"

#include "gtest/gtest.h"

namespace farlook::server {
namespace {

TEST(LogTest, ALineIsLogfmt) {
  EXPECT_EQ(FormatLogLine(1'700'000'000'000'123, LogLevel::kInfo, "listening",
                          {{"address", "shm:///tmp/x"}, {"workers", 2}, {"load", 0.5}}),
            "ts=2023-11-14T22:13:20.000123Z level=info msg=\"listening\" address=shm:///tmp/x workers=2 load=0.5");
}

TEST(LogTest, ValuesCannotBreakOutOfTheirField) {
  EXPECT_EQ(
      FormatLogLine(0, LogLevel::kWarning, "a\nb", {{"peer", "x\" level=\"error\nts=0"}, {"none", ""}}),
      "ts=1970-01-01T00:00:00.000000Z level=warning msg=\"a\\nb\" peer=\"x\\\" level=\\\"error\\nts=0\" none=\"\"");
}

TEST(LogTest, LevelsHaveNames) {
  for (absl::string_view name : {"debug", "info", "warning", "error", "none"}) {
    LogLevel level;
    EXPECT_TRUE(ParseLogLevel(name, &level)) << name;
  }
  LogLevel level = LogLevel::kError;
  EXPECT_FALSE(ParseLogLevel("INFO", &level));
  EXPECT_FALSE(ParseLogLevel("", &level));
  EXPECT_EQ(level, LogLevel::kError);
}

TEST(RateLimitTest, ABurstThenOneASecond) {
  RateLimit limit;
  uint64_t suppressed = 0;
  int allowed = 0;
  for (int i = 0; i < 100; ++i) allowed += limit.Allow(5, &suppressed);
  EXPECT_EQ(allowed, 10);
  EXPECT_FALSE(limit.Allow(999'999'999, &suppressed));
  ASSERT_TRUE(limit.Allow(1'000'000'005, &suppressed));
  EXPECT_EQ(suppressed, 91u);
  EXPECT_FALSE(limit.Allow(1'000'000'006, &suppressed));
  // Expect: a long silence fills the burst again, and no more.
  allowed = 0;
  for (int i = 0; i < 100; ++i) allowed += limit.Allow(3600'000'000'000, &suppressed);
  EXPECT_EQ(allowed, 10);
}

}  // namespace
}  // namespace farlook::server
