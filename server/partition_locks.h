// The locks under which kv::Table is called: one for each partition.
#ifndef FARLOOK_SERVER_PARTITION_LOCKS_H_
#define FARLOOK_SERVER_PARTITION_LOCKS_H_

#include "absl/synchronization/mutex.h"
#include "kv/partition_locks.h"
#include "kv/table.h"

namespace farlook::server {

// Thread safety: any thread.
class PartitionLocks {
 public:
  // The table outlives it.
  explicit PartitionLocks(const kv::Table* table) : table_(table) {}

  // The lock for calls with this hash.
  absl::Mutex* of(uint64_t hash) { return table_->locks()->of(table_->PartitionOf(hash)); }
  // That of a partition.
  absl::Mutex* at(int partition) { return table_->locks()->of(partition); }

 private:
  const kv::Table* const table_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_PARTITION_LOCKS_H_
