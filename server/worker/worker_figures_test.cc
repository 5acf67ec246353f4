// A worker's handling of clients' reports about their gets, the messages of kv/wire/client_figures.h.
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/wire/client_figures.h"
#include "kv/wire/duration_buckets.h"
#include "kv/wire/message.h"
#include "server/executor/client_figures.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::DurationBuckets;

constexpr int64_t kSecondNs = 1'000'000'000;

std::string Value(uint64_t gets, uint64_t hits, uint32_t interval_ms, uint64_t ns, uint32_t timed) {
  kv::ClientFigures figures;
  figures.gets = gets;
  figures.hits = hits;
  figures.interval_ms = interval_ms;
  figures.counts[DurationBuckets::BucketOf(ns)] = timed;
  char bytes[kv::ClientFigures::kMaxBytes];
  return std::string(bytes, figures.Encode(bytes));
}

class WorkerFiguresTest : public testing::Test {
 protected:
  explicit WorkerFiguresTest(uint32_t figures_ms = ClientFigures::kIntervalMs)
      : t_(32 << 20, 16, 100, 3, /*users=*/nullptr, kTestWindow, /*evict=*/false, /*stream=*/nullptr, figures_ms) {}

  void Report(FakeCall* call, absl::string_view value) {
    kv::Request request;
    request.type = kv::RequestType::kFigures;
    request.value = value;
    call->peer.Send(Encode(request));
    t_.PollAll();
  }
  void Pass(int64_t seconds) {
    t_.clock.now_ns += seconds * kSecondNs;
    t_.PollAll();
  }
  const WorkerStats& stats() { return t_.worker().stats(); }
  uint64_t Quantile(double share) {
    DurationBuckets buckets;
    for (size_t i = 0; i < DurationBuckets::kBuckets; ++i) buckets.Add(i, stats().get_times[i].value());
    return buckets.Quantile(share);
  }

  TestWorker t_;
  FakeCall* call_ = t_.Connect();
};

class UnaskedFiguresTest : public WorkerFiguresTest {
 protected:
  UnaskedFiguresTest() : WorkerFiguresTest(0) {}
};

TEST(ClientFiguresMessage, IsPinned) {
  EXPECT_EQ(absl::BytesToHexString(Value(0x1234, 0x1000, 10'000, 130, 3)),
            "3412000000000000"
            "0010000000000000"
            "1027000006000000"
            "000000000000000000000000000000000000000003000000");
}

TEST_F(WorkerFiguresTest, TheWelcomeAsksForThemAndTheyCountAndHaveNoReply) {
  EXPECT_EQ(TestWorker::WelcomeOf(call_).figures_ms, ClientFigures::kIntervalMs);
  Pass(10);
  Report(call_, Value(1'000'000, 900'000, 10'000, 500, 1000));
  EXPECT_EQ(stats().client_gets.value(), 1'000'000u);
  EXPECT_EQ(stats().client_hits.value(), 900'000u);
  EXPECT_EQ(stats().client_gets_per_s.value(), 100'000u);
  EXPECT_EQ(stats().reporting_clients.value(), 1u);
  EXPECT_EQ(Quantile(0.99), 512u);
  EXPECT_TRUE(call_->peer.sent.empty());
  EXPECT_EQ(stats().dropped.value(), 0u);
  // Expect: the next report replaces this one, except for the counted gets.
  Pass(10);
  Report(call_, Value(500'000, 0, 10'000, 5'000, 1000));
  EXPECT_EQ(stats().client_gets.value(), 1'500'000u);
  EXPECT_EQ(stats().client_gets_per_s.value(), 50'000u);
  EXPECT_EQ(stats().reporting_clients.value(), 1u);
  EXPECT_GT(Quantile(0.01), 4'000u);
}

TEST_F(WorkerFiguresTest, FiguresLeaveWithTheirClientOrWhenTheyAreOld) {
  FakeCall* other = t_.Connect();
  Pass(10);
  Report(call_, Value(1000, 1000, 10'000, 500, 10));
  Report(other, Value(1000, 1000, 10'000, 1'000'000'000, 10));
  EXPECT_EQ(stats().reporting_clients.value(), 2u);
  EXPECT_GT(Quantile(0.99), 500'000'000u);
  other->peer.Break();
  t_.PollAll();
  EXPECT_EQ(stats().reporting_clients.value(), 1u);
  EXPECT_EQ(Quantile(0.999), 512u);
  EXPECT_EQ(stats().client_gets_per_s.value(), 100u);
  EXPECT_EQ(stats().client_gets.value(), 2000u);
  Pass(34);
  EXPECT_EQ(stats().reporting_clients.value(), 1u);
  EXPECT_LE(t_.worker().due_ns(), t_.clock.now_ns + kSecondNs);
  Pass(2);
  EXPECT_EQ(stats().reporting_clients.value(), 0u);
  EXPECT_EQ(stats().client_gets_per_s.value(), 0u);
  EXPECT_EQ(Quantile(0.999), 0u);
  EXPECT_EQ(stats().client_gets.value(), 2000u);
}

TEST_F(WorkerFiguresTest, WhoClaimsMoreThanAClientCanDoCountsForWhatItCan) {
  FakeCall* liar = t_.Connect();
  Pass(10);
  Report(call_, Value(1'000'000'000, 1, 10'000, 500, 1000));  // 100 million a second are believed
  EXPECT_EQ(stats().clipped_figures.value(), 0u);
  for (int i = 0; i < 100; ++i) {
    Report(liar, Value(std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint64_t>::max(), 1, ~uint64_t{0},
                       std::numeric_limits<uint32_t>::max()));
  }
  EXPECT_EQ(stats().clipped_figures.value(), 100u);
  EXPECT_LE(stats().client_gets.value(), 2'001'000'000u);
  EXPECT_LE(stats().client_gets_per_s.value(), 200'000'000u);
  Pass(1);
  Report(liar, Value(std::numeric_limits<uint64_t>::max(), 0, 1, ~uint64_t{0}, 1));
  EXPECT_LE(stats().client_gets.value(), 2'101'000'000u);
  // Expect: its latencies weigh no more than these gets, and leave with it.
  EXPECT_EQ(Quantile(0.5), 512u);
  liar->peer.Break();
  t_.PollAll();
  EXPECT_EQ(Quantile(0.999), 512u);
  EXPECT_EQ(stats().client_gets_per_s.value(), 100'000'000u);
}

TEST_F(WorkerFiguresTest, WhatIsMalformedEndsTheConnection) {
  const std::string whole = Value(10, 8, 10'000, 500, 3);
  std::string reserved = whole;
  reserved[22] = 1;
  std::string many = Value(10, 8, 10'000, 500, 3);
  many.resize(kv::ClientFigures::kMaxBytes + 4);
  many[20] = DurationBuckets::kBuckets + 1;
  for (const std::string& value :
       {whole.substr(0, 23), whole.substr(0, whole.size() - 4), reserved, many, Value(10, 8, 0, 500, 3),
        Value(/*gets=*/1, /*hits=*/2, 10'000, 500, 3), std::string()}) {
    const uint64_t before = stats().dropped.value();
    call_ = t_.Connect();
    Report(call_, value);
    EXPECT_EQ(stats().dropped.value(), before + 1) << value.size() << " bytes";
  }
  EXPECT_EQ(stats().reporting_clients.value(), 0u);
}

TEST_F(UnaskedFiguresTest, WhoWasNotAskedMustNotTell) {
  EXPECT_EQ(TestWorker::WelcomeOf(call_).figures_ms, 0u);
  Report(call_, Value(10, 8, 10'000, 500, 3));
  EXPECT_EQ(stats().dropped.value(), 1u);
}

}  // namespace
}  // namespace farlook::server
