// Removes the items of slots that a group does not own: slots that it gave, or had begun to take. Each removal is a
// record, so the group's backups also apply it.
//
// Thread safety: one thread at a time.
#ifndef FARLOOK_SERVER_REPLICATION_SLOT_CLEANER_H_
#define FARLOOK_SERVER_REPLICATION_SLOT_CLEANER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "kv/table/table.h"
#include "kv/wire/cluster_map.h"
#include "server/base/partition_locks.h"
#include "server/replication/commit_gate.h"

namespace farlook::server {

class SlotCleaner {
 public:
  // REQUIRES that requests for keys in `slots` are refused. All arguments outlive it.
  SlotCleaner(const kv::Table* table, PartitionLocks* locks, CommitGate* gate, const kv::SlotSet& slots)
      : table_(table), locks_(locks), gate_(gate), slots_(slots) {}

  enum class Progress {
    kMore,
    kWaits,  // until writes in these slots end, or the stream or the gate has room
    kDone,   // all items are erased, or their erasure has begun: any later write of a key comes after it
  };
  // Visits about `buckets` buckets of the index.
  Progress Step(size_t buckets);

  const kv::SlotSet& slots() const { return slots_; }

 private:
  struct Owed {
    uint64_t hash;
    std::string key;
  };

  const kv::Table* const table_;
  PartitionLocks* const locks_;
  CommitGate* const gate_;
  const kv::SlotSet slots_;
  bool is_begun_ = false;
  int partition_ = 0;
  kv::WalkPlace place_;
  std::deque<Owed> owed_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_SLOT_CLEANER_H_
