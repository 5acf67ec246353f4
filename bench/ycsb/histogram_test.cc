#include "bench/ycsb/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "bench/common/random.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

TEST(HistogramTest, TheWorkedExampleOfTheHeader) {
  EXPECT_EQ(Histogram::BucketOf(1000), 506u);
  EXPECT_EQ(Histogram::LowestOf(506), 1000u);
  EXPECT_EQ(Histogram::HighestOf(506), 1003u);
}

TEST(HistogramTest, BucketsCoverEveryValueOnceAndInOrder) {
  uint64_t expected = 0;
  for (size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    ASSERT_EQ(Histogram::LowestOf(bucket), expected) << bucket;
    ASSERT_EQ(Histogram::BucketOf(Histogram::LowestOf(bucket)), bucket);
    ASSERT_EQ(Histogram::BucketOf(Histogram::HighestOf(bucket)), bucket);
    expected = Histogram::HighestOf(bucket) + 1;
  }
  // Expect: the last bucket ended at the highest value there is.
  EXPECT_EQ(expected, 0u);
}

TEST(HistogramTest, NoBucketIsWiderThanTheStatedError) {
  for (size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    const double lowest = static_cast<double>(Histogram::LowestOf(bucket));
    const double highest = static_cast<double>(Histogram::HighestOf(bucket));
    ASSERT_LE(highest - lowest, lowest * Histogram::kRelativeError) << bucket;
  }
}

TEST(HistogramTest, AnEmptyOneIsAllZero) {
  auto histogram = std::make_unique<Histogram>();
  EXPECT_EQ(histogram->count(), 0u);
  EXPECT_EQ(histogram->min(), 0u);
  EXPECT_EQ(histogram->max(), 0u);
  EXPECT_EQ(histogram->Mean(), 0);
  EXPECT_EQ(histogram->Percentile(50), 0u);
}

TEST(HistogramTest, OneValueIsEveryPercentileExactly) {
  auto histogram = std::make_unique<Histogram>();
  histogram->Record(123456789);
  for (double percent : {0.0, 50.0, 99.9, 100.0}) EXPECT_EQ(histogram->Percentile(percent), 123456789u);
  EXPECT_EQ(histogram->Mean(), 123456789.0);
}

// Percentiles compared with the sorted values themselves, for values over many powers of two.
TEST(HistogramTest, PercentilesStayWithinTheStatedError) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    auto histogram = std::make_unique<Histogram>();
    std::vector<uint64_t> values;
    for (int i = 0; i < 20001; ++i) {
      values.push_back(random.Next() >> random.Below(60));
      histogram->Record(values.back());
    }
    std::sort(values.begin(), values.end());
    EXPECT_EQ(histogram->min(), values.front());
    EXPECT_EQ(histogram->max(), values.back());
    for (double percent : {0.1, 10.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0}) {
      const size_t rank = static_cast<size_t>(std::ceil(static_cast<double>(values.size()) * percent / 100));
      const double exact = static_cast<double>(values[rank - 1]);
      const double got = static_cast<double>(histogram->Percentile(percent));
      EXPECT_GE(got, exact) << percent;
      EXPECT_LE(got, exact * (1 + Histogram::kRelativeError)) << percent;
    }
  }
}

TEST(HistogramTest, MergingEqualsRecordingIntoOne) {
  Random random(7);
  auto all = std::make_unique<Histogram>(), merged = std::make_unique<Histogram>();
  for (int part = 0; part < 3; ++part) {
    auto histogram = std::make_unique<Histogram>();
    for (int i = 0; i < 1000; ++i) {
      const uint64_t value = random.Below(1 << 20);
      histogram->Record(value);
      all->Record(value);
    }
    merged->Merge(*histogram);
  }
  EXPECT_EQ(merged->count(), all->count());
  EXPECT_EQ(merged->min(), all->min());
  EXPECT_EQ(merged->max(), all->max());
  EXPECT_EQ(merged->Mean(), all->Mean());
  for (double percent : {1.0, 50.0, 99.0}) EXPECT_EQ(merged->Percentile(percent), all->Percentile(percent));
}

TEST(HistogramTest, TheDifferenceIsWhatCameInBetween) {
  auto histogram = std::make_unique<Histogram>(), earlier = std::make_unique<Histogram>();
  auto difference = std::make_unique<Histogram>();
  histogram->Record(5);
  histogram->Record(5000000);
  earlier->Merge(*histogram);
  histogram->Record(100, 3);
  difference->Record(77);  // a value to be overwritten
  difference->SetDifference(*histogram, *earlier);
  EXPECT_EQ(difference->count(), 3u);
  EXPECT_EQ(difference->min(), 100u);
  EXPECT_EQ(difference->max(), 100u);
  EXPECT_EQ(difference->Mean(), 100.0);
}

TEST(HistogramTest, OneThreadMayReadWhileAnotherRecords) {
  auto histogram = std::make_unique<Histogram>();
  std::thread writer([&] {
    for (uint64_t i = 0; i < 100000; ++i) histogram->Record(i % 1000);
  });
  uint64_t before = 0;
  while (before < 100000) {
    auto snapshot = std::make_unique<Histogram>();
    snapshot->Merge(*histogram);
    EXPECT_GE(snapshot->count(), before);
    before = snapshot->count();
  }
  writer.join();
}

}  // namespace
}  // namespace farlook::bench
