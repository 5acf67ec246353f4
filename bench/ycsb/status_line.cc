#include "bench/ycsb/status_line.h"

#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace farlook::bench {
namespace {

// Formats like Java's DecimalFormat("#.##").
std::string TwoDecimals(double value) {
  std::string text = absl::StrFormat("%.2f", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string Microseconds(double ns) { return TwoDecimals(ns / 1000); }

// Formats like YCSB's RemainingFormatter: the two largest relevant units.
std::string Remaining(int64_t seconds) {
  const auto units = [](int64_t n, const char* unit) { return absl::StrCat(n, " ", unit, n == 1 ? " " : "s "); };
  const int64_t days = seconds / 86400, hours = seconds / 3600 % 24, minutes = seconds / 60 % 60;
  std::string text;
  if (days > 0) absl::StrAppend(&text, units(days, "day"));
  if (hours > 0) absl::StrAppend(&text, units(hours, "hour"));
  if (days < 1 && minutes > 0) absl::StrAppend(&text, units(minutes, "minute"));
  if (text.empty()) absl::StrAppend(&text, units(seconds, "second"));
  return text;
}

void AppendSummary(absl::string_view name, const Histogram& interval, std::string* line) {
  absl::StrAppend(line, "[", name, ": Count=", interval.count(),
                  ", Max=", Microseconds(static_cast<double>(interval.max())),
                  ", Min=", Microseconds(static_cast<double>(interval.min())), ", Avg=", Microseconds(interval.Mean()));
  for (double percent : {50.0, 90.0, 99.0, 99.9, 99.99}) {
    absl::StrAppend(line, ", ", percent, "=", Microseconds(static_cast<double>(interval.Percentile(percent))));
  }
  absl::StrAppend(line, "] ");
}

}  // namespace

std::string StatusLine(const Progress& progress, const Measurements& now, const Measurements& before) {
  const absl::Time wall = absl::FromUnixNanos(progress.wall_ns);
  const int64_t milliseconds = progress.wall_ns / 1'000'000 % 1000;
  std::string line = absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M:%S", wall, absl::LocalTimeZone()), ":",
                                  absl::Dec(milliseconds, absl::kZeroPad3), " ", progress.elapsed_ns / 1'000'000'000,
                                  " sec: ", progress.operations, " operations; ");
  if (progress.operations > 0 && progress.interval_ns > 0) {
    const double current = static_cast<double>(progress.operations - progress.last_operations) * 1e9 /
                           static_cast<double>(progress.interval_ns);
    absl::StrAppend(&line, TwoDecimals(current), " current ops/sec; ");
  }
  if (progress.operations > 0 && progress.operations_to_do > 0) {
    const double seconds = static_cast<double>(progress.operations_to_do) * static_cast<double>(progress.elapsed_ns) /
                           1e9 / static_cast<double>(progress.operations);
    absl::StrAppend(&line, "est completion in ", Remaining(static_cast<int64_t>(std::ceil(seconds))));
  }
  const auto none = std::make_unique<Histogram>(), interval = std::make_unique<Histogram>();
  for (size_t i = 0; i < kMetrics; ++i) {
    const Metric metric = static_cast<Metric>(i);
    const Series* series = now.series(metric);
    if (series == nullptr) continue;
    const Series* earlier = before.series(metric);
    interval->SetDifference(series->raw, earlier == nullptr ? *none : earlier->raw);
    if (series->raw.count() > 0) AppendSummary(MetricName(metric), *interval, &line);
    if (series->intended.count() == 0) continue;
    interval->SetDifference(series->intended, earlier == nullptr ? *none : earlier->intended);
    AppendSummary(absl::StrCat("Intended-", MetricName(metric)), *interval, &line);
  }
  absl::string_view stripped = line;
  absl::ConsumeSuffix(&stripped, " ");
  return std::string(stripped.data(), stripped.size());
}

}  // namespace farlook::bench
