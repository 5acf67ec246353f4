// The locks under which kv::Table is called: one for each partition.
#ifndef FARLOOK_SERVER_PARTITION_LOCKS_H_
#define FARLOOK_SERVER_PARTITION_LOCKS_H_

#include <memory>

#include "absl/synchronization/mutex.h"
#include "kv/table.h"

namespace farlook::server {

// Thread safety: any thread.
class PartitionLocks {
 public:
  explicit PartitionLocks(const kv::Table* table)
      : table_(table), locks_(std::make_unique<Padded[]>(static_cast<size_t>(table->partitions()))) {}

  // The lock for calls with this hash.
  absl::Mutex* of(uint64_t hash) { return &locks_[static_cast<size_t>(table_->PartitionOf(hash))].mutex; }
  // That of a partition.
  absl::Mutex* at(int partition) { return &locks_[static_cast<size_t>(partition)].mutex; }

 private:
  struct alignas(kv::kLineBytes) Padded {
    absl::Mutex mutex;
  };

  const kv::Table* const table_;
  const std::unique_ptr<Padded[]> locks_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_PARTITION_LOCKS_H_
