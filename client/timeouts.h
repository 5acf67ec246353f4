// When operations must end. The client reads the clock for an operation that may have to wait, and for one that it
// sends to the server, whose request bears the deadline. A get that is done at once needs none.
#ifndef FARLOOK_CLIENT_TIMEOUTS_H_
#define FARLOOK_CLIENT_TIMEOUTS_H_

#include <algorithm>
#include <cstdint>

#include "client/deadlines.h"
#include "client/last_time.h"
#include "client/operation.h"

namespace farlook::client {

// Thread safety: one thread. The clock outlives it.
class Timeouts {
 public:
  // Of an operation that has no deadline yet.
  static constexpr int64_t kNever = Deadlines::kNever;

  // 30 years and more; such a deadline is no overflow in this century.
  static constexpr int64_t kMaxTimeoutMs = int64_t{1} << 40;

  // `timeout_ms` is for operations that give none of their own.
  Timeouts(LastTime* time, int64_t timeout_ms) : time_(time), timeout_ms_(timeout_ms) {}

  // When an operation ends that begins at `now_ns`.
  int64_t At(int64_t now_ns, int64_t timeout_ms) const {
    if (timeout_ms <= 0) timeout_ms = timeout_ms_;
    return now_ns + std::clamp<int64_t>(timeout_ms, 0, kMaxTimeoutMs) * 1'000'000;
  }
  // Of an operation that has none yet; kNever leaves it so.
  void Set(Operation* operation, int64_t deadline_ns) {
    operation->deadline_ns = deadline_ns;
    if (deadline_ns != kNever) deadlines_.Add(operation);
  }
  // The operation begins now, unless it has a deadline already.
  void Begin(Operation* operation) {
    if (operation->deadline_ns == kNever) Set(operation, At(time_->NowNs(), operation->timeout_ms));
  }

  // Of those that have begun and not ended.
  Deadlines& deadlines() { return deadlines_; }

 private:
  LastTime* const time_;
  const int64_t timeout_ms_;
  Deadlines deadlines_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_TIMEOUTS_H_
