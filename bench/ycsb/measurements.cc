#include "bench/ycsb/measurements.h"

#include <algorithm>

namespace farlook::bench {
namespace {

uint64_t Elapsed(int64_t from_ns, int64_t to_ns) {
  return static_cast<uint64_t>(std::max<int64_t>(0, to_ns - from_ns));
}

}  // namespace

absl::string_view MetricName(Metric metric) {
  constexpr absl::string_view kNames[kMetrics] = {
      "READ",          "READ-FAILED",       "UPDATE",     "UPDATE-FAILED", "INSERT",
      "INSERT-FAILED", "READ-MODIFY-WRITE", "READ-BATCH", "VERIFY",        "CLEANUP"};
  return kNames[static_cast<size_t>(metric)];
}

void Series::Merge(const Series& other) {
  raw.Merge(other.raw);
  intended.Merge(other.intended);
  for (size_t i = 0; i < kDbStatuses; ++i) {
    returns[i].fetch_add(other.returns[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
}

Measurements::~Measurements() {
  for (std::atomic<Series*>& series : series_) delete series.load(std::memory_order_relaxed);
}

Series& Measurements::Get(Metric metric) {
  std::atomic<Series*>& place = series_[static_cast<size_t>(metric)];
  Series* series = place.load(std::memory_order_relaxed);
  if (series == nullptr) {
    series = new Series;
    place.store(series, std::memory_order_release);
  }
  return *series;
}

void Measurements::Record(Metric metric, const OperationTimes& times, bool with_intended) {
  Series& series = Get(metric);
  series.raw.Record(Elapsed(times.start_ns, times.end_ns));
  if (with_intended) series.intended.Record(Elapsed(times.intended_ns, times.end_ns));
}

void Measurements::CountReturn(Metric metric, DbStatus status) {
  std::atomic<uint64_t>& count = Get(metric).returns[static_cast<size_t>(status)];
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Measurements::RecordOutcome(Metric metric, DbStatus status, const OperationTimes& times, bool with_intended) {
  const Metric failed = static_cast<Metric>(static_cast<size_t>(metric) + 1);
  Record(status == DbStatus::kOk ? metric : failed, times, with_intended);
  CountReturn(metric, status);
}

void Measurements::Merge(const Measurements& other) {
  for (size_t i = 0; i < kMetrics; ++i) {
    const Series* theirs = other.series(static_cast<Metric>(i));
    if (theirs != nullptr) Get(static_cast<Metric>(i)).Merge(*theirs);
  }
}

}  // namespace farlook::bench
