#include "bench/ycsb/histogram.h"

#include <algorithm>
#include <cmath>

namespace farlook::bench {

uint64_t Histogram::LowestOf(size_t bucket) {
  constexpr size_t kPerPower = size_t{1} << kPrecisionBits;
  if (bucket < 2 * kPerPower) return bucket;
  const size_t shift = (bucket >> kPrecisionBits) - 1;
  return static_cast<uint64_t>(kPerPower + bucket % kPerPower) << shift;
}

uint64_t Histogram::HighestOf(size_t bucket) { return bucket + 1 == kBuckets ? UINT64_MAX : LowestOf(bucket + 1) - 1; }

void Histogram::Merge(const Histogram& other) {
  const uint64_t count = other.count();
  if (count == 0) return;
  Add(count_, count);
  Add(sum_, other.sum_.load(std::memory_order_relaxed));
  min_.store(std::min(min_.load(std::memory_order_relaxed), other.min_.load(std::memory_order_relaxed)),
             std::memory_order_relaxed);
  max_.store(std::max(max(), other.max()), std::memory_order_relaxed);
  for (size_t i = 0; i < kBuckets; ++i) {
    const uint64_t n = other.buckets_[i].load(std::memory_order_relaxed);
    if (n != 0) Add(buckets_[i], n);
  }
}

void Histogram::SetDifference(const Histogram& later, const Histogram& earlier) {
  Clear();
  uint64_t count = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    const uint64_t n =
        later.buckets_[i].load(std::memory_order_relaxed) - earlier.buckets_[i].load(std::memory_order_relaxed);
    if (n == 0) continue;
    if (count == 0) min_.store(LowestOf(i), std::memory_order_relaxed);
    max_.store(std::min(HighestOf(i), later.max()), std::memory_order_relaxed);
    buckets_[i].store(n, std::memory_order_relaxed);
    count += n;
  }
  count_.store(count, std::memory_order_relaxed);
  sum_.store(later.sum_.load(std::memory_order_relaxed) - earlier.sum_.load(std::memory_order_relaxed),
             std::memory_order_relaxed);
}

void Histogram::Clear() {
  for (Word& bucket : buckets_) bucket.store(0, std::memory_order_relaxed);
  count_.store(0, std::memory_order_relaxed);
  sum_.store(0, std::memory_order_relaxed);
  min_.store(UINT64_MAX, std::memory_order_relaxed);
  max_.store(0, std::memory_order_relaxed);
}

double Histogram::Mean() const {
  const uint64_t n = count();
  return n == 0 ? 0 : static_cast<double>(sum_.load(std::memory_order_relaxed)) / static_cast<double>(n);
}

uint64_t Histogram::Percentile(double percent) const {
  const uint64_t total = count();
  const uint64_t rank =
      std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(static_cast<double>(total) * percent / 100)));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i].load(std::memory_order_relaxed);
    if (seen >= rank) return std::min(HighestOf(i), max());
  }
  return max();
}

}  // namespace farlook::bench
