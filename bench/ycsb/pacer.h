// The schedule of a thread's operations under -target.
#ifndef FARLOOK_BENCH_YCSB_PACER_H_
#define FARLOOK_BENCH_YCSB_PACER_H_

#include <atomic>
#include <cstdint>

#include "bench/common/random.h"

namespace farlook::bench {

// Operation n of a thread is due at start + n * tick, however long the earlier ones took. Otherwise a driver that waits
// for a stalled store would hide the stall ("coordinated omission"). Without a target everything is due now.
//
// Thread safety: belongs to one thread.
class Pacer {
 public:
  // Operations per second of this thread, or 0 for as fast as possible. Waiting ends early once *stop is true.
  Pacer(double operations_per_s, const std::atomic<bool>* stop);

  bool active() const { return tick_ns_ > 0; }

  // Begins the schedule, after a random part of a tick so that threads are not synchronized (as YCSB does, at rates of
  // at most 1,000 per second).
  void Start(Random* random);

  // The time when the next operation is due; 0 without a target. Does not wait.
  int64_t NextDue();

  // Waits until `due_ns`.
  void WaitUntil(int64_t due_ns) const;

 private:
  int64_t tick_ns_;
  const std::atomic<bool>* stop_;
  int64_t start_ns_ = 0;
  int64_t next_ = 0;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_PACER_H_
