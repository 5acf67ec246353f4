// CPU time of a process on another host, reported by a program there.
#ifndef FARLOOK_BENCH_YCSB_REMOTE_CPU_H_
#define FARLOOK_BENCH_YCSB_REMOTE_CPU_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "bench/stores/store_address.h"

namespace farlook::bench {

// CpuNsAtRest (clocks.h) of process `pid` on the host of `reporter`. The reporter (comparison/cpu_reporter.py) answers
// the line "PID" with a line that has a number, over TCP, with one connection for each question. UNAVAILABLE if there
// is no answer within seconds; NOT_FOUND with the answer if that is no number.
absl::StatusOr<int64_t> RemoteCpuNsAtRest(const StoreAddress& reporter, pid_t pid);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_REMOTE_CPU_H_
