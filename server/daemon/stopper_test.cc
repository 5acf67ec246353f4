#include "server/daemon/stopper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <iterator>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/base/log_writer.h"

namespace farlook::server {
namespace {

class StopperTest : public ::testing::Test {
 protected:
  // Blocked before threads start, which inherit the mask.
  StopperTest() { pthread_sigmask(SIG_BLOCK, &signals_, &before_); }
  ~StopperTest() override {
    writer_.reset();
    Forget();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  void SetUp() override { writer_ = std::make_unique<LogWriter>(STDERR_FILENO); }

  void Forget() const {
    // Pending signals of a test would end the process.
    const timespec now = {};
    while (sigtimedwait(&signals_, nullptr, &now) > 0) {
    }
  }

  const sigset_t signals_ = Stopper::Signals();
  sigset_t before_;
  std::unique_ptr<LogWriter> writer_;
};

TEST_F(StopperTest, AnOrderOfItsOwnHasItBeginAnew) {
  Stopper stopper(writer_.get());
  stopper.Ready([] {});
  stopper.BeginAnew();
  stopper.BeginAnew();
  stopper.Await();
  EXPECT_TRUE(stopper.begins_anew());
  EXPECT_STREQ(stopper.signal_name(), "none");
}

TEST_F(StopperTest, ASignalBesideThatOrderEndsTheProcessAllTheSame) {
  for (const int signal : {SIGTERM, SIGINT}) {
    for (const bool signal_first : {false, true}) {
      Stopper stopper(writer_.get());
      stopper.Ready([] {});
      if (signal_first) kill(getpid(), signal);
      stopper.BeginAnew();
      if (!signal_first) kill(getpid(), signal);
      stopper.Await();
      EXPECT_FALSE(stopper.begins_anew()) << signal << signal_first;
      Forget();
    }
  }
}

TEST_F(StopperTest, ASignalWhileItStopsEndsTheProcess) {
  Stopper stopper(writer_.get());
  stopper.Ready([] {});
  stopper.BeginAnew();
  stopper.Await();
  ASSERT_TRUE(stopper.begins_anew());
  kill(getpid(), SIGTERM);
  EXPECT_FALSE(stopper.begins_anew());
}

size_t Threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// A server that cannot start returns from main() without waiting for a signal.
TEST_F(StopperTest, ItsThreadEndsWithIt) {
  const size_t before = Threads();
  for (const bool ready : {true, false}) {
    {
      Stopper stopper(writer_.get());
      if (ready) stopper.Ready([] {});
    }
    for (int i = 0; i < 10'000 && Threads() > before; ++i) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(Threads(), before) << ready;
  }
}

TEST_F(StopperTest, AnotherProcessCannotHaveItBeginAnew) {
  Stopper stopper(writer_.get());
  stopper.Ready([] {});
  const pid_t other = fork();
  if (other == 0) _exit(kill(getppid(), SIGUSR1));
  int status = -1;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  ASSERT_EQ(status, 0);
  kill(getpid(), SIGTERM);
  stopper.Await();
  EXPECT_STREQ(stopper.signal_name(), "SIGTERM");
  EXPECT_FALSE(stopper.begins_anew());
}

}  // namespace
}  // namespace farlook::server
