#include "client/cli/input/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cli/commands/testing.h"
#include "client/cli/input/interrupt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Lines(const std::string& content, size_t max_line_bytes = 1000) {
  ScratchFile file(content);
  const Input input = Input::Borrow(file.fd(), "scratch");
  LineReader reader(&input, max_line_bytes);
  std::vector<std::string> lines;
  std::string line;
  while (true) {
    switch (reader.Next(&line)) {
      case LineReader::Result::kLine:
        lines.push_back(line);
        break;
      case LineReader::Result::kTooLong:
        lines.push_back("(too long)");
        break;
      case LineReader::Result::kError:
        lines.push_back(reader.status().ToString());
        return lines;
      case LineReader::Result::kEnd:
        EXPECT_EQ(reader.line_number(), lines.size());
        EXPECT_EQ(reader.consumed_bytes(), content.size());
        EXPECT_EQ(reader.Next(&line), LineReader::Result::kEnd);
        return lines;
    }
  }
}

TEST(LineReaderTest, GivesLinesWithoutLineFeeds) {
  EXPECT_THAT(Lines(""), IsEmpty());
  EXPECT_THAT(Lines("\n"), ElementsAre(""));
  EXPECT_THAT(Lines("a\n\nb\n"), ElementsAre("a", "", "b"));
  EXPECT_THAT(Lines("a\nb"), ElementsAre("a", "b")) << "the last line needs no line feed";
  EXPECT_THAT(Lines(std::string("a\0b\r\nc", 6)), ElementsAre(std::string("a\0b\r", 4), "c"));
}

TEST(LineReaderTest, SkipsLinesThatAreTooLong) {
  EXPECT_THAT(Lines("12345\n123456\n1\n", 5), ElementsAre("12345", "(too long)", "1"));
  EXPECT_THAT(Lines("123456", 5), ElementsAre("(too long)"));
  const std::string huge(3 << 20, 'x');
  EXPECT_THAT(Lines("a\n" + huge + "\nb\n", 5), ElementsAre("a", "(too long)", "b"));
  EXPECT_THAT(Lines(huge, 5), ElementsAre("(too long)"));
}

TEST(LineReaderTest, LinesMayBeLongerThanAChunk) {
  const std::string a(1 << 20, 'a');
  const std::string b(300'000, 'b');
  EXPECT_THAT(Lines(a + "\n" + b + "\nc", 1 << 20), ElementsAre(a, b, "c"));
}

TEST(LineReaderTest, ReportsErrors) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  for (const int fd : {-1, fds[1]}) {  // the latter is for writing
    const Input input = Input::Borrow(fd, "nothing");
    LineReader reader(&input, 10);
    std::string line;
    EXPECT_EQ(reader.Next(&line), LineReader::Result::kError);
    EXPECT_THAT(reader.status().ToString(), HasSubstr("cannot read nothing"));
  }
  close(fds[0]);
  close(fds[1]);
}

TEST(LineReaderTest, KnowsWhetherALineIsThere) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const Input input = Input::Borrow(fds[0], "pipe");
  LineReader reader(&input, 100);
  std::string line;
  EXPECT_FALSE(reader.ready());
  ASSERT_EQ(write(fds[1], "a\nb\n", 4), 4);
  EXPECT_TRUE(reader.ready());
  EXPECT_EQ(reader.Next(&line), LineReader::Result::kLine);
  EXPECT_TRUE(reader.ready()) << "in the buffer";
  EXPECT_EQ(reader.Next(&line), LineReader::Result::kLine);
  EXPECT_FALSE(reader.ready());
  close(fds[1]);
  EXPECT_TRUE(reader.ready()) << "the end";
  EXPECT_EQ(reader.Next(&line), LineReader::Result::kEnd);
  close(fds[0]);
}

TEST(InputTest, OpensFilesAndStandardInput) {
  ScratchFile file("text");
  const absl::StatusOr<Input> opened = Input::Open(file.path(), -1);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(*opened->ReadAll(4), "text");
  EXPECT_EQ(opened->file_bytes(), 4u);
  EXPECT_FALSE(opened->is_terminal());

  const absl::StatusOr<Input> borrowed = Input::Open("-", file.fd());
  ASSERT_TRUE(borrowed.ok());
  EXPECT_EQ(*borrowed->ReadAll(100), "text");
}

TEST(InputTest, NamesTheFileAndTheCause) {
  EXPECT_THAT(Input::Open("/no/such/file", 0).status().ToString(), HasSubstr("cannot open /no/such/file"));
  const absl::StatusOr<Input> directory = Input::Open("/", 0);
  ASSERT_TRUE(directory.ok());
  EXPECT_THAT(directory->ReadAll(10).status().ToString(), HasSubstr("cannot read /"));
}

TEST(InputTest, BoundsWhatItReads) {
  const absl::StatusOr<Input> zeros = Input::Open("/dev/zero", 0);
  ASSERT_TRUE(zeros.ok());
  EXPECT_EQ(zeros->ReadAll(1 << 20).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(InputTest, CtrlCEndsAWait) {
  CatchInterrupts();
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  raise(SIGINT);
  const Input input = Input::Borrow(fds[0], "pipe");
  EXPECT_EQ(input.ReadAll(10).status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(SleepUntilNs(NowNs() + 60'000'000'000));
  ForgetInterrupt();
  EXPECT_FALSE(Interrupted());
  EXPECT_TRUE(SleepUntilNs(NowNs() + 1'000'000));
  close(fds[0]);
  close(fds[1]);
}

// The signal arrives between the check and the wait for bytes: it is handled by another thread, so it does not end the
// wait.
TEST(InputTest, CtrlCThatInterruptsNoWaitEndsItToo) {
  CatchInterrupts();
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  std::thread other([] {
    usleep(20'000);
    raise(SIGINT);
  });
  const Input input = Input::Borrow(fds[0], "pipe");
  EXPECT_EQ(input.ReadAll(10).status().code(), absl::StatusCode::kCancelled);
  other.join();
  ForgetInterrupt();
  close(fds[0]);
  close(fds[1]);
}

}  // namespace
}  // namespace farlook::cli
