// Client::Connect() when no server answers: how long it tries, and its error.
#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/clock_steps_testing.h"
#include "base/steady_time.h"
#include "farlook/client.h"
#include "gtest/gtest.h"

namespace farlook {
namespace {

TEST(ConnectTest, AWallClockThatIsSetForwardDoesNotEndTheWaitForAServer) {
  ClientOptions options;
  options.timeout_ms = 300;
  options.wait_for_server = true;
  for (const char* address : {"auto://127.0.0.1:1", "farlook://127.0.0.1:1/kv"}) {
    const absl::Time begin = SteadyNow();
    wall_clock_step_s = 3600;
    const auto client = Client::Connect(address, options);
    wall_clock_step_s = wall_clock_ahead_s = 0;
    EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable) << client.status();
    // Each of several pauses may lack a part of a millisecond.
    EXPECT_GE(SteadyNow() - begin, absl::Milliseconds(options.timeout_ms - 10)) << address;
  }
}

TEST(ConnectTest, ANegativeTimeIsAMistake) {
  ClientOptions options;
  options.timeout_ms = -1;
  const absl::Status status = Client::Connect("tcp://127.0.0.1:1", options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "timeout_ms is -1")) << status;
}

}  // namespace
}  // namespace farlook
