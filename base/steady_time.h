// Time that no administrator and no time server changes: for deadlines, pauses and durations.
//
// Abseil's timed waits (AwaitWithTimeout() and the like) sleep until a point of CLOCK_REALTIME in Debian's release.
// When that clock is set back by a minute, they return a minute late. So product code uses SteadyNow() and Pause
// instead; tests/arrows checks that. The calendar's time is for people and for expiry only.
#ifndef FARLOOK_BASE_STEADY_TIME_H_
#define FARLOOK_BASE_STEADY_TIME_H_

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace farlook {

// CLOCK_BOOTTIME, as rdma::Clock::Real(): it continues while the machine is suspended. Only differences between its
// points have a meaning.
absl::Time SteadyNow();

// A sleep that another thread can end.
//
// Thread safety: any thread.
class Pause {
 public:
  // Sleeps until End() is called, at most for `time`. Returns whether End() was called since the last Sleep() returned.
  bool Sleep(absl::Duration time);
  // Ends one sleep, this one or the next.
  void End();

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
};

}  // namespace farlook

#endif  // FARLOOK_BASE_STEADY_TIME_H_
