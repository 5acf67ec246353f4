// Fills a joiner of a group while writes continue: puts copies of all items into the stream in which it receives the
// records of writes. For a group that takes slots it copies the items of these slots.
//
// A copy is appended under the lock of its key's partition, and contains the published item. So the copy includes all
// earlier records of the key, and later records follow it. If a write of the key is under way, there are two cases:
//   * Appended after the joiner began to follow, and not a touch: its record is complete, no copy is needed.
//   * Otherwise the key is owed: it is copied after that write has ended.
//
// Such a write may create an item that a walk over items does not meet yet. So writes under way are looked up when the
// walk of their partition begins, and new keys among them are owed.
//
// A record with the partition's newest version precedes its copies. Deleted items have no copy that contains their
// versions, but no later primary may use these again.
//
// Thread safety: one thread at a time.
#ifndef FARLOOK_SERVER_REPLICATION_SNAPSHOT_SENDER_H_
#define FARLOOK_SERVER_REPLICATION_SNAPSHOT_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "cluster/record.h"
#include "kv/table/table.h"
#include "kv/wire/cluster_map.h"
#include "server/base/partition_locks.h"
#include "server/replication/commit_gate.h"

namespace farlook::server {

class SnapshotSender {
 public:
  // Fills a joiner that receives the stream after record `from`. `slots`: copies only their items; null: all items. All
  // arguments outlive it.
  SnapshotSender(const kv::Table* table, PartitionLocks* locks, CommitGate* gate, uint64_t from,
                 const kv::SlotSet* slots = nullptr)
      : table_(table), locks_(locks), gate_(gate), from_(from), slots_(slots) {}

  enum class Progress {
    kMore,
    kWaits,  // until the stream has room, or writes under way end: continue when turn() has changed
    kDone,   // the joiner has all items when it has accepted the records up to last()
  };
  // Copies the items of about `buckets` buckets of the index.
  Progress Step(size_t buckets);

  bool is_done() const { return partition_ == table_->partitions() && owed_.empty(); }
  uint64_t last() const { return last_; }
  uint64_t copies() const { return copies_; }

 private:
  // Buckets for each acquisition of the partition's lock: other threads wait while their items are copied.
  static constexpr size_t kBucketsOfAHold = 4;
  // Size at which collected copies are appended: as much as is sent at once.
  static constexpr size_t kBytesTogether = 64 << 10;

  void Add(const kv::ItemView& item);
  void AppendCopies();
  bool PayOwed();
  bool WalkOn();
  bool IsWanted(uint64_t hash) const { return slots_ == nullptr || (*slots_)[kv::ClusterSlotOf(hash)]; }

  const kv::Table* const table_;
  PartitionLocks* const locks_;
  CommitGate* const gate_;
  const uint64_t from_;
  const kv::SlotSet* const slots_;
  int partition_ = 0;
  bool is_begun_ = false;  // BeginCopies() was called for this partition
  kv::WalkPlace place_;
  std::deque<std::string> owed_;          // keys that could not be copied when they were met
  std::vector<cluster::Record> copying_;  // copies to append under the lock that is held
  size_t copying_bytes_ = 0;
  uint64_t last_ = 0;
  uint64_t copies_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_SNAPSHOT_SENDER_H_
