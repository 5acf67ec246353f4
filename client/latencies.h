// How long this client's operations take: a sample of them, in the histograms of its stats.
//
// A clock reading costs a tenth of a get on this host, so one call in so many is timed, and counts for that many: one
// in 64, or more of them where calls are so rare that a tenth of a second lies between those that are timed. A batch is
// one call.
//
// Thread safety: one thread. The time, the stats and the figures outlive it.
#ifndef FARLOOK_CLIENT_LATENCIES_H_
#define FARLOOK_CLIENT_LATENCIES_H_

#include <algorithm>
#include <cstdint>

#include "client/last_time.h"
#include "client/operation.h"
#include "client/told_figures.h"
#include "farlook/stats.h"
#include "kv/duration_buckets.h"

namespace farlook::client {

class Latencies {
 public:
  static constexpr uint8_t kMostCalls = 64;
  // Between two that are timed: with less, fewer calls are; with more, more.
  static constexpr int64_t kLeastNs = 10'000'000, kMostNs = 100'000'000;

  Latencies(LastTime* time, ClientStats* stats, ToldFigures* told)
      : time_(time), stats_(stats), told_(told), last_ns_(time->last_ns()) {}

  // Whether the call that begins is to be timed.
  bool Due() { return --left_ == 0; }

  // The call has begun. REQUIRES Due() said so. Apart, as all that most calls do not do.
  [[gnu::noinline]] OperationTiming Begin() {
    const int64_t now_ns = time_->NowNs();
    const OperationTiming timing = {now_ns, calls_};
    const int64_t pause_ns = now_ns - last_ns_;
    if (pause_ns < kLeastNs) calls_ = std::min<uint8_t>(kMostCalls, static_cast<uint8_t>(2 * calls_));
    if (pause_ns > kMostNs) calls_ = static_cast<uint8_t>(std::max<int64_t>(1, calls_ * kMostNs / pause_ns));
    last_ns_ = now_ns;
    left_ = calls_;
    told_->Look(now_ns);
    return timing;
  }
  // It has ended.
  [[gnu::noinline]] void End(const OperationTiming& timing, LatencyHistogram* histogram) {
    const auto ns = static_cast<uint64_t>(std::max<int64_t>(0, time_->NowNs() - timing.since_ns));
    histogram->counts[kv::DurationBuckets::BucketOf(ns)] += timing.calls;
    histogram->sum_ns += ns * timing.calls;
  }
  // The same for an operation, whose histogram is that of its kind.
  [[gnu::noinline]] void End(const Operation& operation) {
    LatencyHistogram* const histogram = IsGet(operation.kind)       ? &stats_->get_times
                                        : IsCounter(operation.kind) ? &stats_->counter_times
                                        : IsWrite(operation.kind)   ? &stats_->write_times
                                                                    : nullptr;
    if (histogram != nullptr) End(operation.timing, histogram);
  }

 private:
  LastTime* const time_;
  ClientStats* const stats_;
  ToldFigures* const told_;
  uint32_t left_ = kMostCalls;  // calls, to the next that is timed
  uint8_t calls_ = kMostCalls;  // for which that one stands
  int64_t last_ns_;             // when one was timed last
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_LATENCIES_H_
