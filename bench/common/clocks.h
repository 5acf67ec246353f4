// Clocks: the time, and the CPU time of this process and of others.
#ifndef FARLOOK_BENCH_COMMON_CLOCKS_H_
#define FARLOOK_BENCH_COMMON_CLOCKS_H_

#include <sys/types.h>
#include <time.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::bench {

// Nanoseconds of CLOCK_MONOTONIC.
inline int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct CpuTime {
  double user_s = 0;
  double system_s = 0;

  double total_s() const { return user_s + system_s; }
};

inline CpuTime operator-(const CpuTime& later, const CpuTime& earlier) {
  return {later.user_s - earlier.user_s, later.system_s - earlier.system_s};
}

// CPU time of all threads of this process, to the microsecond.
CpuTime OwnCpuTime();

// CPU time of all threads of process `pid`, including those that have ended, in nanoseconds, user and system together,
// as counted by the scheduler. It changes only if a thread has run: two equal values prove that none did. A thread's
// time is added when it stops, and until then at each tick of the scheduler (1 to 10 ms). So for a running process the
// value is up to a tick late. NOT_FOUND if there is no such process.
absl::StatusOr<int64_t> CpuNsOf(pid_t pid);

// The sum for its live threads with this name. NOT_FOUND if there is none.
absl::StatusOr<int64_t> CpuNsOfThread(pid_t pid, absl::string_view name);

// Like CpuNsOf(), once the process has finished its work and all of its threads sleep, so that the cost of its requests
// is counted completely. Checks each millisecond, at most a thousand times. For a process that does not come to rest by
// then, returns the first result of CpuNsOf.
absl::StatusOr<int64_t> CpuNsAtRest(pid_t pid);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_CLOCKS_H_
