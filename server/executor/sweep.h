// Frees the memory of expired items.
//
// The table knows which buckets have expiring items (kv/expiry/expiry.h). Each worker that executed a write with a ttl
// looks when the first item of the table is due, in whichever partition. So some worker knows of every item, and sleeps
// until then when it has nothing else to do. A worker that is too busy to catch up wakes the others, which help when
// they are idle.
//
// A step looks at a few buckets under a lock, some 10 us, then at a few more, and ends within kStepNs. The worker
// handles messages between steps. An idle worker makes no pause. A busy one makes steps until they took kBurstNs. It
// then pauses until they were 1/kBusyShare of the time; 1/kLateShare if it is late by kLateNs, or writes wait for room.
// A pause after each step would wake the worker a hundred times more often, which costs as much as the steps.
//
// A write that finds no room waits until all items are removed that had expired when it arrived. For this the current
// tick is swept, too.
//
// The clock continues while the worker does not run. A step that took longer than any can was interrupted, and counts
// at most as the longest. Otherwise a machine that was suspended for an eighth of a second would sweep nothing for
// twelve.
#ifndef FARLOOK_SERVER_EXECUTOR_SWEEP_H_
#define FARLOOK_SERVER_EXECUTOR_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/expiry/expiry.h"
#include "kv/table/table.h"
#include "server/base/lock_times.h"
#include "server/executor/chore.h"
#include "server/executor/shared.h"

namespace farlook::server {

class Sweep final : public Chore {
 public:
  static constexpr int64_t kStepNs = 30'000;
  static constexpr int64_t kBurstNs = 1'000'000;
  // The sweep takes one of this many parts of a worker's time.
  static constexpr int64_t kIdleShare = 1, kLateShare = 2, kBusyShare = 100;
  static constexpr int64_t kLateNs = 500'000'000;     // after the tick in which something expired
  static constexpr int64_t kMostOfAStepNs = 300'000;  // some holds of 50 us, and the time between them
  static constexpr size_t kBucketsInOneHold = 8;
  static constexpr int kHolds = 4;               // of a step
  static constexpr int64_t kLockedNs = 100'000;  // pause after a step that could do nothing

  Sweep(const Shared& shared, LockTimes* times) : Chore(shared, times) {}

  // Makes a step if one is due. Returns whether it did. `idle`: the worker has nothing else to do.
  bool Poll(int64_t now_ns, bool idle);

  // Notes that a write that arrived at `now_ns`, or earlier, waits for room.
  void WantRoom(int64_t now_ns) {
    wanted_us_ = shared().time.At(now_ns);
    Noted();
  }
  // Returns whether no item that had expired by then occupies memory any more.
  static bool IsDone(const kv::Table& table, const CommitGate* gate, uint64_t time_us) {
    return table.Swept(time_us) && (gate == nullptr || !gate->has_errands());
  }
  bool IsDone(int64_t time_ns) const {
    return left_.empty() && IsDone(*shared().table, shared().gate, shared().time.At(time_ns));
  }

  // Returns whether a tick in which an item expired has ended.
  bool IsLate(int64_t now_ns) const { return TableDueNs() <= now_ns; }

 private:
  void Step(int64_t now_ns);
  bool SweepPartition(bool to_now, int64_t now_ns, bool* locked);
  bool HandOver(int64_t now_ns);
  int64_t TableDueNs() const;

  uint64_t wanted_us_ = 0;             // a write waits for the removal of items that had expired by then
  int64_t since_ns_ = 0;               // start of the burst
  int64_t spent_ns_ = 0;               // duration of the steps since then
  std::vector<kv::ExpiredItem> left_;  // to be handed to the group's gate or the counters, which remove them
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_EXECUTOR_SWEEP_H_
