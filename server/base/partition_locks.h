// The locks under which kv::Table is called: one for each partition.
#ifndef FARLOOK_SERVER_BASE_PARTITION_LOCKS_H_
#define FARLOOK_SERVER_BASE_PARTITION_LOCKS_H_

#include "absl/base/thread_annotations.h"
#include "kv/heap/partition_locks.h"
#include "kv/table/table.h"

namespace farlook::server {

// Thread safety: any thread.
class PartitionLocks {
 public:
  // `table` must outlive this.
  explicit PartitionLocks(const kv::Table* table) : table_(table) {}

  // Returns the lock for calls with this hash.
  kv::PartitionLock* of(uint64_t hash) { return table_->locks()->of(table_->PartitionOf(hash)); }
  // Returns the lock of a partition.
  kv::PartitionLock* at(int partition) { return table_->locks()->of(partition); }

 private:
  const kv::Table* const table_;
};

// Holds one lock at a time, for a caller with many calls that mostly belong to one partition. The last lock stays held
// until another is taken, or until Release(), which a caller that waits for room uses between two calls. Thread safety:
// none.
class HeldLock {
 public:
  HeldLock() = default;
  ~HeldLock() { Release(); }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

  void Take(kv::PartitionLock* lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (lock == held_) return;
    Release();
    lock->Lock();
    held_ = lock;
  }
  void Release() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (held_ != nullptr) held_->Unlock();
    held_ = nullptr;
  }

 private:
  kv::PartitionLock* held_ = nullptr;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BASE_PARTITION_LOCKS_H_
