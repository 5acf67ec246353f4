// The server's clock: the time in Welcome and replies, and the base of deadlines and items' expiries.
//
// Microseconds since 2020-01-01 00:00 UTC. The host's clock is read once, when the server starts; from then on the
// monotonic clock is used. So the time never goes back during a server's life, and setting the host's clock does not
// change it.
#ifndef FARLOOK_SERVER_BASE_SERVER_TIME_H_
#define FARLOOK_SERVER_BASE_SERVER_TIME_H_

#include <cstdint>

#include "kv/read/expiry_clock.h"
#include "rdma/clock.h"

namespace farlook::server {

class ServerTime {
 public:
  // A clock that shows `start_us`, at least 1, when rdma::Clock shows `now_ns`.
  explicit ServerTime(uint64_t start_us = 1, int64_t now_ns = 0)
      : offset_us_(static_cast<int64_t>(start_us) - now_ns / 1000) {}
  // Returns a clock set to the host's at `now_ns`. If the host's clock is before 2020, it starts at 1.
  static ServerTime OfHost(int64_t now_ns);

  uint64_t At(int64_t now_ns) const { return static_cast<uint64_t>(now_ns / 1000 + offset_us_); }

  // Returns the rdma::Clock time at which this clock shows `time_us`.
  int64_t NsAt(uint64_t time_us) const { return (static_cast<int64_t>(time_us) - offset_us_) * 1000; }

  // Returns the expiry, in milliseconds and rounded up, of an item whose ttl, in microseconds, begins at `now_ns`. A
  // ttl of 0 means never, and so does the result 0.
  uint64_t ExpiryMs(uint64_t ttl_us, int64_t now_ns) const {
    return ttl_us == 0 ? 0 : (At(now_ns) + ttl_us + 999) / 1000;
  }

  // Returns whether this deadline (0: none) has passed.
  bool IsOver(uint64_t deadline_us, int64_t now_ns) const { return IsOverAt(deadline_us, At(now_ns)); }
  static bool IsOverAt(uint64_t deadline_us, uint64_t now_us) { return deadline_us != 0 && deadline_us <= now_us; }

 private:
  int64_t offset_us_;
};

// The same clock behind the table's interface. Thread safety: any thread.
class TableTime final : public kv::TableClock {
 public:
  // `clock` must outlive this.
  TableTime(const rdma::Clock* clock, ServerTime time) : clock_(clock), time_(time) {}
  uint64_t NowUs() const override { return time_.At(clock_->NowNs()); }

 private:
  const rdma::Clock* const clock_;
  const ServerTime time_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BASE_SERVER_TIME_H_
