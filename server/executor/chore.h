// A worker's share of the table's housekeeping. Writes cause it. The worker does it in steps, from partition to
// partition, when it has nothing else to do.
//
// A partition that another worker has locked is left for later. After a step that took t, the next one is due after
// (kShare - 1) * t, so a chore takes at most 1/kShare of the worker's time. Each chore has its own share. (The sweep
// pauses after several steps together, see sweep.h.)
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_EXECUTOR_CHORE_H_
#define FARLOOK_SERVER_EXECUTOR_CHORE_H_

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "server/base/lock_times.h"
#include "server/executor/shared.h"

namespace farlook::server {

class Chore {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // Notes a write that may have caused work.
  void Noted() { noted_ = true; }
  // Returns whether there may be work, now or at due_ns().
  bool wanted() const { return noted_ || due_ns_ != kNever; }
  int64_t due_ns() const { return due_ns_; }

 protected:
  // `times` outlives this; null: lock times are not recorded.
  Chore(const Shared& shared, LockTimes* times) : shared_(shared), times_(times) {}
  ~Chore() = default;

  const Shared& shared() const { return shared_; }
  // Returns whether Noted() was called since the last TakeNote().
  bool TakeNote() { return std::exchange(noted_, false); }
  void set_due_ns(int64_t due_ns) { due_ns_ = due_ns; }

  // The partition of the next step.
  int partition() const { return partition_; }
  void NextPartition() { partition_ = (partition_ + 1) % shared_.table->partitions(); }
  // Calls work() with partition() locked. Returns false, without calling it, if another thread holds the lock.
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

#endif  // FARLOOK_SERVER_EXECUTOR_CHORE_H_
