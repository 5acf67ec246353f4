#include "server/executor/client_figures.h"

#include <algorithm>

namespace farlook::server {

void ClientFigures::Take(const kv::ClientFigures& figures, int64_t now_ns, ClientStatsReport* report) {
  Forget(report);
  const auto here_ms = static_cast<uint64_t>(std::max<int64_t>(0, now_ns - report->since_ns)) / 1'000'000 + 1;
  const uint64_t gets = std::min(figures.gets, here_ms * (kMostGetsPerS / 1000) - report->gets);
  const uint64_t hits = std::min(figures.hits, gets);
  if (gets < figures.gets) stats_->clipped_figures.Add();
  report->gets += gets;
  report->hits += hits;
  stats_->client_gets.Add(gets);
  stats_->client_hits.Add(hits);

  report->gets_per_s = static_cast<uint64_t>(
      std::min(1000.0 * static_cast<double>(gets) / figures.interval_ms, static_cast<double>(kMostGetsPerS)));
  uint64_t timed = 0;
  for (const uint32_t count : figures.counts) timed += count;
  report->times = {};
  // Clients time only a sample of their gets. The sample shows how latencies are distributed: scale it to the gets.
  const double weight = timed == 0 ? 0 : static_cast<double>(gets) / static_cast<double>(timed);
  for (size_t i = 0; i < figures.counts.size(); ++i) {
    report->times.Add(i, static_cast<uint64_t>(weight * figures.counts[i] + 0.5));
  }
  report->reported_ns = now_ns;
  report->fresh = true;
  fresh_.push_back(report);
  Count(*report, /*add=*/true);
}

void ClientFigures::Forget(ClientStatsReport* report) {
  if (!report->fresh) return;
  report->fresh = false;
  std::erase(fresh_, report);
  Count(*report, /*add=*/false);
}

void ClientFigures::Count(const ClientStatsReport& report, bool add) {
  const auto change = [add](Counter* counter, uint64_t n) {
    counter->Set(add ? counter->value() + n : counter->value() - n);
  };
  for (size_t i = 0; i < kv::DurationBuckets::kBuckets; ++i) {
    if (const uint64_t n = report.times.at(i); n != 0) change(&stats_->get_times[i], n);
  }
  change(&stats_->client_gets_per_s, report.gets_per_s);
  stats_->reporting_clients.Set(fresh_.size());
}

}  // namespace farlook::server
