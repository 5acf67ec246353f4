#include "server/executor/request_times.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "kv/wire/duration_buckets.h"
#include "kv/wire/message.h"
#include "server/base/worker_stats.h"

namespace farlook::server {
namespace {

using kv::RequestType;

constexpr int64_t kMsNs = 1'000'000;

uint64_t Timed(const WorkerStats& stats, RequestType type) {
  uint64_t sum = 0;
  for (const Counter& counter : stats.request_times[static_cast<size_t>(type)]) sum += counter.value();
  return sum;
}

TEST(RequestTimes, OneInSoManyIsTimedAndOneThatWaitsIsNotReplaced) {
  WorkerStats stats;
  RequestTimes times(/*slow_ns=*/0, &stats);
  OpenRequests open;
  times.Welcome(256, &open);
  uint64_t number = 0;
  const auto next = [&] {
    while (!times.Due()) ++number;
    ++number;
  };
  next();
  EXPECT_EQ(number, RequestTimes::kSample);
  times.Begin(number, RequestType::kPutPulled, 0, &open);
  const uint64_t waits = number;
  next();
  EXPECT_EQ(number, 2 * RequestTimes::kSample);
  times.Begin(number, RequestType::kPut, 5 * kMsNs, &open);
  EXPECT_NE(open.at(number).number, number) << "one waits";
  ASSERT_EQ(open.at(waits).number, waits);
  EXPECT_FALSE(times.End(&open.at(waits), 9 * kMsNs)) << "nothing is slow where none is looked for";
  EXPECT_EQ(Timed(stats, RequestType::kPutPulled), 1u);
  EXPECT_EQ(Timed(stats, RequestType::kPut), 0u);
  const size_t bucket = kv::DurationBuckets::BucketOf(9 * kMsNs);
  EXPECT_EQ(stats.request_times[static_cast<size_t>(RequestType::kPutPulled)][bucket].value(), 1u);
  next();
  times.Begin(number, RequestType::kPut, 0, &open);
  EXPECT_EQ(open.at(number).number, number);
}

TEST(RequestTimes, WhereSlowOnesAreLookedForEachIsTimedHoweverManyWait) {
  WorkerStats stats;
  RequestTimes times(/*slow_ns=*/10 * kMsNs, &stats);
  OpenRequests open;
  times.Welcome(12, &open);
  for (uint64_t number = 1; number <= 12; ++number) {
    ASSERT_TRUE(times.Due());
    times.Begin(number, RequestType::kPut, 0, &open);
  }
  EXPECT_TRUE(times.End(&open.at(12), 10 * kMsNs));
  EXPECT_FALSE(times.End(&open.at(1), 10 * kMsNs - 1));
  EXPECT_EQ(stats.slow_requests.value(), 1u);
  EXPECT_EQ(Timed(stats, RequestType::kPut), 2u);
  EXPECT_NE(open.at(1).number, 1u) << "each once";
}

TEST(OpenRequests, HoldABoundedNumberWhateverTheWindow) {
  OpenRequests open;
  open.HoldAll(1u << 20);
  EXPECT_NE(&open.at(1), &open.at(OpenRequests::kMost));
  EXPECT_EQ(&open.at(1), &open.at(1 + OpenRequests::kMost));
  open.HoldAll(4);
  EXPECT_EQ(&open.at(1), &open.at(5));
}

}  // namespace
}  // namespace farlook::server
