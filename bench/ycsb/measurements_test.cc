#include "bench/ycsb/measurements.h"

#include <thread>

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

TEST(MeasurementsTest, LatencyIsRawAndIntended) {
  Measurements measurements;
  measurements.Record(Metric::kRead, {.intended_ns = 100, .start_ns = 150, .end_ns = 160}, true);
  const Series* series = measurements.series(Metric::kRead);
  ASSERT_NE(series, nullptr);
  EXPECT_EQ(series->raw.max(), 10u);
  EXPECT_EQ(series->intended.max(), 60u);
  EXPECT_EQ(measurements.series(Metric::kUpdate), nullptr);
}

TEST(MeasurementsTest, FailedOperationsAreTimedApartAndCountedTogether) {
  Measurements measurements;
  measurements.RecordOutcome(Metric::kUpdate, DbStatus::kOk, {.start_ns = 1, .end_ns = 2}, false);
  measurements.RecordOutcome(Metric::kUpdate, DbStatus::kTimeout, {.start_ns = 1, .end_ns = 9}, false);
  EXPECT_EQ(measurements.series(Metric::kUpdate)->raw.count(), 1u);
  EXPECT_EQ(measurements.series(Metric::kUpdateFailed)->raw.count(), 1u);
  EXPECT_EQ(measurements.series(Metric::kUpdate)->returned(DbStatus::kOk), 1u);
  EXPECT_EQ(measurements.series(Metric::kUpdate)->returned(DbStatus::kTimeout), 1u);
  EXPECT_EQ(measurements.series(Metric::kUpdate)->intended.count(), 0u);
}

TEST(MeasurementsTest, EveryMetricHasAName) {
  EXPECT_EQ(MetricName(Metric::kRead), "READ");
  EXPECT_EQ(MetricName(Metric::kInsertFailed), "INSERT-FAILED");
  EXPECT_EQ(MetricName(Metric::kCleanup), "CLEANUP");
}

TEST(MeasurementsTest, SumsMayBeTakenWhileAThreadRecords) {
  Measurements measurements;
  std::thread writer([&measurements] {
    for (int i = 0; i < 20000; ++i) {
      measurements.RecordOutcome(i % 2 == 0 ? Metric::kRead : Metric::kInsert, DbStatus::kOk,
                                 {.start_ns = 0, .end_ns = i}, false);
    }
  });
  uint64_t seen = 0;
  while (seen < 10000) {
    Measurements sum;
    sum.Merge(measurements);
    seen = sum.series(Metric::kInsert) == nullptr ? 0 : sum.series(Metric::kInsert)->raw.count();
  }
  writer.join();
}

}  // namespace
}  // namespace farlook::bench
