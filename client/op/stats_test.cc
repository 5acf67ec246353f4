#include "farlook/stats.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace farlook {
namespace {

TEST(LatencyHistogram, QuantilesAreEndsOfBuckets) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.QuantileNs(0.5), 0u);
  histogram.counts[0] = 98;  // below 64 ns
  histogram.counts[1] = 2;   // 64 to 80
  EXPECT_EQ(histogram.count(), 100u);
  EXPECT_EQ(histogram.QuantileNs(0.5), 64u);
  EXPECT_EQ(histogram.QuantileNs(0.99), 80u);
}

TEST(PrometheusText, HasCountersAndHistogramsWithTheLabelsGiven) {
  ClientStats stats;
  stats.gets = 7;
  stats.get_times.counts[0] = 5;
  stats.get_times.counts[5] = 2;  // 128 to 160
  stats.get_times.sum_ns = 500;
  const std::string text = PrometheusText(stats, "table=\"users\"");
  EXPECT_TRUE(absl::StrContains(text,
                                "# TYPE farlook_client_gets_total counter\n"
                                "farlook_client_gets_total{table=\"users\"} 7\n"))
      << text;
  EXPECT_TRUE(absl::StrContains(text,
                                "# TYPE farlook_client_get_duration_seconds histogram\n"
                                "farlook_client_get_duration_seconds_bucket{table=\"users\",le=\"1.28e-07\"} 5\n"
                                "farlook_client_get_duration_seconds_bucket{table=\"users\",le=\"2.56e-07\"} 7\n"))
      << text;
  EXPECT_TRUE(absl::StrContains(text,
                                "farlook_client_get_duration_seconds_bucket{table=\"users\",le=\"+Inf\"} 7\n"
                                "farlook_client_get_duration_seconds_sum{table=\"users\"} 5e-07\n"
                                "farlook_client_get_duration_seconds_count{table=\"users\"} 7\n"))
      << text;
  EXPECT_TRUE(absl::StrContains(PrometheusText(stats), "\nfarlook_client_gets_total 7\n"));
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    EXPECT_TRUE(absl::StartsWith(line, "# ") || absl::StrContains(line, "} ")) << line;
  }
}

}  // namespace
}  // namespace farlook
