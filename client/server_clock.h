// What time the server's clock shows, as far as its messages tell. Requests say on that clock when they are over.
//
// A message that bears the server's time T arrives at the local time L: at L the server's clock shows at least T, and
// at most the message's way more. Between messages the two clocks drift apart, by at most kDrift. So At() is
//   * never early because of drift: the server refuses nothing whose time is not over, but for the way of the message
//     that told the time (whose answer would have come too late);
//   * late by at most twice the drift since the last message that was heard: 0.5 ms in a second.
#ifndef FARLOOK_CLIENT_SERVER_CLOCK_H_
#define FARLOOK_CLIENT_SERVER_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace farlook::client {

// Thread safety: one thread.
class ServerClock {
 public:
  // Clocks of computers drift by at most 244 parts in a million (NTP slews by 500 for a while; then it is heard anew).
  static constexpr int64_t kDriftParts = 4096;  // one in so many
  // It need not be told more often.
  static constexpr int64_t kFreshNs = 1'000'000'000;

  // A message was received that bears this time. Always for the first of a connection, else where stale().
  void Hear(uint64_t time_us, int64_t now_ns) {
    time_us_ = time_us;
    heard_ns_ = now_ns;
  }
  bool stale(int64_t now_ns) const { return now_ns - heard_ns_ >= kFreshNs; }

  // The server's time at the local time `deadline_ns`, at least 1. 0, for never, where that is the largest number, or
  // where nothing was heard yet.
  uint64_t At(int64_t deadline_ns) const {
    if (time_us_ == 0 || deadline_ns == std::numeric_limits<int64_t>::max()) return 0;
    const uint64_t left_us = static_cast<uint64_t>(std::max<int64_t>(0, deadline_ns - heard_ns_)) / 1000;
    return time_us_ + left_us + left_us / kDriftParts;
  }

 private:
  uint64_t time_us_ = 0;  // 0: never heard
  int64_t heard_ns_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_SERVER_CLOCK_H_
