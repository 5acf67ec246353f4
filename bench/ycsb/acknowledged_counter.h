// Numbers of the records that a run inserts, and up to which of them all are in the store.
//
// Readers must not ask for a record whose insert is still under way. YCSB therefore hands out numbers in order, lets
// inserts end in any order, and publishes the highest number below which none is missing.
#ifndef FARLOOK_BENCH_YCSB_ACKNOWLEDGED_COUNTER_H_
#define FARLOOK_BENCH_YCSB_ACKNOWLEDGED_COUNTER_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farlook::bench {

// As site.ycsb.generator.AcknowledgedCounterGenerator, but that Acknowledge waits for its lock instead of leaving the
// work to the next caller: YCSB's last acknowledgements can stay unpublished for ever.
//
// Thread safety: all methods, from any thread.
// Ordering: last() acquires what Acknowledge() released, so an insert seen as acknowledged happened before.
class AcknowledgedCounter {
 public:
  // Numbers handed out and not yet acknowledged must stay below this.
  static constexpr int64_t kWindow = int64_t{1} << 20;

  explicit AcknowledgedCounter(int64_t first);

  int64_t Next() { return next_.fetch_add(1, std::memory_order_relaxed); }

  // Returns false, and changes nothing, when `number` is kWindow or more above last(): too many are outstanding.
  // REQUIRES: `number` came from Next() and was not acknowledged before.
  bool Acknowledge(int64_t number);

  // The highest number such that it and all before are acknowledged; first - 1 at the beginning.
  int64_t last() const { return last_.load(std::memory_order_acquire); }

 private:
  std::atomic<int64_t> next_;
  std::atomic<int64_t> last_;
  absl::Mutex mutex_;
  std::vector<bool> acknowledged_ ABSL_GUARDED_BY(mutex_);  // number % kWindow
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_ACKNOWLEDGED_COUNTER_H_
