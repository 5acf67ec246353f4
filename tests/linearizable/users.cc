#include "tests/linearizable/users.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "gtest/gtest.h"

namespace farlook {

Users::Users(Board* board, std::string address, uint32_t seed, Run run)
    : board_(board), address_(std::move(address)), run_(run), random_(seed) {
  std::printf("seed %u\n", seed);
  std::fflush(stdout);
}

Users::~Users() {
  for (const pid_t pid : pids_) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

void Users::StartOne() {
  if (lanes_ == Board::kLanes) std::abort();
  const auto seed = static_cast<uint32_t>(random_());
  const pid_t pid = fork();
  if (pid == 0) _exit(run_(board_, lanes_, address_, seed));
  ++lanes_;
  pids_.push_back(pid);
}

void Users::Start(int processes) {
  for (int i = 0; i < processes; ++i) StartOne();
}

void Users::Disturb() {
  const size_t victim = random_() % pids_.size();
  const pid_t pid = pids_[victim];
  if (random_() % 2 == 0) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pids_.erase(pids_.begin() + static_cast<std::ptrdiff_t>(victim));
    StartOne();
  } else {
    kill(pid, SIGSTOP);
    usleep(100'000);
    kill(pid, SIGCONT);
  }
}

void Users::Join() {
  // Emulated devices are slow.
  const int64_t end_ns = HostNowNs() + 60'000'000'000;
  while (board_->begun() < kEnough && HostNowNs() < end_ns) usleep(10'000);
  board_->Stop();
  for (const pid_t pid : std::exchange(pids_, {})) {
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace farlook
