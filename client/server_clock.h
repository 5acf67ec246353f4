// What time the server's clock shows, as far as its messages tell. Requests say on that clock when they are over, and
// items when they expire.
//
// The server wrote its time T into an answer to a request that was posted at the local time P, and that arrived at L.
// So its clock showed at most T at P, and at least T at L. Between messages the two clocks drift apart, by at most
// kDrift:
//
//     At(t) = [T + (t - L) - drift, T + (t - P) + drift]
//
// An interval that is heard anew replaces the one known, unless that is the narrower one and lies within: an answer
// that took long tells nothing. If it does not, one of the clocks jumped, and what is heard is right.
//
// Deadlines are told as DeadlineAt():
//   * never early because of drift: the server refuses nothing whose time is not over, but for the way of the message
//     that told the time (whose answer would have come too late);
//   * late by at most twice the drift since the last message that was heard: 2 ms in a second.
#ifndef FARLOOK_CLIENT_SERVER_CLOCK_H_
#define FARLOOK_CLIENT_SERVER_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "client/last_time.h"
#include "kv/expiry_clock.h"

namespace farlook::client {

// Thread safety: one thread.
class ServerClock final : public kv::ReaderClock {
 public:
  // Clocks of computers drift by at most 244 parts in a million (NTP slews by 500 for a while): 1,000 are allowed for.
  static constexpr int64_t kDriftParts = 1000;  // one in so many
  // It need not be told more often.
  static constexpr int64_t kFreshNs = 1'000'000'000;

  explicit ServerClock(LastTime* time) : time_(time) {}

  // In a group an item ends when its primary says so to all members: that the clock has come so far is never sure then,
  // and whoever finds an item whose time may be over asks.
  void SetInGroup(bool in_group) { in_group_ = in_group; }

  // Another server's clock, perhaps: what was heard does not count.
  void Forget() { time_us_ = 0; }

  // A message that bears this time was received at `now_ns`; it answers what was posted at `posted_ns`, or later.
  void Hear(uint64_t time_us, int64_t posted_ns, int64_t now_ns) {
    if (time_us_ != 0) {
      const Interval known = At(now_ns);
      const uint64_t most_us = time_us + Widened(now_ns - posted_ns);
      checked_ns_ = now_ns;
      if (known.lo >= time_us && known.hi <= most_us) return;
    }
    time_us_ = time_us;
    posted_ns_ = posted_ns;
    heard_ns_ = checked_ns_ = now_ns;
  }
  bool stale(int64_t now_ns) const { return now_ns - checked_ns_ >= kFreshNs; }

  // What the server's clock shows now. Reads the local clock.
  Interval Now() override {
    Interval now{0, std::numeric_limits<uint64_t>::max()};
    if (time_us_ != 0) now = At(time_->NowNs());
    if (in_group_) [[unlikely]]
      now.lo = 0;
    return now;
  }

  // The server's time at the local time `deadline_ns`, at least 1. 0, for never, where that is the largest number, or
  // where nothing was heard yet.
  uint64_t DeadlineAt(int64_t deadline_ns) const {
    if (time_us_ == 0 || deadline_ns == std::numeric_limits<int64_t>::max()) return 0;
    const uint64_t left_us = static_cast<uint64_t>(std::max<int64_t>(0, deadline_ns - heard_ns_)) / 1000;
    return time_us_ + left_us + left_us / kDriftParts;
  }

 private:
  // REQUIRES that something was heard, at `now_ns` at the latest.
  Interval At(int64_t now_ns) const {
    const uint64_t since_us = static_cast<uint64_t>(std::max<int64_t>(0, now_ns - heard_ns_)) / 1000;
    return {time_us_ + since_us - (since_us + kDriftParts - 1) / kDriftParts, time_us_ + Widened(now_ns - posted_ns_)};
  }
  // The most microseconds that the server's clock can advance while this host's advances by `ns`; one more, since the
  // server's clock shows whole microseconds.
  static uint64_t Widened(int64_t ns) {
    const uint64_t us = static_cast<uint64_t>(std::max<int64_t>(0, ns) + 999) / 1000;
    return us + (us + kDriftParts - 1) / kDriftParts + 1;
  }

  LastTime* time_;
  bool in_group_ = false;
  uint64_t time_us_ = 0;  // 0: never heard
  int64_t posted_ns_ = 0;
  int64_t heard_ns_ = 0;
  int64_t checked_ns_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_SERVER_CLOCK_H_
