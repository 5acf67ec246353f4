// Durations of calls.
#ifndef FARLOOK_BENCH_COMMON_LATENCIES_H_
#define FARLOOK_BENCH_COMMON_LATENCIES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace farlook::bench {

struct Latencies {
  std::vector<int64_t> ns;

  // Microseconds of the call that is slower than `share` (0 to 1) of all; 0 if there is none. Reorders them.
  double Percentile(double share) {
    if (ns.empty()) return 0;
    const auto at = ns.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(ns.size() - 1));
    std::nth_element(ns.begin(), at, ns.end());
    return static_cast<double>(*at) / 1000;
  }
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_LATENCIES_H_
