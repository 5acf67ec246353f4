// The index's housekeeping where nobody writes.
//
// Writes tidy the index as they come (kv/index.h). After the last of them there are segments in quarantine, others to
// be merged or moved, and units to leave. So each worker that carried out writes goes on when it has nothing else to
// do, from partition to partition, until no partition has anything to do or to wait for; then it sleeps.
//
// Where there is only something to wait for it looks again after kFirstWaitNs, and after twice as long each time: what
// cannot be done, since memory is full, costs a look a second.
#ifndef FARLOOK_SERVER_TIDY_H_
#define FARLOOK_SERVER_TIDY_H_

#include <cstdint>

#include "server/chore.h"
#include "server/lock_times.h"
#include "server/shared.h"

namespace farlook::server {

class Tidy final : public Chore {
 public:
  static constexpr int64_t kStepNs = 100'000;
  static constexpr int64_t kShare = 10;
  static constexpr int64_t kFirstWaitNs = 10'000'000, kLongestWaitNs = 1'000'000'000;

  Tidy(const Shared& shared, LockTimes* times) : Chore(shared, times) {}

  // Makes a step if one is due.
  void Poll(int64_t now_ns);

 private:
  void Step(int64_t now_ns);
  void EndRound(int64_t now_ns);

  int64_t wait_ns_ = kFirstWaitNs;
  // Of the round over all partitions that is under way:
  int looked_ = 0;
  bool did_ = false, waits_ = false;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_TIDY_H_
