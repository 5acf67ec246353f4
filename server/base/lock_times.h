// Histogram of how long a worker holds partitions' locks (`lock_` in kStat).
//
// A hold is measured by the processor's time stamp counter, read after the lock is taken and before it is released.
// Both reads together take some 10 ns, where the vdso's clock would take 50. The counter also includes time in which
// the thread was not running: sometimes milliseconds, on a machine with fewer processors than threads.
//
// So a long hold is compared with the processor time that the thread has used since its last sample, which was before
// the lock was taken. The smaller of the two is recorded; it is never less than the true time. The worker samples its
// processor time (a system call) after a batch of replies and while it polls without finding requests, at most once in
// kSampleNs.
#ifndef FARLOOK_SERVER_BASE_LOCK_TIMES_H_
#define FARLOOK_SERVER_BASE_LOCK_TIMES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "absl/base/thread_annotations.h"
#include "kv/heap/partition_locks.h"
#include "kv/wire/duration_buckets.h"

namespace farlook::server {

// Returns the time stamp counter, or nanoseconds where there is none.
inline uint64_t Ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
#endif
}
// Returns 2^32 times the nanoseconds of a tick. Measured at the first call, which takes 200 us.
uint64_t TickScale();

using kv::DurationBuckets;

// Thread safety: one thread adds, any thread reads.
class LockTimes {
 public:
  static constexpr uint64_t kSampleNs = 100'000;

  LockTimes() : scale_(TickScale()), sample_ticks_(((kSampleNs << 32) + scale_ - 1) / scale_) {}

  // Records a hold from `start` to `end`, which has just ended on this thread.
  void Add(uint64_t start, uint64_t end) {
    const uint64_t ticks = end - start;
    Note(ticks < sample_ticks_ ? ToNs(ticks) : LongNs(start, end));
  }

  // To be called between requests: samples the thread's processor time if the last sample is old.
  void Sample() {
    const uint64_t now = Ticks();
    if (now - sampled_ >= sample_ticks_) TakeSample(now);
  }

  void AddTo(DurationBuckets* buckets) const;
  uint64_t longest_ns() const { return longest_ns_.load(std::memory_order_relaxed); }

 private:
  void Note(uint64_t ns) {
    std::atomic<uint64_t>& count = counts_[DurationBuckets::BucketOf(ns)];
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (ns > longest_ns_.load(std::memory_order_relaxed)) longest_ns_.store(ns, std::memory_order_relaxed);
  }

  uint64_t ToNs(uint64_t ticks) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>(static_cast<Wide>(ticks) * scale_ >> 32);
  }
  uint64_t LongNs(uint64_t start, uint64_t end);
  void TakeSample(uint64_t now);

  const uint64_t scale_;
  const uint64_t sample_ticks_;  // the fewest that are kSampleNs
  uint64_t sampled_ = 0;         // ticks
  uint64_t processor_ns_ = 0;    // the thread's processor time then
  std::array<std::atomic<uint64_t>, DurationBuckets::kBuckets> counts_{};
  std::atomic<uint64_t> longest_ns_{0};
};

// Holds a lock during its lifetime, and records how long.
class ABSL_SCOPED_LOCKABLE TimedLock {
 public:
  // `times` belongs to the calling thread; null: the time is not recorded.
  TimedLock(kv::PartitionLock* lock, LockTimes* times) ABSL_EXCLUSIVE_LOCK_FUNCTION(lock) : lock_(lock), times_(times) {
    lock_->Lock();
    start_ = Ticks();
  }
  [[gnu::always_inline]] ~TimedLock() ABSL_UNLOCK_FUNCTION() {
    const uint64_t end = Ticks();
    lock_->Unlock();
    if (times_ != nullptr) times_->Add(start_, end);
  }
  TimedLock(const TimedLock&) = delete;
  TimedLock& operator=(const TimedLock&) = delete;

 private:
  kv::PartitionLock* const lock_;
  LockTimes* const times_;
  uint64_t start_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BASE_LOCK_TIMES_H_
