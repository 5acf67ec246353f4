// The log's thread, writing to a pipe that is not read.
#include "server/base/log_writer.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
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
  // Returns all that was written. Closes the write end.
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
    // The pipe is read now: the next line is preceded by the number of lost lines.
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
    // Expect: each line before that one is present, or is reported as missing. (There are as many gaps as the thread
    // had turns to take waiting lines.)
    const std::string news =
        "lines were dropped here: the log is not read fast enough, or could not be written\" lines=";
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

// A descriptor that was set to O_NONBLOCK by another program that shares the terminal.
TEST_F(LogWriterTest, APipeThatDoesNotBlockGetsEveryLine) {
  constexpr int kLines = 2000;  // more than the pipe holds, fewer than may wait
  ASSERT_EQ(fcntl(pipe_[1], F_SETFL, O_NONBLOCK), 0);
  const uint64_t dropped_before = DroppedLogLines();
  std::string text;
  {
    LogWriter writer(pipe_[1]);
    for (int i = 0; i < kLines; ++i) Log(LogLevel::kInfo, "line", {{"number", i}});
    char bytes[4096];
    while (!absl::StrContains(text, absl::StrCat("number=", kLines - 1, "\n"))) {
      const ssize_t n = read(pipe_[0], bytes, sizeof bytes);
      ASSERT_GT(n, 0);
      text.append(bytes, static_cast<size_t>(n));
      ASSERT_EQ(DroppedLogLines(), dropped_before);
    }
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), kLines);
}

TEST_F(LogWriterTest, LinesThatCannotBeWrittenAreCounted) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  const uint64_t dropped_before = DroppedLogLines();
  {
    LogWriter writer(full);
    for (int i = 0; i < 100; ++i) Log(LogLevel::kInfo, "line", {{"number", i}});
  }
  EXPECT_EQ(DroppedLogLines() - dropped_before, 100u);
  close(full);
}

// A disk that is full for a while, simulated by a limit of the file's size.
TEST_F(LogWriterTest, ALineAfterATornOneBeginsALineAndSaysWhatIsMissing) {
  FILE* const file = tmpfile();
  ASSERT_NE(file, nullptr);
  const uint64_t dropped_before = DroppedLogLines();
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  {
    LogWriter writer(fileno(file));
    const rlimit few_bytes = {1000, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few_bytes), 0);
    for (int i = 0; i < 50; ++i) Log(LogLevel::kInfo, "line", {{"number", i}});
    EXPECT_TRUE(writer.Flush());
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, ignored);
    for (int i = 50; i < 60; ++i) Log(LogLevel::kInfo, "line", {{"number", i}});
  }
  const uint64_t dropped = DroppedLogLines() - dropped_before;
  std::string text(100'000, '\0');
  text.resize(static_cast<size_t>(pread(fileno(file), text.data(), text.size(), 0)));
  fclose(file);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  uint64_t whole = 0;
  for (const std::string& line : lines) {
    EXPECT_TRUE(absl::StartsWith(line, "ts=") || absl::StartsWith("ts=", line)) << line;  // the torn one may be short
    EXPECT_EQ(line.find("ts=", 1), line.npos) << "two in a line: " << line;
    whole += absl::StrContains(line, "msg=\"line\" number=") ? 1 : 0;  // perhaps the torn one as well
  }
  EXPECT_GT(dropped, 30u);
  EXPECT_LE(whole, 60 - dropped + 1);
  EXPECT_GE(whole, 60 - dropped);
  EXPECT_TRUE(absl::StrContains(text, absl::StrCat("could not be written\" lines=", dropped, "\n"))) << text;
  EXPECT_TRUE(absl::EndsWith(text, "number=59\n"));
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
