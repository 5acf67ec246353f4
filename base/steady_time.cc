#include "base/steady_time.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

namespace farlook {
namespace {

// A longer sleep would exceed the range of the C++ library's nanoseconds.
constexpr absl::Duration kLongest = absl::Hours(24 * 365);

}  // namespace

absl::Time SteadyNow() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::TimeFromTimespec(now);
}

bool Pause::Sleep(absl::Duration time) {
  std::unique_lock<std::mutex> lock(mutex_);
  // wait_for() counts on the steady clock: glibc's pthread_cond_clockwait() with CLOCK_MONOTONIC.
  ended_.wait_for(lock, absl::ToChronoNanoseconds(std::clamp(time, absl::ZeroDuration(), kLongest)),
                  [this] { return is_ended_; });
  return std::exchange(is_ended_, false);
}

void Pause::End() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_ended_ = true;
  ended_.notify_one();
}

}  // namespace farlook
