// CPU time of a process on another host, as somebody there tells it.
#ifndef FARLOOK_BENCH_YCSB_REMOTE_CPU_H_
#define FARLOOK_BENCH_YCSB_REMOTE_CPU_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "bench/stores/store_address.h"

namespace farlook::bench {

// CpuNsAtRest (clocks.h) of process `pid` on the host of `teller`, which answers the line "PID" with the line of a
// number, over TCP, a connection for each question: comparison/cpu_teller.py. UNAVAILABLE when nobody answers within
// seconds; NOT_FOUND with the answer when that is no number.
absl::StatusOr<int64_t> RemoteCpuNsAtRest(const StoreAddress& teller, pid_t pid);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_REMOTE_CPU_H_
