// Sets the wall clock of a test's process, as an administrator would set the machine's.
//
// Only one source of a test includes this: it defines clock_gettime(), which replaces the C library's for all linked
// code, including Abseil. The kernel's own clock is not changed. So a wait until a wall-clock time computed by this
// process ends at a wrong time, exactly as if the clock were set back between the computation and the wait.
#ifndef FARLOOK_BASE_CLOCK_STEPS_TESTING_H_
#define FARLOOK_BASE_CLOCK_STEPS_TESTING_H_

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace farlook {

// Seconds that this process's wall clock is ahead of the machine's.
inline std::atomic<int64_t> wall_clock_ahead_s{0};
// Seconds that each look at the wall clock sets it forward.
inline std::atomic<int64_t> wall_clock_step_s{0};

}  // namespace farlook

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int failed = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (failed == 0 && clock == CLOCK_REALTIME) {
    now->tv_sec += farlook::wall_clock_ahead_s.fetch_add(farlook::wall_clock_step_s);
  }
  return failed;
}

#endif  // FARLOOK_BASE_CLOCK_STEPS_TESTING_H_
