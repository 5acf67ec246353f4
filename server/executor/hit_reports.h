// One worker's handling of the hits that clients of a cache report (kv/wire/touched.h).
//
// Reports cost the worker at most 1/kShare of its time. Once in a period the fraction of hits that clients report is
// halved or doubled accordingly. Reports that exceed twice the share in a period are skipped. So reports never cost
// more than receiving them, whatever clients send.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_EXECUTOR_HIT_REPORTS_H_
#define FARLOOK_SERVER_EXECUTOR_HIT_REPORTS_H_

#include <cstdint>

#include "kv/table/table.h"
#include "kv/wire/touched.h"
#include "rdma/clock.h"
#include "server/base/worker_stats.h"

namespace farlook::server {

class HitReports {
 public:
  static constexpr uint32_t kFirstSample = 4, kLastSample = 4096;
  static constexpr int64_t kShare = 50;
  static constexpr int64_t kPeriodNs = 250'000'000;

  // All arguments outlive this.
  HitReports(kv::Table* table, const rdma::Clock* clock, WorkerStats* stats)
      : table_(table), clock_(clock), stats_(stats) {
    if (wanted()) stats_->touch_sample.Set(sample_);
  }

  // Returns whether clients are asked for reports.
  bool wanted() const { return table_->evicts(); }

  // Applies a report that a client sent.
  void Take(const kv::TouchedLocations& touched);

  // Clients report one of this many hits.
  uint32_t sample() const { return sample_; }

 private:
  void EndPeriod(int64_t now_ns);

  kv::Table* const table_;
  const rdma::Clock* const clock_;
  WorkerStats* const stats_;
  uint32_t sample_ = kFirstSample;
  int64_t began_ns_ = 0;  // start of the period
  int64_t spent_ns_ = 0;  // time spent on reports in this period
  bool skipped_ = false;  // some reports of this period were skipped
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_EXECUTOR_HIT_REPORTS_H_
