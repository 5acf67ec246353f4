#include "client/cli/terminal/output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "client/cli/commands/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;

TEST(OutputTest, KeepsTheOrderOfSmallAndLargePieces) {
  CapturedOutput captured;
  const std::string large(1 << 20, 'x');
  captured.output()->Write("a");
  captured.output()->Write(large);
  captured.output()->WriteLine("b");
  EXPECT_EQ(captured.Text(), "a" + large + "b\n");
  EXPECT_FALSE(captured.output()->is_terminal());
}

TEST(OutputTest, FlushesWhenDestroyed) {
  ScratchFile file;
  { Output(file.fd(), "scratch").Write("text"); }
  EXPECT_EQ(file.Content(), "text");
}

TEST(OutputTest, AFullDiskIsAnError) {
  const int fd = open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  Output output(fd, "standard output");
  output.Write("text");
  EXPECT_THAT(std::string(output.Flush().message()), HasSubstr("cannot write to standard output"));
  EXPECT_FALSE(output.reader_gone());
  // Expect: the first failure is remembered.
  output.Write("more");
  EXPECT_FALSE(output.Flush().ok());
  close(fd);
}

TEST(OutputTest, WaitsWhereItsDescriptorDoesNotBlock) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_NONBLOCK), 0);
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  std::thread writer([&] {
    Output output(fds[1], "standard output");
    output.Write(text);
    EXPECT_TRUE(output.Flush().ok()) << output.status();
    close(fds[1]);
  });
  // The reader is slow.
  std::string read_text;
  char buffer[4096];
  for (ssize_t bytes = 1; bytes != 0;) {
    pollfd ready = {fds[0], POLLIN, 0};
    poll(&ready, 1, -1);
    bytes = read(fds[0], buffer, sizeof buffer);
    if (bytes > 0) read_text.append(buffer, static_cast<size_t>(bytes));
  }
  writer.join();
  EXPECT_EQ(read_text.size(), text.size());
  close(fds[0]);
}

TEST(OutputTest, KnowsThatItsReaderIsGone) {
  signal(SIGPIPE, SIG_IGN);
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  close(fds[0]);
  Output output(fds[1], "standard output");
  output.Write("text");
  EXPECT_FALSE(output.Flush().ok());
  EXPECT_TRUE(output.reader_gone());
  close(fds[1]);
}

}  // namespace
}  // namespace farlook::cli
