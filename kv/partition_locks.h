// The locks under which kv::Table is called: one for each partition.
#ifndef FARLOOK_KV_PARTITION_LOCKS_H_
#define FARLOOK_KV_PARTITION_LOCKS_H_

#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "kv/limits.h"

namespace farlook::kv {

// A mutex of one word. Every write takes it, mostly when nobody else wants it: then that is one instruction here, and
// one to let it go, where absl::Mutex takes some sixty.
//
// Thread safety: any thread. Ordering: in Lock() and TryLock() the acquire pairs with the release in Unlock().
class ABSL_LOCKABLE PartitionLock {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (!Take()) [[unlikely]]
      Await();
  }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return Take(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      state_.notify_one();
  }

 private:
  enum : int { kFree, kHeld, kAwaited };  // the last: held, and somebody may sleep until it is not

  bool Take() {
    int free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  // Whoever slept does not know whether others do: so it says that they may.
  [[gnu::noinline]] void Await() {
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
      state_.wait(kAwaited, std::memory_order_relaxed);
    }
  }

  std::atomic<int> state_{kFree};
};

// Holds one as long as it lives.
class ABSL_SCOPED_LOCKABLE LockedPartition {
 public:
  explicit LockedPartition(PartitionLock* lock) ABSL_EXCLUSIVE_LOCK_FUNCTION(lock) : lock_(lock) { lock_->Lock(); }
  ~LockedPartition() ABSL_UNLOCK_FUNCTION() { lock_->Unlock(); }
  LockedPartition(const LockedPartition&) = delete;
  LockedPartition& operator=(const LockedPartition&) = delete;

 private:
  PartitionLock* const lock_;
};

// Who holds one of them gets another only by TryLock, so nobody waits in a circle.
//
// Thread safety: any thread.
class PartitionLocks {
 public:
  explicit PartitionLocks(int partitions) : locks_(std::make_unique<Padded[]>(static_cast<size_t>(partitions))) {}

  PartitionLock* of(int partition) { return &locks_[static_cast<size_t>(partition)].lock; }

 private:
  struct alignas(kLineBytes) Padded {
    PartitionLock lock;
  };

  const std::unique_ptr<Padded[]> locks_;
};

// The lock of another partition, if it can be had at once; null: none is needed.
class OthersLock {
 public:
  explicit OthersLock(PartitionLock* lock) ABSL_NO_THREAD_SAFETY_ANALYSIS : lock_(lock),
                                                                            held_(lock == nullptr || lock->TryLock()) {}
  ~OthersLock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (lock_ != nullptr && held_) lock_->Unlock();
  }
  OthersLock(const OthersLock&) = delete;
  OthersLock& operator=(const OthersLock&) = delete;

  bool held() const { return held_; }

 private:
  PartitionLock* const lock_;
  const bool held_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_PARTITION_LOCKS_H_
