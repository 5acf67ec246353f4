// Durations of this client's operations, sampled into the histograms of its stats.
//
// Reading the clock costs a tenth of a get on this host. So one call in N is timed and counts N times. N is at most 64,
// and lower if more than a tenth of a second passes between timed calls. A batch is one call.
//
// Thread safety: one thread. The time, the stats and the report outlive it.
#ifndef FARLOOK_CLIENT_OP_LATENCIES_H_
#define FARLOOK_CLIENT_OP_LATENCIES_H_

#include <algorithm>
#include <cstdint>

#include "client/op/client_stats_report.h"
#include "client/op/last_time.h"
#include "client/op/operation.h"
#include "farlook/stats.h"
#include "kv/wire/duration_buckets.h"

namespace farlook::client {

class Latencies {
 public:
  static constexpr uint8_t kMostCalls = 64;
  // Pause between two timed calls: below the minimum N grows, above the maximum it shrinks.
  static constexpr int64_t kLeastNs = 10'000'000, kMostNs = 100'000'000;

  Latencies(LastTime* time, ClientStats* stats, ClientStatsReport* report)
      : time_(time), stats_(stats), stats_report_(report), last_ns_(time->last_ns()) {}

  // Returns whether the call that begins is to be timed.
  bool Due() { return --left_ == 0; }

  // The call begins. REQUIRES Due() returned true. Not inlined, since most calls do not need it.
  [[gnu::noinline]] OperationTiming Begin() {
    const int64_t now_ns = time_->NowNs();
    const OperationTiming timing = {now_ns, calls_};
    const int64_t pause_ns = now_ns - last_ns_;
    if (pause_ns < kLeastNs) calls_ = std::min<uint8_t>(kMostCalls, static_cast<uint8_t>(2 * calls_));
    if (pause_ns > kMostNs) calls_ = static_cast<uint8_t>(std::max<int64_t>(1, calls_ * kMostNs / pause_ns));
    last_ns_ = now_ns;
    left_ = calls_;
    stats_report_->Look(now_ns);
    return timing;
  }
  // The call has ended.
  [[gnu::noinline]] void End(const OperationTiming& timing, LatencyHistogram* histogram) {
    const auto ns = static_cast<uint64_t>(std::max<int64_t>(0, time_->NowNs() - timing.since_ns));
    histogram->counts[kv::DurationBuckets::BucketOf(ns)] += timing.calls;
    histogram->sum_ns += ns * timing.calls;
  }
  // The same for an operation, with the histogram of its kind.
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
  ClientStatsReport* const stats_report_;
  uint32_t left_ = kMostCalls;  // calls until the next that is timed
  uint8_t calls_ = kMostCalls;  // number that a timed call counts for
  int64_t last_ns_;             // when a call was last timed
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_LATENCIES_H_
