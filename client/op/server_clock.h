// Estimates the server's clock from its messages. Deadlines of requests and expiries of items are times of that clock.
//
// The server wrote its time T into a reply to a request that was posted at the local time P. The reply arrived at L. So
// its clock showed at most T at P, and at least T at L. Between messages the two clocks drift apart, by at most one
// part in kDriftParts:
//
//     At(t) = [T + (t - L) - drift, T + (t - P) + drift]
//
// A new interval replaces the known one, unless the known one lies within it: a slow reply gives no new information. If
// the new interval does not contain the known one, it is the valid one; one of the clocks may have jumped.
//
// DeadlineAt() converts a deadline:
// * It is never early because of drift: the server refuses nothing before its deadline, except within the travel time
//   of the message with T (whose reply would have been too late).
// * It is late by at most twice the drift since the last message: 2 ms in a second.
#ifndef FARLOOK_CLIENT_OP_SERVER_CLOCK_H_
#define FARLOOK_CLIENT_OP_SERVER_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "client/op/last_time.h"
#include "kv/read/expiry_clock.h"

namespace farlook::client {

// Thread safety: one thread.
class ServerClock final : public kv::ReaderClock {
 public:
  // Clocks of computers drift by at most 244 parts in a million (NTP slews by 500 for a while): 1,000 are allowed for.
  static constexpr int64_t kDriftParts = 1000;  // one part in N
  // A newer time is not needed within this time.
  static constexpr int64_t kFreshNs = 1'000'000'000;

  explicit ServerClock(LastTime* time) : time_(time) {}

  // Sets whether the server is in a group. There an item expires when its primary has notified all members. The clock
  // alone never proves it, so a reader of an item that may have expired asks the server.
  void SetInGroup(bool in_group) { in_group_ = in_group; }

  // Drops all knowledge, since the server may be another one with another clock.
  void Forget() { time_us_ = 0; }

  // A message with this time was received at `now_ns`; it is a reply to a request that was posted at or after
  // `posted_ns`.
  void Update(uint64_t time_us, int64_t posted_ns, int64_t now_ns) {
    if (time_us_ != 0) {
      const Interval known = At(now_ns);
      const uint64_t most_us = time_us + Widened(now_ns - posted_ns);
      checked_ns_ = now_ns;
      if (known.lo >= time_us && known.hi <= most_us) return;
    }
    time_us_ = time_us;
    posted_ns_ = posted_ns;
    updated_ns_ = checked_ns_ = now_ns;
  }
  bool stale(int64_t now_ns) const { return now_ns - checked_ns_ >= kFreshNs; }

  // Returns the time on the server's clock now. Reads the local clock.
  Interval Now() override {
    Interval now{0, std::numeric_limits<uint64_t>::max()};
    if (time_us_ != 0) now = At(time_->NowNs());
    if (in_group_) [[unlikely]]
      now.lo = 0;
    return now;
  }

  // Returns the server's time at the local time `deadline_ns`, at least 1. Returns 0 (never) if `deadline_ns` is the
  // maximum or no time is known yet.
  uint64_t DeadlineAt(int64_t deadline_ns) const {
    if (time_us_ == 0 || deadline_ns == std::numeric_limits<int64_t>::max()) return 0;
    const uint64_t left_us = static_cast<uint64_t>(std::max<int64_t>(0, deadline_ns - updated_ns_)) / 1000;
    return time_us_ + left_us + left_us / kDriftParts;
  }

 private:
  // REQUIRES that a time is known, received at `now_ns` or before.
  Interval At(int64_t now_ns) const {
    const uint64_t since_us = static_cast<uint64_t>(std::max<int64_t>(0, now_ns - updated_ns_)) / 1000;
    return {time_us_ + since_us - (since_us + kDriftParts - 1) / kDriftParts, time_us_ + Widened(now_ns - posted_ns_)};
  }
  // Returns the maximum advance of the server's clock, in us, while this host's advances by `ns`. It adds one, since
  // the server's clock shows whole microseconds.
  static uint64_t Widened(int64_t ns) {
    const uint64_t us = static_cast<uint64_t>(std::max<int64_t>(0, ns) + 999) / 1000;
    return us + (us + kDriftParts - 1) / kDriftParts + 1;
  }

  LastTime* time_;
  bool in_group_ = false;
  uint64_t time_us_ = 0;  // 0: unknown
  int64_t posted_ns_ = 0;
  int64_t updated_ns_ = 0;
  int64_t checked_ns_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_SERVER_CLOCK_H_
