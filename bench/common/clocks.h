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

// Of all threads of this process, to the microsecond.
CpuTime OwnCpuTime();

// Of all threads of process `pid`, those that ended too, in nanoseconds, user and system together, as the scheduler
// counts them. It moves only when a thread has run: two equal values say that none did. What a thread runs is added
// when it stops, and at each tick of the scheduler until then (1 to 10 ms), so a process that is running is told up to
// a tick late. NOT_FOUND when there is no such process.
absl::StatusOr<int64_t> CpuNsOf(pid_t pid);

// Of those of its threads that live and have this name, together. NOT_FOUND when there is none.
absl::StatusOr<int64_t> CpuNsOfThread(pid_t pid, absl::string_view name);

// As CpuNsOf(), when the process has done what it was asked for and all of its threads sleep: what its requests cost it
// is then counted whole. Looks each millisecond, a thousand times at most; of a process that does not come to rest
// then, what CpuNsOf said first.
absl::StatusOr<int64_t> CpuNsAtRest(pid_t pid);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_CLOCKS_H_
