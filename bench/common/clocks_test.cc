#include "bench/common/clocks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kLongestNs = 60'000 * kMillisecond;

// A running program, for the lifetime of this object.
class Process {
 public:
  Process(const char* program, const std::string& argument) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execlp(program, program, argument.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    output_ = ends[0];
  }
  ~Process() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(output_);
  }

  pid_t pid() const { return pid_; }

  // Waits until it closes its output; returns false if it ended.
  bool WorkIsDone() {
    char nothing;
    return read(output_, &nothing, 1) == 0 && waitpid(pid_, nullptr, WNOHANG) == 0;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

Process Burner(int64_t ns) { return Process("bench/common/cpu_burner", std::to_string(ns)); }

TEST(CpuTimeTest, WorkIsSeenInBothPlaces) {
  const CpuTime before = OwnCpuTime();
  const int64_t deadline = NowNs() + int64_t{10} * 1'000'000'000;
  while ((OwnCpuTime() - before).total_s() < 0.05 && NowNs() < deadline) {
  }
  EXPECT_GE((OwnCpuTime() - before).total_s(), 0.05);
  const absl::StatusOr<int64_t> ns = CpuNsOf(getpid());
  ASSERT_TRUE(ns.ok()) << ns.status();
  EXPECT_NEAR(static_cast<double>(*ns) / 1e9, OwnCpuTime().total_s(), 0.05);
}

TEST(CpuTimeTest, WorkOfAThreadThatEndedIsNotLost) {
  Process burner = Burner(50 * kMillisecond);
  ASSERT_TRUE(burner.WorkIsDone());
  const absl::StatusOr<int64_t> ns = CpuNsAtRest(burner.pid());
  ASSERT_TRUE(ns.ok()) << ns.status();
  EXPECT_GE(*ns, 50 * kMillisecond);
}

TEST(CpuTimeTest, WorkOfMuchLessThanATickIsSeen) {
  Process burner = Burner(100'000);
  ASSERT_TRUE(burner.WorkIsDone());
  const absl::StatusOr<int64_t> ns = CpuNsAtRest(burner.pid());
  ASSERT_TRUE(ns.ok()) << ns.status();
  EXPECT_GE(*ns, 100'000);
  EXPECT_NE(*ns % kMillisecond, 0) << "whole ticks, it seems";
}

TEST(CpuTimeTest, AProcessThatSleepsTakesNone) {
  const Process sleeping("sleep", "1000");  // a program without a sanitizer's own threads
  // On a busy machine, on its way to sleep, it may wait for a processor longer than CpuNsAtRest() checks.
  const int64_t deadline_ns = NowNs() + kLongestNs;
  int64_t before_ns = 0, after_ns = -1;
  while (after_ns != before_ns && NowNs() < deadline_ns) {
    before_ns = CpuNsAtRest(sleeping.pid()).value_or(0);
    usleep(50'000);
    after_ns = CpuNsAtRest(sleeping.pid()).value_or(-1);
  }
  EXPECT_GT(before_ns, 0);
  EXPECT_EQ(after_ns, before_ns);
}

TEST(CpuTimeTest, AProcessThatNeverRestsIsNotWaitedForForEver) {
  const int64_t deadline_ns = NowNs() + kLongestNs;
  Process burner = Burner(0);
  ASSERT_TRUE(burner.WorkIsDone());
  const absl::StatusOr<int64_t> ns = CpuNsAtRest(burner.pid());
  ASSERT_TRUE(ns.ok()) << ns.status();
  EXPECT_LT(NowNs(), deadline_ns);
  while (CpuNsOf(burner.pid()).value_or(0) == *ns && NowNs() < deadline_ns) usleep(1000);
  EXPECT_GT(CpuNsOf(burner.pid()).value_or(0), *ns);
}

TEST(CpuTimeTest, AThreadIsFoundByItsName) {
  Process burner = Burner(0);
  ASSERT_TRUE(burner.WorkIsDone());
  const absl::StatusOr<int64_t> ns = CpuNsOfThread(burner.pid(), "cpu_burner");
  ASSERT_TRUE(ns.ok()) << ns.status();
  EXPECT_GT(*ns, 0);
  EXPECT_EQ(CpuNsOfThread(burner.pid(), "another").status().code(), absl::StatusCode::kNotFound);
}

TEST(CpuTimeTest, AProcessThatIsNotThereIsNotFound) {
  const pid_t none = (1 << 22) + 1;  // the kernel has no larger ones
  EXPECT_EQ(CpuNsOf(none).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CpuNsAtRest(none).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace farlook::bench
