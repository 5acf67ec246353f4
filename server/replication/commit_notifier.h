// Wakes a group's workers when records are appended or committed. It stands below the stream and the commit gate: both
// notify, and neither calls the other for that.
//
// Thread safety: any thread, except AddWorker().
// Ordering: a notifier makes its change, by a sequentially consistent store, before it notifies; Sleeper pairs with
// that.
#ifndef FARLOOK_SERVER_REPLICATION_COMMIT_NOTIFIER_H_
#define FARLOOK_SERVER_REPLICATION_COMMIT_NOTIFIER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "server/base/sleeper.h"

namespace farlook::server {

// Lies in cache lines of its own: workers that poll read them again and again.
class alignas(64) CommitNotifier {
 public:
  // `wake` is called, by any thread, when turn() or records() has changed and the worker has said that it sleeps until
  // then. REQUIRES that no other thread uses this yet.
  Sleeper* AddWorker(std::function<void()> wake) { return &sleepers_.emplace_back(std::move(wake)); }

  // Changes when more is committed, the stream has room again, a key is free, or slots have changed.
  uint64_t turn() const { return turn_.load(std::memory_order_seq_cst); }
  void NotifyTurn() {
    turn_.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t why = Sleeper::kCommit | (has_errands() ? Sleeper::kErrand : 0);
    for (Sleeper& sleeper : sleepers_) sleeper.Wake(why);
  }

  // Changes when there is something to send to followers.
  uint64_t records() const { return records_.load(std::memory_order_seq_cst); }
  void NotifyRecord() {
    records_.fetch_add(1, std::memory_order_seq_cst);
    for (Sleeper& sleeper : sleepers_) sleeper.Wake(Sleeper::kRecord);
  }

  // The gate has writes that any worker may end: NotifyTurn() wakes one for them.
  void SetErrands() { has_errands_.store(true, std::memory_order_seq_cst); }
  void ClearErrands() { has_errands_.store(false, std::memory_order_relaxed); }
  bool has_errands() const { return has_errands_.load(std::memory_order_seq_cst); }

 private:
  std::atomic<uint64_t> turn_{1}, records_{1};
  std::atomic<bool> has_errands_{false};
  std::deque<Sleeper> sleepers_;  // of all workers
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_COMMIT_NOTIFIER_H_
