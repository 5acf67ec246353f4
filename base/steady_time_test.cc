#include "base/steady_time.h"

#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock_steps_testing.h"
#include "gtest/gtest.h"

namespace farlook {
namespace {

// Far beyond what the test takes, and far below what a wait on the stepped clock would take.
constexpr absl::Duration kLong = absl::Hours(1);

TEST(SteadyTimeTest, TheTestSetsTheWallClock) {
  const absl::Time before = absl::Now();
  wall_clock_ahead_s = 3600;
  EXPECT_GE(absl::Now() - before, absl::Hours(1));
  wall_clock_ahead_s = 0;
  EXPECT_LT(absl::Now() - before, absl::Hours(1));
}

TEST(SteadyTimeTest, StepsOfTheWallClockDoNotShow) {
  const absl::Time begin = SteadyNow();
  wall_clock_ahead_s = 7200;
  EXPECT_GE(SteadyNow(), begin);
  EXPECT_LT(SteadyNow() - begin, absl::Hours(1));
  wall_clock_ahead_s = -7200;
  EXPECT_GE(SteadyNow(), begin);
  wall_clock_ahead_s = 0;
}

TEST(PauseTest, EndsInTimeAlthoughTheWallClockWasSetBack) {
  Pause pause;
  const absl::Time begin = SteadyNow();
  wall_clock_ahead_s = 7200;
  EXPECT_FALSE(pause.Sleep(absl::Milliseconds(20)));
  wall_clock_ahead_s = 0;
  EXPECT_GE(SteadyNow() - begin, absl::Milliseconds(20));
  EXPECT_LT(SteadyNow() - begin, kLong);
}

TEST(PauseTest, LastsAsLongAsItShouldAlthoughTheWallClockIsSetForward) {
  Pause pause;
  const absl::Time begin = SteadyNow();
  wall_clock_step_s = 3600;
  EXPECT_FALSE(pause.Sleep(absl::Milliseconds(50)));
  wall_clock_step_s = 0;
  wall_clock_ahead_s = 0;
  EXPECT_GE(SteadyNow() - begin, absl::Milliseconds(50));
}

TEST(PauseTest, AnotherThreadEndsIt) {
  Pause pause;
  std::thread other([&pause] { pause.End(); });
  EXPECT_TRUE(pause.Sleep(absl::InfiniteDuration()));
  other.join();
  // Expect: that ended one sleep, and no other.
  EXPECT_FALSE(pause.Sleep(absl::ZeroDuration()));
  EXPECT_FALSE(pause.Sleep(-absl::InfiniteDuration()));
}

TEST(PauseTest, AnEndBeforeTheSleepCounts) {
  Pause pause;
  pause.End();
  EXPECT_TRUE(pause.Sleep(absl::InfiniteDuration()));
}

}  // namespace
}  // namespace farlook
