// When operations must end. The clock is read where an operation may have to wait, and before it is sent to the server,
// who is told; a get that is done at once needs no deadline.
#ifndef FARLOOK_CLIENT_TIMEOUTS_H_
#define FARLOOK_CLIENT_TIMEOUTS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "client/last_time.h"
#include "client/operation.h"

namespace farlook::client {

// Thread safety: one thread. The clock outlives it.
class Timeouts {
 public:
  // Of an operation that has no deadline yet.
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // 30 years and more; such a deadline is no overflow in this century.
  static constexpr int64_t kMaxTimeoutMs = int64_t{1} << 40;

  // `timeout_ms` is for operations that give none of their own.
  Timeouts(LastTime* time, int64_t timeout_ms) : time_(time), timeout_ms_(timeout_ms) {}

  // When an operation ends that begins at `now_ns`.
  int64_t At(int64_t now_ns, int64_t timeout_ms) const {
    if (timeout_ms <= 0) timeout_ms = timeout_ms_;
    return now_ns + std::clamp<int64_t>(timeout_ms, 0, kMaxTimeoutMs) * 1'000'000;
  }
  void Set(Operation* operation, int64_t deadline_ns) {
    operation->deadline_ns = deadline_ns;
    earliest_ns_ = std::min(earliest_ns_, deadline_ns);
  }
  // The operation begins now, unless it has a deadline already.
  void Begin(Operation* operation) {
    if (operation->deadline_ns == kNever) Set(operation, At(time_->NowNs(), operation->timeout_ms));
  }

  // An operation in flight has this deadline.
  void Note(int64_t deadline_ns) { earliest_ns_ = std::min(earliest_ns_, deadline_ns); }
  // No deadline of an operation in flight is earlier.
  int64_t earliest_ns() const { return earliest_ns_; }
  // After all of them were looked at.
  void SetEarliest(int64_t earliest_ns) { earliest_ns_ = earliest_ns; }

 private:
  LastTime* const time_;
  const int64_t timeout_ms_;
  int64_t earliest_ns_ = kNever;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_TIMEOUTS_H_
