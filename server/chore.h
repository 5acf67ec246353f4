// A worker's share of the table's housekeeping: writes give rise to it, and when the worker has nothing else to do it
// is done in steps, from partition to partition.
//
// A partition that another worker has locked is left for later. After a step the next may come when kShare - 1 times as
// long has passed, so that it takes at most one part in kShare of the worker's time; each chore has its own. (The sweep
// pauses after several steps together, sweep.h.)
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_CHORE_H_
#define FARLOOK_SERVER_CHORE_H_

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "server/lock_times.h"
#include "server/shared.h"

namespace farlook::server {

class Chore {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // A write was carried out after which there may be something to do.
  void Noted() { noted_ = true; }
  // Whether there may be something to do, now or at due_ns().
  bool wanted() const { return noted_ || due_ns_ != kNever; }
  int64_t due_ns() const { return due_ns_; }

 protected:
  // `times` outlives it; null: not noted.
  Chore(const Shared& shared, LockTimes* times) : shared_(shared), times_(times) {}
  ~Chore() = default;

  const Shared& shared() const { return shared_; }
  // Whether Noted() was called since this was last asked.
  bool TakeNote() { return std::exchange(noted_, false); }
  void set_due_ns(int64_t due_ns) { due_ns_ = due_ns; }

  // Whose turn it is.
  int partition() const { return partition_; }
  void NextPartition() { partition_ = (partition_ + 1) % shared_.table->partitions(); }
  // Calls work() under that one's lock. False: another thread has it, and nothing was done.
  template <typename Work>
  bool TryLocked(Work work) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    kv::PartitionLock* const mutex = shared_.locks->at(partition_);
    if (!mutex->TryLock()) return false;
    const uint64_t start = Ticks();
    work();
    const uint64_t end = Ticks();
    mutex->Unlock();
    if (times_ != nullptr) times_->Add(start, end);
    return true;
  }

 private:
  const Shared shared_;
  LockTimes* const times_;
  bool noted_ = false;
  int64_t due_ns_ = kNever;
  int partition_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_CHORE_H_
