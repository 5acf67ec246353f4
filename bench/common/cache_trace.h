// Access traces of caches: the same sequence for each cache that is compared.
#ifndef FARLOOK_BENCH_COMMON_CACHE_TRACE_H_
#define FARLOOK_BENCH_COMMON_CACHE_TRACE_H_

#include <cstdint>
#include <vector>

#include "bench/common/random.h"
#include "bench/common/zipfian.h"

namespace farlook::bench {

struct CacheWorkload {
  const char* name;
  uint64_t keys;
  double share;  // of the keys that the cache has room for, about
  double zipf;
  double scans = 0;    // of all operations: keys in order, in runs of 5,000
  double wonders = 0;  // of all: keys that are requested once
  double drift = 0;    // number of ranks by which all keys move with each operation
  double updates = 0;  // of all: puts
};

// The cases of docs/verification.md, over this number of keys.
inline std::vector<CacheWorkload> CacheWorkloads(uint64_t keys) {
  return {{"zipf .99, 2 %", keys, .02, .99},
          {"zipf .99, 10 %", keys, .1, .99},
          {"zipf .99, 30 %", keys, .3, .99},
          {"zipf .8, 10 %", keys, .1, .8},
          {"scans", keys, .1, .99, /*scans=*/.1},
          {"one-hit wonders", keys, .1, .99, 0, /*wonders=*/.2},
          {"drift", keys, .1, .99, 0, 0, /*drift=*/.0025},
          {"half updates", keys, .1, .99, 0, 0, 0, /*updates=*/.5}};
}

class CacheTrace {
 public:
  struct Step {
    uint64_t key;
    bool update;  // otherwise a get, followed by a put if it misses
  };

  explicit CacheTrace(const CacheWorkload& workload)
      : workload_(workload),
        random_(7),
        zipf_(0, static_cast<int64_t>(workload.keys) - 1, workload.zipf),
        once_(workload.keys) {}

  Step Next() {
    ++steps_;
    if (scan_left_ == 0 && random_.NextDouble() < workload_.scans / kScan) scan_left_ = kScan;
    if (scan_left_ > 0) {
      --scan_left_;
      return {scan_++ % workload_.keys, false};
    }
    if (random_.NextDouble() < workload_.wonders) return {once_++, false};
    const auto rank = static_cast<uint64_t>(zipf_.Draw(random_.NextDouble()));
    const auto moved = static_cast<uint64_t>(static_cast<double>(steps_) * workload_.drift);
    // Neighbours in rank are not neighbours in a scan.
    const uint64_t key = (rank + moved) % workload_.keys * 0x9e3779b1 % workload_.keys;
    return {key, random_.NextDouble() < workload_.updates};
  }

 private:
  static constexpr uint64_t kScan = 5000;

  const CacheWorkload workload_;
  Random random_;
  ZipfianGenerator zipf_;
  uint64_t steps_ = 0, once_, scan_ = 0, scan_left_ = 0;
};

// The hit ratio of the second half of `steps`. `cache` has Get(key), and Put(key, refill).
template <typename Cache>
double HitRatio(const CacheWorkload& workload, uint64_t steps, Cache&& cache) {
  CacheTrace trace(workload);
  uint64_t gets = 0, hits = 0;
  for (uint64_t i = 0; i < steps; ++i) {
    const CacheTrace::Step step = trace.Next();
    if (step.update) {
      cache.Put(step.key, /*refill=*/false);
      continue;
    }
    const bool hit = cache.Get(step.key);
    if (!hit) cache.Put(step.key, /*refill=*/true);
    if (i < steps / 2) continue;
    ++gets;
    hits += hit;
  }
  return 100.0 * static_cast<double>(hits) / static_cast<double>(gets);
}

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_CACHE_TRACE_H_
