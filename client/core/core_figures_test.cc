// Durations of operations, and the statistics of gets that are sent to a server that asks for them.
#include <string>
#include <vector>

#include "client/testing/core_testing.h"
#include "kv/wire/client_figures.h"
#include "kv/wire/message.h"

namespace farlook::client {
namespace {

class CoreFiguresTest : public CoreTest {
 protected:
  // Returns the reports that were sent.
  std::vector<kv::ClientFigures> Reports() {
    std::vector<kv::ClientFigures> reports;
    for (const std::string& message : network_.sent) {
      auto request = kv::Request::Decode(message);
      if (!request.ok() || request->type != kv::RequestType::kFigures) continue;
      reports.emplace_back();
      EXPECT_TRUE(kv::ClientFigures::Decode(request->value, &reports.back()));
    }
    return reports;
  }
  static uint64_t Sum(const kv::ClientFigures& figures) {
    uint64_t sum = 0;
    for (const uint32_t count : figures.counts) sum += count;
    return sum;
  }
};

class LocalFiguresTest : public CoreFiguresTest {
 protected:
  LocalFiguresTest() {
    network_.capabilities.local = true;
    network_.capabilities.any_local_memory = true;
    network_.when_asked = [this] { clock_.now_ns += 600; };
  }
  void GetAtOnce(absl::string_view key) {
    OwnedOperation get(Kind::kGet, key);
    get.operation.blocking = true;
    Operation* operation = &get.operation;
    core_->StartUntimed(absl::MakeSpan(&operation, 1));
    core_->Progress();  // an absent key takes a posted READ
    if (get.done()) return;
    core_->SetDeadlines({&operation, 1}, core_->DeadlineFromNow(0));
    PollFor(100, get.operation);
    ASSERT_TRUE(get.done());
  }
};

TEST_F(LocalFiguresTest, OneGetIn64IsTimedAndCountsForAll) {
  server_->Put("key", "value");
  Connect();
  const int64_t readings = clock_.readings;
  for (int i = 0; i < 6400; ++i) GetAtOnce("key");
  const LatencyHistogram& times = core_->stats().get_times;
  EXPECT_EQ(times.count(), 6400u);
  // Expect: two readings for each timed get.
  EXPECT_EQ(clock_.readings - readings, 200);
  // Each takes two READs.
  EXPECT_GE(times.QuantileNs(0.5), 600u);
  EXPECT_LE(times.QuantileNs(0.999), 640u);
  EXPECT_EQ(times.sum_ns, 6400u * 600);
}

TEST_F(LocalFiguresTest, WhereGetsAreRareMoreAreTimed) {
  server_->Put("key", "value");
  Connect();
  const auto timed = [&](int gets) {
    const int64_t before = clock_.readings;
    for (int i = 0; i < gets; ++i) {
      clock_.AdvanceMs(200);
      GetAtOnce("key");
    }
    return (clock_.readings - before) / 2;
  };
  timed(200);
  EXPECT_EQ(timed(20), 20);
  // Expect: at most one in 64 as soon as there are many.
  for (int i = 0; i < 200; ++i) GetAtOnce("key");
  const int64_t before = clock_.readings;
  for (int i = 0; i < 640; ++i) GetAtOnce("key");
  EXPECT_EQ(clock_.readings - before, 20);
}

TEST_F(LocalFiguresTest, AServerThatAsksIsToldOnceInTheTimeItSays) {
  server_->figures_ms = 10'000;
  server_->Put("key", "value");
  Connect();
  for (int second = 0; second < 25; ++second) {
    for (int i = 0; i < 1000; ++i) GetAtOnce(i % 4 == 0 ? "absent" : "key");
    clock_.AdvanceMs(1000);
  }
  std::vector<kv::ClientFigures> reports = Reports();
  ASSERT_EQ(reports.size(), 2u);
  for (const kv::ClientFigures& figures : reports) {
    EXPECT_NEAR(static_cast<double>(figures.gets), 10'000, 64);
    EXPECT_NEAR(static_cast<double>(figures.hits), 7'500, 64);
    EXPECT_NEAR(figures.interval_ms, 10'000, 1'100);
    EXPECT_NEAR(static_cast<double>(Sum(figures)), 10'000, 200);
  }
  // Expect: the rest is sent at the end, and nothing twice.
  core_.reset();
  reports = Reports();
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[0].gets + reports[1].gets + reports[2].gets, 25'000u);
  EXPECT_EQ(reports[0].hits + reports[1].hits + reports[2].hits, 18'750u);
}

TEST_F(LocalFiguresTest, WhoIsNotAskedAndWhoGetsNothingTellsNothing) {
  server_->Put("key", "value");
  Connect();
  for (int second = 0; second < 25; ++second) {
    for (int i = 0; i < 100; ++i) GetAtOnce("key");
    clock_.AdvanceMs(1000);
  }
  core_.reset();
  EXPECT_TRUE(Reports().empty());
  server_->figures_ms = 10'000;
  Connect();
  for (int i = 0; i < 200; ++i) {
    clock_.AdvanceMs(1000);
    EXPECT_TRUE(Put("key", "other").ok());
  }
  core_.reset();
  EXPECT_TRUE(Reports().empty());
}

TEST_F(CoreFiguresTest, OperationsThatTakeTheirTimeAreTimedFromStartToEnd) {
  server_->figures_ms = 10'000;
  server_->Put("key", "value");
  Connect();
  for (int i = 0; i < 2000; ++i) {
    network_.hold_reads = true;
    auto get = Start(Kind::kGet, "key");
    clock_.AdvanceMs(3);
    network_.hold_reads = false;
    network_.ReleaseReads();
    PollFor(100, get->operation);
    Poll();
    EXPECT_TRUE(get->done());
  }
  const LatencyHistogram& times = core_->stats().get_times;
  EXPECT_GE(times.count(), 1900u);
  EXPECT_GE(times.QuantileNs(0.01), 3'000'000u);
  EXPECT_LT(times.QuantileNs(0.99), 8'000'000u);
  EXPECT_EQ(core_->stats().write_times.count(), 0u);
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(Put("key", "v").ok());
    clock_.AdvanceMs(10);
  }
  EXPECT_GT(core_->stats().write_times.count(), 0u);
  const uint64_t reconnects = core_->stats().reconnects;
  // Expect: what was sent over one connection is not sent again over the next.
  clock_.AdvanceMs(10'000);
  Get("key");
  const std::vector<kv::ClientFigures> before = Reports();
  ASSERT_FALSE(before.empty());
  network_.Break();
  Get("key");
  EXPECT_EQ(core_->stats().reconnects, reconnects + 1);
  int gets = 1;
  for (; gets < 200 && Reports().size() == before.size(); ++gets) {
    clock_.AdvanceMs(200);
    Get("key");
  }
  ASSERT_EQ(Reports().size(), before.size() + 1);
  EXPECT_LE(Reports().back().gets, static_cast<uint64_t>(gets));
}

}  // namespace
}  // namespace farlook::client
