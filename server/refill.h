// Fills a joiner of a group while writes go on: copies of all items, in the stream that brings it the records of
// writes. Or a group that takes slots: copies of their items.
//
// A copy is appended under the lock of its key's partition, and says what is published. So what the stream says of a
// key before the copy is in it, and what it says later came later. A key whose write is under way
//   * and was appended when the joiner followed already: its record says all, no copy is needed;
//   * and was appended before: is copied when that write has come to its end.
//
// Such a key may be of an item that is not there yet, which a walk over items would not meet: those that are under way
// when the walk of their partition begins are owed.
//
// Before a partition's copies a record says which of its versions are used: of what was deleted before there is no item
// that would, and whoever becomes primary must not use them for other writes.
//
// Thread safety: one thread at a time.
#ifndef FARLOOK_SERVER_REFILL_H_
#define FARLOOK_SERVER_REFILL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "cluster/record.h"
#include "kv/cluster_map.h"
#include "kv/table.h"
#include "server/commit_gate.h"
#include "server/partition_locks.h"

namespace farlook::server {

class Refill {
 public:
  // Of a joiner that follows the stream from the record after `from` on; `slots`: those whose items it wants, null:
  // all. All outlive it.
  Refill(const kv::Table* table, PartitionLocks* locks, CommitGate* gate, uint64_t from,
         const kv::SlotSet* slots = nullptr)
      : table_(table), locks_(locks), gate_(gate), from_(from), slots_(slots) {}

  enum class Progress {
    kMore,
    kWaits,  // for the stream to have room, or for writes that are under way: there is more when turn() has changed
    kDone,   // the joiner has all items when it has accepted the records up to last()
  };
  // Copies what some `buckets` buckets of the index hold.
  Progress Step(size_t buckets);

  bool is_done() const { return partition_ == table_->partitions() && owed_.empty(); }
  uint64_t last() const { return last_; }
  uint64_t copies() const { return copies_; }

 private:
  // Others wait for the lock of the partition meanwhile, for as long as their items take to copy.
  static constexpr size_t kBucketsOfAHold = 4;
  // Copies are appended together until they are so long: as much as is sent at once.
  static constexpr size_t kBytesTogether = 64 << 10;

  void Add(const kv::ItemView& item);
  void AppendCopies();
  bool PayOwed();
  bool WalkOn();  // a few buckets
  bool IsWanted(uint64_t hash) const { return slots_ == nullptr || (*slots_)[kv::ClusterSlotOf(hash)]; }

  const kv::Table* const table_;
  PartitionLocks* const locks_;
  CommitGate* const gate_;
  const uint64_t from_;
  const kv::SlotSet* const slots_;
  int partition_ = 0;
  bool is_begun_ = false;  // this partition
  kv::WalkPlace place_;
  std::deque<std::string> owed_;          // keys that could not be copied when they were met
  std::vector<cluster::Record> copying_;  // what is appended next, under the lock that is held
  size_t copying_bytes_ = 0;
  uint64_t last_ = 0;
  uint64_t copies_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REFILL_H_
