// Deadlines of operations. The client reads the clock for an operation that may have to wait, and for one that is sent
// to the server, since the request carries the deadline. A get that ends at once needs none.
#ifndef FARLOOK_CLIENT_OP_TIMEOUTS_H_
#define FARLOOK_CLIENT_OP_TIMEOUTS_H_

#include <algorithm>
#include <cstdint>

#include "client/op/deadlines.h"
#include "client/op/last_time.h"
#include "client/op/operation.h"

namespace farlook::client {

// Thread safety: one thread. The clock outlives it.
class Timeouts {
 public:
  // Marks an operation without a deadline.
  static constexpr int64_t kNever = Deadlines::kNever;

  // More than 30 years; such a deadline does not overflow in this century.
  static constexpr int64_t kMaxTimeoutMs = int64_t{1} << 40;

  // `timeout_ms` applies to operations without their own.
  Timeouts(LastTime* time, int64_t timeout_ms) : time_(time), timeout_ms_(timeout_ms) {}

  // Returns the deadline of an operation that begins at `now_ns`; a negative timeout means `now_ns`.
  int64_t At(int64_t now_ns, int64_t timeout_ms) const {
    if (timeout_ms == 0) timeout_ms = timeout_ms_;
    return now_ns + std::clamp<int64_t>(timeout_ms, 0, kMaxTimeoutMs) * 1'000'000;
  }
  // Sets the deadline of an operation that has none; kNever leaves it so.
  void Set(Operation* operation, int64_t deadline_ns) {
    operation->deadline_ns = deadline_ns;
    if (deadline_ns != kNever) deadlines_.Add(operation);
  }
  // Sets the deadline of an operation that begins now, unless it has one already.
  void Begin(Operation* operation) {
    if (operation->deadline_ns == kNever) Set(operation, At(time_->NowNs(), operation->timeout_ms));
  }

  // Deadlines of operations that have begun and not ended.
  Deadlines& deadlines() { return deadlines_; }

 private:
  LastTime* const time_;
  const int64_t timeout_ms_;
  Deadlines deadlines_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_TIMEOUTS_H_
