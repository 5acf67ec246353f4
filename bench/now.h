// The driver's clock.
#ifndef FARLOOK_BENCH_NOW_H_
#define FARLOOK_BENCH_NOW_H_

#include <time.h>

#include <cstdint>

namespace farlook::bench {

// Nanoseconds of CLOCK_MONOTONIC.
inline int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_NOW_H_
