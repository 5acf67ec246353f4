#include "server/base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

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

TEST(LogTest, BytesThatAreNoAsciiAreEscaped) {
  // Invalid UTF-8; a control character of two bytes; a character that reverses the direction of text; a terminal
  // command.
  const std::string line = FormatLogLine(0, LogLevel::kWarning, "user \xff",
                                         {{"a", "\xc0\xaf"}, {"b", "\xc2\x9b"}, {"c", "\u202e"}, {"d", "\x1b[2J"}});
  EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; })) << line;
  EXPECT_EQ(line.substr(line.find("msg=")),
            "msg=\"user \\xff\" a=\"\\xc0\\xaf\" b=\"\\xc2\\x9b\" c=\"\\xe2\\x80\\xae\" "
            "d=\"\\x1b[2J\"");
}

TEST(LogTest, WithoutAThreadLinesThatCannotBeWrittenAreCountedToo) {
  const int saved = dup(STDERR_FILENO);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_TRUE(saved >= 0 && full >= 0);
  const uint64_t dropped_before = DroppedLogLines();
  dup2(full, STDERR_FILENO);
  for (int i = 0; i < 3; ++i) Log(LogLevel::kError, "line");
  dup2(saved, STDERR_FILENO);
  EXPECT_EQ(DroppedLogLines() - dropped_before, 3u);
  close(saved);
  close(full);
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
  // Expect: a long silence refills the burst, and no more.
  allowed = 0;
  for (int i = 0; i < 100; ++i) allowed += limit.Allow(3600'000'000'000, &suppressed);
  EXPECT_EQ(allowed, 10);
}

}  // namespace
}  // namespace farlook::server
