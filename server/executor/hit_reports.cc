#include "server/executor/hit_reports.h"

#include <algorithm>

namespace farlook::server {

void HitReports::Take(const kv::TouchedLocations& touched) {
  stats_->reported_gets.Add(touched.gets);
  stats_->reported_hits.Add(touched.hits);
  const int64_t start_ns = clock_->NowNs();
  if (start_ns - began_ns_ >= kPeriodNs) EndPeriod(start_ns);
  if (spent_ns_ > 2 * kPeriodNs / kShare) {
    skipped_ = true;
    stats_->ignored_touches.Add(touched.size());
    return;
  }
  const size_t known = table_->Touched(touched);
  stats_->touches.Add(known);
  stats_->ignored_touches.Add(touched.size() - known);
  spent_ns_ += clock_->NowNs() - start_ns;
}

void HitReports::EndPeriod(int64_t now_ns) {
  const int64_t most_ns = (now_ns - began_ns_) / kShare;
  if (spent_ns_ > most_ns || skipped_) {
    sample_ = std::min(2 * sample_, kLastSample);
  } else if (spent_ns_ < most_ns / 4) {
    sample_ = std::max(sample_ / 2, kFirstSample);
  }
  stats_->touch_sample.Set(sample_);
  began_ns_ = now_ns;
  spent_ns_ = 0;
  skipped_ = false;
}

}  // namespace farlook::server
