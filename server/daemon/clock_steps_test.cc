// A wall clock that is set back does not keep threads of the server asleep.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock_steps_testing.h"
#include "base/steady_time.h"
#include "cluster/configuration.h"
#include "cluster/simulated_directory.h"
#include "gtest/gtest.h"
#include "server/base/log.h"
#include "server/base/log_writer.h"
#include "server/group/cluster_watch.h"

namespace farlook::server {
namespace {

// A wait on the wall clock would end only after this time, which exceeds the test's time limit.
constexpr int64_t kStepS = 7200;

class ClockStepsTest : public testing::Test {
 protected:
  ClockStepsTest() { SetLogLevel(LogLevel::kNone); }
  ~ClockStepsTest() override {
    wall_clock_ahead_s = 0;
    SetLogLevel(LogLevel::kInfo);
  }
};

TEST_F(ClockStepsTest, TheClustersMapIsReadAgain) {
  cluster::SimulatedRecords records;
  std::atomic<int> calls{0};
  ClusterWatch watch("g0");
  cluster::Configuration own;
  own.epoch = 1;
  own.cluster = "kv";
  own.members = {{1, cluster::Replica::Kind::kPrimary, "shm:///a"}};
  watch.SetOwn(own);
  wall_clock_ahead_s = kStepS;
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<cluster::Directory>> {
    return std::make_unique<cluster::SimulatedDirectory>(&records, [&calls] {
      ++calls;
      return cluster::SimulatedDirectory::Fault::kNone;
    });
  };
  watch.Start(open, absl::Milliseconds(1));
  while (calls < 3) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(ClockStepsTest, LastWordsAreWaitedForNoLonger) {
  signal(SIGPIPE, SIG_IGN);  // for the writer's thread, which still writes when the pipe closes
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  {
    LogWriter writer(ends[1]);
    writer.Put(std::string(LogWriter::kMaxBytes / 2, 'x'));  // more than a pipe that is not read holds
    wall_clock_ahead_s = kStepS;
    const absl::Time begin = SteadyNow();
    EXPECT_FALSE(writer.Flush());
    EXPECT_GE(SteadyNow() - begin, absl::Milliseconds(LogWriter::kLastWordsMs));
  }
  close(ends[0]);
}

}  // namespace
}  // namespace farlook::server
