// The places that a server has for clients (--max_clients), of all its workers together.
//
//     Take -> Give              of a connection: until nothing of it is left
//     Take -> Vacate -> Gone    of one that leaves something behind (counter_links.h), and its place to others before
//     TakeAsOperator -> GiveAsOperator
//
// Invariant: those who have a place and those who have vacated one are at most twice max(), and so are the clients that
// may have atomics under way: kv/counter_value.h relies on it. Operators' have none.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_PLACES_H_
#define FARLOOK_SERVER_PLACES_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farlook::server {

class Places {
 public:
  // Beside the others, so that whoever takes all of those does not keep out who could mend it.
  static constexpr int64_t kForOperators = 2;

  explicit Places(int64_t max) : max_(max) {}
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  int64_t max() const { return max_; }
  int64_t taken() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return taken_;
  }

  // False: there is none. `returns`: it comes in place of a connection that has one still, and is let in beyond max().
  bool Take(bool returns) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (taken_ >= max_ && !(returns && taken_ + vacated_ < 2 * max_)) return false;
    ++taken_;
    return true;
  }
  void Give() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --taken_;
  }

  // Gives a place to others while something of its connection is left. False: of max() connections that is so already.
  bool Vacate() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (vacated_ >= max_) return false;
    --taken_;
    ++vacated_;
    return true;
  }
  // Nothing is left of one that had vacated its place.
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
  mutable absl::Mutex mutex_;
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t vacated_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t operators_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_PLACES_H_
