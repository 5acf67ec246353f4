// The example of docs/counters.md, with processes that are killed in the middle.
#include "tests/counters/sequence.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rdma/test_address.h"
#include "tests/faults/server_process.h"
#include "tests/faults/values.h"

namespace farlook {
namespace {

// Writes numbers to the pipe, as they are given out, until it is killed.
[[noreturn]] void Draw(const std::string& address, int pipe_fd) {
  auto client = MustConnect(address);
  Sequence orders(client.get(), "orders", /*block=*/7);
  while (true) {
    absl::StatusOr<int64_t> number = orders.Next();
    if (!number.ok() || write(pipe_fd, &*number, sizeof *number) != sizeof *number) _exit(2);
  }
}

TEST(SequenceTest, NoNumberIsGivenOutTwiceThoughProcessesDie) {
  ServerProcess server({"--memory=16MiB"});
  int numbers[2];
  ASSERT_EQ(pipe(numbers), 0);
  std::map<int64_t, int> seen;
  for (int round = 0; round < Repeat(rdma::TestsUseRdma() ? 3 : 5, 50); ++round) {
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) {
      const pid_t pid = fork();
      if (pid == 0) Draw(server.address(), numbers[1]);
      children.push_back(pid);
    }
    const size_t enough = seen.size() + (rdma::TestsUseRdma() ? 600 : 3000);
    int64_t number;
    while (seen.size() < enough) {
      ASSERT_EQ(read(numbers[0], &number, sizeof number), static_cast<ssize_t>(sizeof number));
      ASSERT_EQ(++seen[number], 1) << number << " was given out twice";
    }
    for (const pid_t pid : children) {
      kill(pid, SIGKILL);
      ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
    }
  }
  // Expect: only the killed processes took missing numbers: at most a block of each, and those not yet recorded.
  EXPECT_GE(seen.begin()->first, 0);
}

}  // namespace
}  // namespace farlook
