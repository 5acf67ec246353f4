#include "server/executor/hit_reports.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"
#include "rdma/clock.h"
#include "server/base/worker_stats.h"

namespace farlook::server {
namespace {

// A clock that advances at each reading.
class SlowClock : public rdma::Clock {
 public:
  int64_t NowNs() const override { return now_ns += step_ns; }
  mutable int64_t now_ns = 1'000'000'000;
  int64_t step_ns = 0;
};

class HitReportsTest : public testing::Test {
 protected:
  HitReportsTest() : memory_(32 << 20) {
    kv::TableOptions options;
    options.incarnation = 1;
    options.evict = true;
    table_ = *kv::Table::Create(memory_.span(), options);
    touches_ = std::make_unique<HitReports>(table_.get(), &clock_, &stats_);
  }
  void Take(const std::vector<uint64_t>& slots) {
    kv::TouchedLocations touched;
    touched.gets = 4000;
    touched.hits = 2000;
    touched.sample = 4;
    touched.slots = absl::string_view(reinterpret_cast<const char*>(slots.data()), 8 * slots.size());
    touches_->Take(touched);
  }

  kv::TestMemory memory_;
  SlowClock clock_;
  WorkerStats stats_;
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<HitReports> touches_;
};

TEST_F(HitReportsTest, WhatIsThereCountsAndNonsenseIsIgnored) {
  const kv::WriteResult put = table_->Put(table_->HashOf("k"), "k", "v", kv::PutParams{}, 1);
  Take({put.slot.word(), 0, ~uint64_t{0}, put.slot.word() + (1 << 20), put.slot.word()});
  EXPECT_EQ(stats_.touches.value(), 2u);
  EXPECT_EQ(stats_.ignored_touches.value(), 3u);
  EXPECT_EQ(stats_.reported_gets.value(), 4000u);
  EXPECT_EQ(stats_.reported_hits.value(), 2000u);
}

TEST_F(HitReportsTest, TheSampleGrowsWhileItCostsTooMuchAndShrinksAgain) {
  EXPECT_EQ(touches_->sample(), HitReports::kFirstSample);
  // 1 ms each, one in 10 ms: a tenth of the time.
  for (int i = 0; i < 200; ++i) {
    clock_.step_ns = 1'000'000;
    Take({0});
    clock_.step_ns = 0;
    clock_.now_ns += 9'000'000;
  }
  EXPECT_GT(touches_->sample(), 8 * HitReports::kFirstSample);
  EXPECT_EQ(stats_.touch_sample.value(), touches_->sample());
  for (int i = 0; i < 40; ++i) {
    clock_.now_ns += HitReports::kPeriodNs;
    Take({0});
  }
  EXPECT_EQ(touches_->sample(), HitReports::kFirstSample);
}

TEST_F(HitReportsTest, WhoTellsOnAndOnIsNotListenedTo) {
  const kv::WriteResult put = table_->Put(table_->HashOf("k"), "k", "v", kv::PutParams{}, 1);
  clock_.step_ns = 10'000;
  const int64_t start_ns = clock_.now_ns;
  int64_t messages = 0;
  for (; clock_.now_ns - start_ns < 12 * HitReports::kPeriodNs; ++messages) Take({put.slot.word()});
  EXPECT_LT(stats_.touches.value() * 20, static_cast<uint64_t>(messages)) << "a twenty-fifth of the time, and one each";
  EXPECT_EQ(touches_->sample(), HitReports::kLastSample);
}

}  // namespace
}  // namespace farlook::server
