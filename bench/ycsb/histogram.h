// Latencies, counted in buckets whose width grows with the value, so that every percentile is right to 1 part in 128.
//
// Values below 128 have a bucket each. Above, each power of two is divided into 128 buckets of equal width:
//
//     value (binary)   1xxxxxxx yyy...y        e = its highest bit's number, 7 bits x follow it
//     bucket           (e - 6) * 128 + x       lowest value (128 + x) << (e - 7), width 1 << (e - 7)
//     worked example   1000 = 0b1111101000: e = 9, x = 0b1111010 = 122, bucket 506 holds [1000, 1003]
//
// It is the log-linear scheme of Gil Tene's HdrHistogram. Debian 12 has no library for it that allows merging while
// another thread records.
#ifndef FARLOOK_BENCH_YCSB_HISTOGRAM_H_
#define FARLOOK_BENCH_YCSB_HISTOGRAM_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace farlook::bench {

// Some 58 KiB, of which only the buckets in use are touched.
//
// Thread safety: one thread records; any thread may at the same time read, or merge from it. A reader may miss the
// latest values, and may see a count, sum and buckets that differ by values recorded in between.
class Histogram {
 public:
  static constexpr int kPrecisionBits = 7;
  // Percentile() is at most this factor minus 1 above a value that was recorded, and never below it.
  static constexpr double kRelativeError = 1.0 / (1 << kPrecisionBits);
  static constexpr size_t kBuckets = (64 - kPrecisionBits + 1) << kPrecisionBits;

  Histogram() = default;
  Histogram(const Histogram&) = delete;
  Histogram& operator=(const Histogram&) = delete;

  void Record(uint64_t value) { Record(value, 1); }
  void Record(uint64_t value, uint64_t times);

  // Adds the values of `other`.
  void Merge(const Histogram& other);

  // Sets this to the values that are in `later` and not in `earlier`, a former state of it. Their minimum and maximum
  // are known only to a bucket.
  void SetDifference(const Histogram& later, const Histogram& earlier);

  void Clear();

  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  uint64_t min() const { return count() == 0 ? 0 : min_.load(std::memory_order_relaxed); }
  uint64_t max() const { return max_.load(std::memory_order_relaxed); }
  double Mean() const;

  // The highest value of the first bucket (but never more than max()) such that `percent` of the values, rounded up to
  // a whole value, are not above it; 0 if empty. REQUIRES: 0 <= percent <= 100.
  uint64_t Percentile(double percent) const;

  static size_t BucketOf(uint64_t value);
  static uint64_t LowestOf(size_t bucket);
  static uint64_t HighestOf(size_t bucket);

 private:
  using Word = std::atomic<uint64_t>;

  // One writer: a plain add, without the lock prefix.
  static void Add(Word& word, uint64_t n) {
    word.store(word.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  Word count_{0};
  Word sum_{0};
  Word min_{UINT64_MAX};
  Word max_{0};
  std::array<Word, kBuckets> buckets_{};
};

inline size_t Histogram::BucketOf(uint64_t value) {
  if (value < (uint64_t{1} << kPrecisionBits)) return value;
  const int shift = 63 - kPrecisionBits - std::countl_zero(value);
  return (static_cast<size_t>(shift) << kPrecisionBits) + static_cast<size_t>(value >> shift);
}

inline void Histogram::Record(uint64_t value, uint64_t times) {
  Add(buckets_[BucketOf(value)], times);
  Add(count_, times);
  Add(sum_, value * times);
  if (value < min_.load(std::memory_order_relaxed)) min_.store(value, std::memory_order_relaxed);
  if (value > max_.load(std::memory_order_relaxed)) max_.store(value, std::memory_order_relaxed);
}

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_HISTOGRAM_H_
