// The locks under which kv::Table is called: one for each partition.
#ifndef FARLOOK_KV_HEAP_PARTITION_LOCKS_H_
#define FARLOOK_KV_HEAP_PARTITION_LOCKS_H_

#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "kv/layout/limits.h"

namespace farlook::kv {

// A mutex of one word. Every write takes it, mostly without contention: then locking is one instruction here, and
// unlocking another, where absl::Mutex takes some sixty.
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
  enum : int { kFree, kHeld, kAwaited };  // kAwaited: held, and a thread may be sleeping until it is free

  bool Take() {
    int free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  // A thread that slept does not know whether others still sleep, so it marks the lock as awaited.
  [[gnu::noinline]] void Await() {
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
      state_.wait(kAwaited, std::memory_order_relaxed);
    }
  }

  std::atomic<int> state_{kFree};
};

// Holds a lock for its lifetime.
class ABSL_SCOPED_LOCKABLE LockedPartition {
 public:
  explicit LockedPartition(PartitionLock* lock) ABSL_EXCLUSIVE_LOCK_FUNCTION(lock) : lock_(lock) { lock_->Lock(); }
  ~LockedPartition() ABSL_UNLOCK_FUNCTION() { lock_->Unlock(); }
  LockedPartition(const LockedPartition&) = delete;
  LockedPartition& operator=(const LockedPartition&) = delete;

 private:
  PartitionLock* const lock_;
};

// A thread that holds one of these locks takes another only by TryLock, so there is no deadlock.
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

// Tries to take the lock of another partition; null: no lock is needed.
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

#endif  // FARLOOK_KV_HEAP_PARTITION_LOCKS_H_
