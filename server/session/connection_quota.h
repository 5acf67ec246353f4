// The places that a server has for clients (--max_clients), shared by all its workers.
//
//     Take -> Give              of a connection: until nothing of it is left
//     Take -> Vacate -> Gone    of one that leaves something behind (counter_links.h): its place is reused before that
//     TakeAsOperator -> GiveAsOperator
//
// Invariant: connections that have a place and those that have vacated one are together at most twice max(). So are the
// clients that may have atomics under way: kv/layout/counter_value.h relies on it. Operators and probes have no place.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_SESSION_CONNECTION_QUOTA_H_
#define FARLOOK_SERVER_SESSION_CONNECTION_QUOTA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farlook::server {

// The kind of place that a connection takes.
enum class Place : uint8_t { kNone, kClient, kOperator, kProbe };

class ConnectionQuota {
 public:
  // Places reserved for operators, who must get in when clients use up all others.
  static constexpr int64_t kForOperators = 2;
  // Reserved places of each worker for clients that ask for an operator's place without the right to one: liveness
  // probes. Each makes room for the next (Worker::HasRoomForProbe()).
  static constexpr size_t kForProbes = 2;

  explicit ConnectionQuota(int64_t max) : max_(max) {}
  ConnectionQuota(const ConnectionQuota&) = delete;
  ConnectionQuota& operator=(const ConnectionQuota&) = delete;

  int64_t max() const { return max_; }
  // Most connections that are admitted: max(), or fewer if descriptors are short.
  int64_t limit() const { return limit_; }
  // REQUIRES that no other thread uses this yet.
  void Limit(int64_t most) { limit_ = std::clamp<int64_t>(most, 1, max_); }
  int64_t taken() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return taken_;
  }

  // Returns false if no place is free. `returns`: the connection replaces one that still has a place, and is admitted
  // beyond the limit.
  bool Take(bool returns) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const bool may_exceed = returns && taken_ < 2 * limit_ && taken_ + vacated_ < 2 * max_;
    if (taken_ >= limit_ && !may_exceed) return false;
    ++taken_;
    return true;
  }
  void Give() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --taken_;
  }

  // Gives a place to others while something of its connection is left. Returns false if max() connections have done so
  // already.
  bool Vacate() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (vacated_ >= max_) return false;
    --taken_;
    ++vacated_;
    return true;
  }
  // Nothing is left of a connection that had vacated its place.
  void Gone() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --vacated_;
  }

  bool TakeAsOperator() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (operators_ >= kForOperators) return false;
    ++operators_;
    return true;
  }
  void GiveAsOperator() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --operators_;
  }

 private:
  const int64_t max_;
  int64_t limit_ = max_;
  mutable absl::Mutex mutex_;
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t vacated_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t operators_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_CONNECTION_QUOTA_H_
