// The log's thread against a pipe that nobody reads.
#include "server/log_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace farlook::server {
namespace {

class LogWriterTest : public testing::Test {
 protected:
  LogWriterTest() { EXPECT_EQ(pipe2(pipe_, O_CLOEXEC), 0); }
  ~LogWriterTest() override {
    close(pipe_[0]);
    if (pipe_[1] >= 0) close(pipe_[1]);
  }
  // All that was written. Closes the end that is written to.
  std::string Read() {
    close(pipe_[1]);
    pipe_[1] = -1;
    std::string text;
    char bytes[4096];
    for (ssize_t n; (n = read(pipe_[0], bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(n));
    return text;
  }

  int pipe_[2] = {-1, -1};
};

TEST_F(LogWriterTest, AllIsWrittenInOrderWhenItEnds) {
  {
    LogWriter writer(pipe_[1]);
    for (int i = 0; i < 100; ++i) Log(LogLevel::kInfo, "line", {{"number", i}});
  }
  const std::string text = Read();
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(absl::EndsWith(lines[i], absl::StrCat(" number=", i))) << lines[i];
}

TEST_F(LogWriterTest, NobodyWaitsForAReaderAndWhatIsDroppedIsCounted) {
  constexpr int kLines = 20'000;
  const uint64_t dropped_before = DroppedLogLines();
  std::string text;
  {
    LogWriter writer(pipe_[1]);
    // Expect: this returns, though the pipe is full after some hundred lines and the queue after some thousand.
    for (int i = 0; i < kLines; ++i) Log(LogLevel::kInfo, "line", {{"number", i}});
    const uint64_t dropped = DroppedLogLines() - dropped_before;
    EXPECT_GT(dropped, kLines / 2u);
    EXPECT_LT(dropped, static_cast<uint64_t>(kLines));
    // Somebody begins to read: the next line says how many are missing.
    fcntl(pipe_[0], F_SETFL, O_NONBLOCK);
    char bytes[65536];
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (text.find("number=last") == text.npos && absl::Now() < deadline) {
      const ssize_t n = read(pipe_[0], bytes, sizeof bytes);
      if (n > 0) text.append(bytes, static_cast<size_t>(n));
      if (n < 0) {
        absl::SleepFor(absl::Milliseconds(1));
        Log(LogLevel::kInfo, "line", {{"number", "last"}});
      }
    }
    const size_t last = text.find("number=last");
    ASSERT_NE(last, text.npos);
    // Expect: before that line each other one stands, or is told to be missing. (There are as many gaps as the thread
    // got to take what waited.)
    const std::string news = "lines were dropped here: the log is not read fast enough\" lines=";
    uint64_t told = 0;
    for (size_t at = 0; (at = text.find(news, at)) < last;) {
      at += news.size();
      uint64_t lines = 0;
      EXPECT_TRUE(absl::SimpleAtoi(text.substr(at, text.find('\n', at) - at), &lines));
      told += lines;
    }
    uint64_t written = 0;
    for (size_t at = 0; (at = text.find("msg=\"line\" number=", at)) < last; ++at) ++written;
    EXPECT_GE(told, dropped);
    EXPECT_LE(told, DroppedLogLines() - dropped_before);
    --written;  // the last
    EXPECT_EQ(written + dropped, static_cast<uint64_t>(kLines));
  }
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    EXPECT_TRUE(absl::StartsWith(line, "ts=")) << line;
  }
}

TEST_F(LogWriterTest, TheEndDoesNotWaitForAReaderWhoNeverComes) {
  int left_open[2];  // the writer's thread waits there until the process ends
  ASSERT_EQ(pipe2(left_open, O_CLOEXEC), 0);
  const absl::Time since = absl::Now();
  {
    LogWriter writer(left_open[1]);
    for (int i = 0; i < 20'000; ++i) Log(LogLevel::kInfo, "line", {{"number", i}});
  }
  EXPECT_LT(absl::Now() - since, absl::Milliseconds(LogWriter::kLastWordsMs) + absl::Seconds(10));
}

}  // namespace
}  // namespace farlook::server
