// A phase: all threads together load the records, or run transactions, once.
#ifndef FARLOOK_BENCH_YCSB_PHASE_H_
#define FARLOOK_BENCH_YCSB_PHASE_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "bench/common/clocks.h"
#include "bench/stores/db.h"
#include "bench/stores/store_address.h"
#include "bench/ycsb/core_workload.h"
#include "bench/ycsb/measurements.h"

namespace farlook::bench {

struct PhaseOptions {
  bool load = false;
  int64_t operations = 0;  // 0: until max_seconds have passed
  int threads = 1;
  double target = 0;  // operations per second of all threads together; 0: as fast as possible
  bool with_intended = false;
  size_t batch = 1;
  size_t inflight = 1;
  double max_seconds = 0;        // 0: no limit
  double status_interval_s = 0;  // 0: no status lines
  uint64_t seed = 1;
  pid_t server_pid = 0;                      // 0: unknown
  std::optional<StoreAddress> cpu_reporter;  // reports its CPU time if it is on another host (remote_cpu.h)
};

struct PhaseResult {
  PhaseOptions options;
  int64_t operations = 0;  // ended operations, whatever their result
  int64_t runtime_ns = 0;  // from when all were connected until the last thread was done
  CpuTime client;
  std::optional<int64_t> server_cpu_ns;  // of the server's process, if it is known
  int64_t client_resident_bytes = 0;     // of this process, when the last thread was done
  Measurements totals;
  bool failed = false;  // an operation did not return OK
};

// Connects the threads, then runs them together. Returns the error of a thread that could not connect, or of the CPU
// reporter; then nothing was run, or is reported. Ends early, with the results so far, once *stop is true (and sets it
// itself when the time has passed or the load fails).
//
// REQUIRES: options.operations > 0 or options.max_seconds > 0; options.batch == 1 or options.inflight == 1.
absl::StatusOr<std::unique_ptr<PhaseResult>> RunPhase(const PhaseOptions& options, CoreWorkload* workload,
                                                      DbBackend* backend, std::atomic<bool>* stop);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_PHASE_H_
