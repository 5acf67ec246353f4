// Steps of the wall clock neither shorten nor lengthen the waits for a directory.
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock_steps_testing.h"
#include "base/steady_time.h"
#include "cluster/etcd_directory.h"
#include "cluster/file_directory.h"
#include "gtest/gtest.h"

namespace farlook::cluster {
namespace {

constexpr absl::Duration kTimeout = absl::Milliseconds(200);

class ClockStepsTest : public testing::Test {
 protected:
  ~ClockStepsTest() override { wall_clock_ahead_s = wall_clock_step_s = 0; }

  // The time that `directory` waits for a change that does not happen.
  static absl::Duration Waits(Directory* directory, absl::StatusCode code) {
    const absl::Time begin = SteadyNow();
    EXPECT_EQ(directory->Wait("record", 0, kTimeout).status().code(), code);
    return SteadyNow() - begin;
  }
};

TEST_F(ClockStepsTest, FilesAreWaitedForInFull) {
  std::string path = testing::TempDir() + "/clock_steps_XXXXXX";
  ASSERT_NE(mkdtemp(path.data()), nullptr);
  auto directory = FileDirectory::Open(path);
  ASSERT_TRUE(directory.ok()) << directory.status();
  wall_clock_step_s = 3600;
  EXPECT_GE(Waits(directory->get(), absl::StatusCode::kDeadlineExceeded), kTimeout);
  std::filesystem::remove_all(path);
}

TEST_F(ClockStepsTest, EtcdIsWaitedForInFull) {
  EtcdOptions options;
  options.endpoints = {"http://127.0.0.1:1"};  // nothing listens there
  auto directory = EtcdDirectory::Create(options);
  ASSERT_TRUE(directory.ok()) << directory.status();
  wall_clock_step_s = 3600;
  EXPECT_GE(Waits(directory->get(), absl::StatusCode::kUnavailable), kTimeout);
}

}  // namespace
}  // namespace farlook::cluster
