// The locks under which kv::Table is called: one for each partition.
#ifndef FARLOOK_KV_PARTITION_LOCKS_H_
#define FARLOOK_KV_PARTITION_LOCKS_H_

#include <cstddef>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kv/limits.h"

namespace farlook::kv {

// Who holds one of them gets another only by TryLock, so nobody waits in a circle.
//
// Thread safety: any thread.
class PartitionLocks {
 public:
  explicit PartitionLocks(int partitions) : locks_(std::make_unique<Padded[]>(static_cast<size_t>(partitions))) {}

  absl::Mutex* of(int partition) { return &locks_[static_cast<size_t>(partition)].mutex; }

 private:
  struct alignas(kLineBytes) Padded {
    absl::Mutex mutex;
  };

  const std::unique_ptr<Padded[]> locks_;
};

// The lock of another partition, if it can be had at once; null: none is needed.
class OthersLock {
 public:
  explicit OthersLock(absl::Mutex* mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS : mutex_(mutex),
                                                                           held_(mutex == nullptr || mutex->TryLock()) {
  }
  ~OthersLock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (mutex_ != nullptr && held_) mutex_->Unlock();
  }
  OthersLock(const OthersLock&) = delete;
  OthersLock& operator=(const OthersLock&) = delete;

  bool held() const { return held_; }

 private:
  absl::Mutex* const mutex_;
  const bool held_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_PARTITION_LOCKS_H_
