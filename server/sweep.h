// Giving back what has expired: a worker's share of it.
//
// Where something is due the table knows (kv/expiry.h). Each worker that carried out a write with a ttl looks when the
// first item of the table is due, wherever that is: so of every item some worker knows, and when that one has nothing
// else to do it sleeps until then. A partition that another worker has locked is left for later.
//
// Of a worker's time it takes at most a hundredth: after a step the next may come when 99 times as long has passed. A
// step looks at a few buckets under a lock, some 10 us, then at a few more, and ends within kStepNs.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_SWEEP_H_
#define FARLOOK_SERVER_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kv/table.h"
#include "server/lock_times.h"
#include "server/shared.h"

namespace farlook::server {

class Sweep {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kStepNs = 30'000;
  static constexpr int64_t kShare = 100;  // at most one part in so many of the worker's time
  static constexpr size_t kBucketsInOneHold = 8;
  static constexpr int kHolds = 4;                 // of a step
  static constexpr int64_t kLockedNs = 1'000'000;  // before another look at a partition that was locked

  // `times` outlives it; null: not noted.
  Sweep(const Shared& shared, LockTimes* times) : shared_(shared), times_(times) {}

  // A write with a ttl was carried out.
  void Noted() { noted_ = true; }
  // Whether Poll() may have something to do, now or at due_ns().
  bool wanted() const { return noted_ || due_ns_ != kNever; }
  int64_t due_ns() const { return due_ns_; }

  // Makes a step if one is due.
  void Poll(int64_t now_ns);

 private:
  void Step(int64_t now_ns);
  bool SweepPartition(int partition, kv::ExpiryIndex::Tick now, int64_t now_ns, bool* locked);
  int64_t TableDueNs() const;

  const Shared shared_;
  LockTimes* const times_;
  bool noted_ = false;
  int64_t due_ns_ = kNever;
  int64_t next_ns_ = 0;  // no step before
  int partition_ = 0;    // where the next step begins
  std::vector<kv::ExpiredCounter> counters_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SWEEP_H_
