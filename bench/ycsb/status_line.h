// The line that -s prints on stderr each interval, in the form of YCSB 0.17 (whose plotting scripts read it).
#ifndef FARLOOK_BENCH_YCSB_STATUS_LINE_H_
#define FARLOOK_BENCH_YCSB_STATUS_LINE_H_

#include <cstdint>
#include <string>

#include "bench/ycsb/measurements.h"

namespace farlook::bench {

struct Progress {
  int64_t wall_ns = 0;           // since the epoch; printed as local time
  int64_t elapsed_ns = 0;        // of the phase
  int64_t interval_ns = 0;       // since the last line
  int64_t operations = 0;        // done so far
  int64_t last_operations = 0;   // done at the last line
  int64_t operations_to_do = 0;  // 0 when done or unknown
};

// For example (one line; latencies are microseconds):
//   2024-06-13 10:00:01:250 10 sec: 5000 operations; 500 current ops/sec; est completion in 1 minute [READ: Count=2500,
//   Max=80.1, Min=1.2, Avg=2.5, 50=2.1, 90=3, 99=9.9, 99.9=40.2, 99.99=80.1]
// The brackets show the operations between `before` and `now`.
std::string StatusLine(const Progress& progress, const Measurements& now, const Measurements& before);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_STATUS_LINE_H_
