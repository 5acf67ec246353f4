// A histogram of durations: four buckets for each doubling, from 64 ns to 17 s. Client and server use the same buckets,
// since clients report theirs to the server (client_figures.h).
#ifndef FARLOOK_KV_WIRE_DURATION_BUCKETS_H_
#define FARLOOK_KV_WIRE_DURATION_BUCKETS_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace farlook::kv {

class DurationBuckets {
 public:
  static constexpr size_t kBuckets = 1 + 4 * 28;

  static constexpr size_t BucketOf(uint64_t ns) {
    if (ns - 64 >= kLast - 64) [[unlikely]]
      return ns < 64 ? 0 : kBuckets - 1;
    const int e = 63 ^ std::countl_zero(ns);  // the highest bit
    return 4 * static_cast<size_t>(e) + (ns >> (e - 2)) - kFirst;
  }
  // The least duration above a bucket.
  static constexpr uint64_t EndOf(size_t bucket) {
    return bucket == 0 ? 64 : (5 + (bucket - 1) % 4) << ((bucket - 1) / 4 + 4);
  }

  void Add(size_t bucket, uint64_t n) { counts_[bucket] += n; }
  uint64_t at(size_t bucket) const { return counts_[bucket]; }
  uint64_t count() const {
    uint64_t sum = 0;
    for (const uint64_t n : counts_) sum += n;
    return sum;
  }
  // Number of durations shorter than `ns`, which begins a bucket.
  uint64_t Below(uint64_t ns) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kBuckets && EndOf(i) <= ns; ++i) sum += counts_[i];
    return sum;
  }
  // The duration that at most this share of all exceeds; 0 if there is none.
  uint64_t Quantile(double share) const {
    const auto rest = static_cast<uint64_t>((1 - share) * static_cast<double>(count()));
    uint64_t longer = 0;
    for (size_t i = kBuckets; i-- > 0;) {
      longer += counts_[i];
      if (longer > rest) return EndOf(i);
    }
    return 0;
  }

 private:
  // Bucket 1 begins at 64, of which the highest bit is bit 6, and the three highest are 0b100.
  static constexpr size_t kFirst = 4 * 6 + 0b100 - 1;
  static constexpr uint64_t kLast = uint64_t{7} << 31;  // where the last bucket begins

  std::array<uint64_t, kBuckets> counts_{};
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_DURATION_BUCKETS_H_
