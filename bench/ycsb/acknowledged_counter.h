// The numbers of the records that a run inserts, and the number up to which all are in the store.
//
// Readers must not ask for a record whose insert is still in progress. YCSB therefore assigns numbers in order, lets
// inserts end in any order, and publishes the highest number below which none is missing.
#ifndef FARLOOK_BENCH_YCSB_ACKNOWLEDGED_COUNTER_H_
#define FARLOOK_BENCH_YCSB_ACKNOWLEDGED_COUNTER_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farlook::bench {

// Equal to site.ycsb.generator.AcknowledgedCounterGenerator, except that Acknowledge waits for its lock instead of
// leaving the work to the next caller: YCSB's last acknowledgements can stay unpublished for ever.
//
// Thread safety: all methods, from any thread. Ordering: last() acquires what Acknowledge() released, so an insert seen
// as acknowledged happened before.
class AcknowledgedCounter {
 public:
  // Assigned numbers that are not yet acknowledged must stay below this.
  static constexpr int64_t kWindow = int64_t{1} << 20;

  explicit AcknowledgedCounter(int64_t first);

  int64_t Next() { return next_.fetch_add(1, std::memory_order_relaxed); }

  // Returns false, and changes nothing, if `number` is kWindow or more above last(): too many are outstanding.
  // REQUIRES: `number` was returned by Next() and was not acknowledged before.
  bool Acknowledge(int64_t number);

  // The highest number such that it and all before are acknowledged; initially first - 1.
  int64_t last() const { return last_.load(std::memory_order_acquire); }

 private:
  std::atomic<int64_t> next_;
  std::atomic<int64_t> last_;
  absl::Mutex mutex_;
  std::vector<bool> acknowledged_ ABSL_GUARDED_BY(mutex_);  // by number % kWindow
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_ACKNOWLEDGED_COUNTER_H_
