// Housekeeping of the index after the last write.
//
// Each write also tidies the index (kv/index/index.h). After the last write, segments are left in quarantine, others
// are to be merged or moved, and units to be freed. So each worker that executed writes goes on when it has nothing
// else to do, from partition to partition. It sleeps when no partition has anything to do or to wait for.
//
// If there is only something to wait for, it looks again after kFirstWaitNs, and after twice as long each time. So work
// that is impossible because memory is full costs one look a second.
#ifndef FARLOOK_SERVER_EXECUTOR_TIDY_H_
#define FARLOOK_SERVER_EXECUTOR_TIDY_H_

#include <cstdint>

#include "server/base/lock_times.h"
#include "server/executor/chore.h"
#include "server/executor/shared.h"

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
  // State of the current round over all partitions:
  int looked_ = 0;
  bool did_ = false, waits_ = false;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_EXECUTOR_TIDY_H_
