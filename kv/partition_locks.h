// The locks under which kv::Table is called: one for each partition.
#ifndef FARLOOK_KV_PARTITION_LOCKS_H_
#define FARLOOK_KV_PARTITION_LOCKS_H_

#include <cstddef>
#include <memory>

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

}  // namespace farlook::kv

#endif  // FARLOOK_KV_PARTITION_LOCKS_H_
