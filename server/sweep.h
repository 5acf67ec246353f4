// Giving back what has expired.
//
// Where something is due the table knows (kv/expiry.h). Each worker that carried out a write with a ttl looks when the
// first item of the table is due, wherever that is: so of every item some worker knows, and when that one has nothing
// else to do it sleeps until then.
//
// A step looks at a few buckets under a lock, some 10 us, then at a few more, and ends within kStepNs. Steps follow
// each other, with the worker's messages between them, until they took kBurstNs; then none is made until all of them
// were a kShare of the time. A pause after each step would wake the worker a hundred times more often, which costs as
// much as the steps.
//
// Time is read from the clock, which goes on while the worker does not run. A step that took longer than any can was
// interrupted, and is not counted for more than the longest: else a machine that stood still for an eighth of a second
// would have nothing swept for twelve.
#ifndef FARLOOK_SERVER_SWEEP_H_
#define FARLOOK_SERVER_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/expiry.h"
#include "kv/table.h"
#include "server/chore.h"
#include "server/lock_times.h"
#include "server/shared.h"

namespace farlook::server {

class Sweep final : public Chore {
 public:
  static constexpr int64_t kStepNs = 30'000;
  static constexpr int64_t kBurstNs = 1'000'000;
  static constexpr int64_t kShare = 100;
  static constexpr int64_t kMostOfAStepNs = 300'000;  // some holds of 50 us, and what is between
  static constexpr size_t kBucketsInOneHold = 8;
  static constexpr int kHolds = 4;                 // of a step
  static constexpr int64_t kLockedNs = 1'000'000;  // before another look at a partition that was locked

  Sweep(const Shared& shared, LockTimes* times) : Chore(shared, times) {}

  // Makes a step if one is due. Whether it did.
  bool Poll(int64_t now_ns);

 private:
  void Step(int64_t now_ns);
  bool SweepPartition(kv::ExpiryIndex::Tick now, int64_t now_ns, bool* locked);
  int64_t TableDueNs() const;

  int64_t next_ns_ = 0;                // no step before
  int64_t since_ns_ = 0;               // steps since then
  int64_t spent_ns_ = 0;               // took so long
  std::vector<kv::ExpiredItem> left_;  // for who ends them: a group's gate, or counters
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SWEEP_H_
