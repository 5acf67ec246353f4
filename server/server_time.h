// The server's clock: what Welcome and replies bear, what deadlines and items' expiries are told on.
//
// Microseconds since 2020-01-01 00:00 UTC, read from the host's clock once, when the server starts, and going on with
// the monotonic clock: so it never goes back in a server's life, and whoever sets the host's clock does not move it.
#ifndef FARLOOK_SERVER_SERVER_TIME_H_
#define FARLOOK_SERVER_SERVER_TIME_H_

#include <cstdint>

#include "kv/expiry_clock.h"
#include "rdma/clock.h"

namespace farlook::server {

class ServerTime {
 public:
  // Shows `start_us`, from 1 on, when rdma::Clock shows `now_ns`.
  explicit ServerTime(uint64_t start_us = 1, int64_t now_ns = 0)
      : offset_us_(static_cast<int64_t>(start_us) - now_ns / 1000) {}
  // As the host's clock has it, at `now_ns`. A host whose clock is before 2020 begins at 1.
  static ServerTime OfHost(int64_t now_ns);

  uint64_t At(int64_t now_ns) const { return static_cast<uint64_t>(now_ns / 1000 + offset_us_); }

  // When the clock shows this.
  int64_t NsAt(uint64_t time_us) const { return (static_cast<int64_t>(time_us) - offset_us_) * 1000; }

  // When an item expires whose ttl, in microseconds, begins at `now_ns`: in milliseconds, not before its time. 0, for
  // never, where the ttl is.
  uint64_t ExpiryMs(uint64_t ttl_us, int64_t now_ns) const {
    return ttl_us == 0 ? 0 : (At(now_ns) + ttl_us + 999) / 1000;
  }

  // Whether a request with this deadline (0: none) is over.
  bool IsOver(uint64_t deadline_us, int64_t now_ns) const { return IsOverAt(deadline_us, At(now_ns)); }
  static bool IsOverAt(uint64_t deadline_us, uint64_t now_us) { return deadline_us != 0 && deadline_us <= now_us; }

 private:
  int64_t offset_us_;
};

// The same as the table wants to look at it. Thread safety: any thread.
class TableTime final : public kv::TableClock {
 public:
  // The clock outlives this.
  TableTime(const rdma::Clock* clock, ServerTime time) : clock_(clock), time_(time) {}
  uint64_t NowUs() const override { return time_.At(clock_->NowNs()); }

 private:
  const rdma::Clock* const clock_;
  const ServerTime time_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SERVER_TIME_H_
