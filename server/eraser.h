// Removes the items of slots that a group does not have: what it gave, and what it had begun to take. Its backups hear
// of each.
//
// Thread safety: one thread at a time.
#ifndef FARLOOK_SERVER_ERASER_H_
#define FARLOOK_SERVER_ERASER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "kv/cluster_map.h"
#include "kv/table.h"
#include "server/commit_gate.h"
#include "server/partition_locks.h"

namespace farlook::server {

class Eraser {
 public:
  // Of these slots, of whose keys nobody asks for any. All that is given outlives it.
  Eraser(const kv::Table* table, PartitionLocks* locks, CommitGate* gate, const kv::SlotSet& slots)
      : table_(table), locks_(locks), gate_(gate), slots_(slots) {}

  enum class Progress {
    kMore,
    kWaits,  // for writes of these slots to end, or the stream, or the gate, to have room
    kDone,   // each is erased, or about to be: a write of its key that is begun now comes later
  };
  // Looks at some `buckets` buckets of the index.
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

#endif  // FARLOOK_SERVER_ERASER_H_
