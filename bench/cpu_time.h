// CPU seconds of this process and of others.
#ifndef FARLOOK_BENCH_CPU_TIME_H_
#define FARLOOK_BENCH_CPU_TIME_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::bench {

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

// Of all threads of process `pid`, in ticks of 10 ms (proc(5)). NOT_FOUND when there is no such process.
absl::StatusOr<CpuTime> CpuTimeOf(pid_t pid);

// The same to the nanosecond, as the scheduler counts: it moves only when a thread of the process has run.
absl::StatusOr<int64_t> CpuNsOf(pid_t pid);

// What /proc/PID/stat says. INVALID_ARGUMENT when it is not of that form.
absl::StatusOr<CpuTime> ParseProcStat(absl::string_view stat);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_CPU_TIME_H_
