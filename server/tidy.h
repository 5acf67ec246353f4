// The index's housekeeping where nobody writes: a worker's share of it.
//
// Writes tidy the index as they come (kv/index.h). After the last of them there are segments in quarantine, others to
// be merged or moved, and units to leave. So each worker that carried out writes goes on when it has nothing else to
// do, from partition to partition, until no partition has anything to do or to wait for; then it sleeps.
//
// It takes at most a tenth of the worker's time. Where there is only something to wait for it looks again after
// kFirstWaitNs, and after twice as long each time: what cannot be done, since memory is full, costs a look a second.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_TIDY_H_
#define FARLOOK_SERVER_TIDY_H_

#include <cstdint>
#include <limits>

#include "kv/table.h"
#include "server/lock_times.h"
#include "server/shared.h"

namespace farlook::server {

class Tidy {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kStepNs = 100'000;
  static constexpr int64_t kShare = 10;  // at most one part in so many of the worker's time
  static constexpr int64_t kFirstWaitNs = 10'000'000, kLongestWaitNs = 1'000'000'000;

  // `times` outlives it; null: not noted.
  Tidy(const Shared& shared, LockTimes* times) : shared_(shared), times_(times) {}

  // A write was carried out.
  void Noted() { noted_ = true; }
  // Whether Poll() may have something to do, now or at due_ns().
  bool wanted() const { return noted_ || due_ns_ != kNever; }
  int64_t due_ns() const { return due_ns_; }

  // Makes a step if one is due.
  void Poll(int64_t now_ns);

 private:
  void Step(int64_t now_ns);

  const Shared shared_;
  LockTimes* const times_;
  bool noted_ = false;
  int64_t due_ns_ = kNever;
  int64_t wait_ns_ = kFirstWaitNs;
  int partition_ = 0;  // where the next step begins
  // Of the round over all partitions that is under way:
  int looked_ = 0;
  bool did_ = false, waits_ = false;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_TIDY_H_
