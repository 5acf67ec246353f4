#include "client/exporter/metrics.h"

#include <string>

#include "absl/strings/match.h"
#include "client/exporter/scraper.h"
#include "gtest/gtest.h"

namespace farlook::exporter {
namespace {

TEST(MetricsTest, WritesHeadsOnceUnitsAndLabels) {
  EXPECT_EQ(ToMetrics("version 0.1\nincarnation 0f\ncpu_user_s 1.5\ncpu_system_s 0.25\nlongest_room_wait_us 2000000\n"
                      "requests_put 3\nrequests_get_and_touch 4\nlock_holds 5\nlock_holds_below_1024_ns 2\n"
                      "lock_hold_sum_ns 9000\nhandling_put_pulled_timed 3\nhandling_put_pulled_sum_ns 2000\n"
                      "handling_put_pulled_p50_ns 512\nhandling_put_pulled_below_4096_ns 3\n"
                      "handling_put_pulled_below_1024_ns 1\n"),
            "# HELP farlook_build_info Of the server, and of this run of it.\n"
            "# TYPE farlook_build_info gauge\n"
            "farlook_build_info{version=\"0.1\",incarnation=\"0f\"} 1\n"
            "# HELP farlook_cpu_seconds_total Processor time of the server. Clients' reads take none.\n"
            "# TYPE farlook_cpu_seconds_total counter\n"
            "farlook_cpu_seconds_total{mode=\"user\"} 1.5\n"
            "farlook_cpu_seconds_total{mode=\"system\"} 0.25\n"
            "# HELP farlook_longest_room_wait_seconds Longest that such a write waited, since the start.\n"
            "# TYPE farlook_longest_room_wait_seconds gauge\n"
            "farlook_longest_room_wait_seconds 2\n"
            "# HELP farlook_requests_total Requests that arrived, by type. Reads by READ are none.\n"
            "# TYPE farlook_requests_total counter\n"
            "farlook_requests_total{type=\"get_and_touch\"} 4\n"
            "farlook_requests_total{type=\"put\"} 3\n"
            "# HELP farlook_request_handling_seconds How long requests took in the server, to their answer: one in 64; "
            "the sum is to an eighth.\n"
            "# TYPE farlook_request_handling_seconds histogram\n"
            "farlook_request_handling_seconds_bucket{type=\"put_pulled\",le=\"1.024e-06\"} 1\n"
            "farlook_request_handling_seconds_bucket{type=\"put_pulled\",le=\"4.096e-06\"} 3\n"
            "farlook_request_handling_seconds_bucket{type=\"put_pulled\",le=\"+Inf\"} 3\n"
            "farlook_request_handling_seconds_sum{type=\"put_pulled\"} 2e-06\n"
            "farlook_request_handling_seconds_count{type=\"put_pulled\"} 3\n"
            "# HELP farlook_lock_hold_seconds How long partitions' locks were held; the sum is to an eighth.\n"
            "# TYPE farlook_lock_hold_seconds histogram\n"
            "farlook_lock_hold_seconds_bucket{le=\"1.024e-06\"} 2\n"
            "farlook_lock_hold_seconds_bucket{le=\"+Inf\"} 5\n"
            "farlook_lock_hold_seconds_sum 9e-06\n"
            "farlook_lock_hold_seconds_count 5\n");
}

TEST(MetricsTest, LeavesOutWhatIsNoNumberAndNamesWhatItDoesNotKnow) {
  const std::string text = ToMetrics("keys many\nof_a_later_release 7\n\n nonsense\nputs");
  EXPECT_FALSE(absl::StrContains(text, "keys")) << text;
  EXPECT_FALSE(absl::StrContains(text, "nonsense")) << text;
  EXPECT_FALSE(absl::StrContains(text, "puts")) << text;
  EXPECT_TRUE(absl::StrContains(text, "farlook_other_figures{name=\"of_a_later_release\"} 7\n")) << text;
  EXPECT_FALSE(IsKnownFigure("of_a_later_release"));
  EXPECT_TRUE(IsKnownFigure("requests_put"));
}

TEST(MetricsTest, QuotesLabels) { EXPECT_EQ(QuotedLabel("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\""); }

TEST(ScraperTest, KnowsStatesByTheServersWords) {
  EXPECT_EQ(StateOf(absl::OkStatus(), "version 1.0.0\ndraining 0\n"), State::kReady);
  EXPECT_EQ(StateOf(absl::OkStatus(), "version 1.0.0\ndraining 1\n"), State::kDraining);
  EXPECT_EQ(StateOf(absl::OkStatus(), "of an earlier release 1\n"), State::kReady);
  EXPECT_EQ(
      StateOf(absl::UnavailableError("cannot connect to shm:///x: the server is starting: preparing memory, 3 %"), ""),
      State::kStarting);
  EXPECT_EQ(StateOf(absl::UnavailableError("the server is shutting down; try again when it is back"), ""),
            State::kDraining);
  EXPECT_EQ(StateOf(absl::UnavailableError("no server listens at shm:///x"), "draining 0\n"), State::kDown);
}

}  // namespace
}  // namespace farlook::exporter
