// The sweep of a table whose segments split and merge meanwhile.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/expiry/expiry.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"

namespace farlook::kv {
namespace {

TEST(TableExpiryTest, NothingThatWasDueIsLeftAndNothingElseIsGone) {
  constexpr int kKeys = 100'000;
  TestMemory memory(32 << 20);
  TestClock clock;
  TableOptions options;
  options.incarnation = 7;
  options.hash_seed = 42;
  options.partitions = 2;
  options.clock = &clock;
  auto made = Table::Create(memory.span(), options);
  ASSERT_TRUE(made.ok()) << made.status();
  const std::unique_ptr<Table> table = *std::move(made);

  std::mt19937_64 random{6};
  int64_t now_ns = 1'000'000'000;
  std::vector<uint64_t> due_ms;  // except items that never expire
  for (int i = 0; i < kKeys; ++i) {
    PutParams params;
    if (i % 10 != 0) params.expiry_ms = clock.now_us / 1000 + 1'000 + random() % 60'000;
    const std::string key = absl::StrCat("key", i);
    ASSERT_EQ(table->Put(table->HashOf(key), key, "v", params, now_ns).code, Code::kOk);
    if (params.expiry_ms != 0) due_ms.push_back(params.expiry_ms);
  }
  ASSERT_GT(table->stats().overflow_keys, 0u);
  ASSERT_GT(table->stats().splits, 10u);
  std::sort(due_ms.begin(), due_ms.end());

  std::vector<ExpiredItem> counters;
  while (clock.now_us / 1000 < due_ms.back() + 1'000) {
    clock.now_us += 500'000;
    now_ns += 500'000'000;
    for (int i = 0; i < table->partitions(); ++i) {
      while (table->Sweep(i, /*budget=*/8, now_ns, &counters)) {
      }
      table->Tidy(i, now_ns);
    }
    const uint64_t now_ms = clock.now_us / 1000;
    const uint64_t over_ms = now_ms >> ExpiryIndex::kTickBits << ExpiryIndex::kTickBits;  // the end of the last
                                                                                          // complete tick
    const auto left = due_ms.end() - std::lower_bound(due_ms.begin(), due_ms.end(), over_ms);
    const auto not_due = due_ms.end() - std::upper_bound(due_ms.begin(), due_ms.end(), now_ms);
    ASSERT_LE(table->stats().keys, static_cast<uint64_t>(left) + kKeys / 10);
    ASSERT_GE(table->stats().keys, static_cast<uint64_t>(not_due) + kKeys / 10);
  }
  EXPECT_EQ(table->stats().expiry_bytes, 0u);
}

// A table full of items that all expire within a tick.
class FullTableTest : public testing::TestWithParam<int> {
 protected:
  FullTableTest() : memory_(16 << 20) {
    clock_.now_us = (uint64_t{1'000} << ExpiryIndex::kTickBits) * 1000;
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.partitions = GetParam();
    options.clock = &clock_;
    table_ = *Table::Create(memory_.span(), options);
    PutParams params;
    params.expiry_ms = clock_.now_us / 1000 + 10;
    for (Code code = Code::kOk; code != Code::kNoMemory; ++filled_) {
      code = PutUntilItIsDone(absl::StrCat("old", filled_), params);
    }
  }

  Code Put(absl::string_view key, PutParams params) {
    return table_->Put(table_->HashOf(key), key, "12345678", params, now_ns_ += 1'000).code;
  }
  // Like a worker, first without a step, but without a sweep.
  Code PutUntilItIsDone(absl::string_view key, PutParams params = {}) {
    Code code = Code::kMakingRoom;
    for (int i = 0; i < 1'000 && code == Code::kMakingRoom; ++i) {
      params.may_step = i > 0;
      code = Put(key, params);
    }
    return code;
  }

  TestMemory memory_;
  TestClock clock_;
  std::unique_ptr<Table> table_;
  int filled_ = 0;
  int64_t now_ns_ = 1'000'000'000;
};

INSTANTIATE_TEST_SUITE_P(Partitions, FullTableTest, testing::Values(1, 2));

TEST_P(FullTableTest, AWriteWithoutRoomRemovesWhatHasExpired) {
  ASSERT_GT(filled_, 50'000);
  // Expect: while nothing has expired it is refused, without waiting for anything.
  EXPECT_EQ(Put("new", {.may_step = false}), Code::kNoMemory);
  clock_.now_us += 1'000'000;
  for (int i = 0; i < filled_ / 2; ++i) {
    ASSERT_EQ(PutUntilItIsDone(absl::StrCat("new", i)), Code::kOk) << i << " of " << filled_;
  }
  EXPECT_GT(table_->stats().expired_items, 0u);
}

TEST_P(FullTableTest, AWriteWithoutRoomWaitsForWhatExpiredInTheTickThatIsNotOver) {
  clock_.now_us += 20'000;
  std::vector<ExpiredItem> counters;
  for (int i = 0; i < table_->partitions(); ++i) {
    EXPECT_FALSE(table_->Sweep(i, /*budget=*/8, now_ns_, &counters)) << "the tick is not over";
  }
  EXPECT_FALSE(table_->Swept(clock_.now_us));
  EXPECT_EQ(Put("new", {.may_step = false}), Code::kMakingRoom);
  for (int i = 0; i < table_->partitions(); ++i) {
    while (table_->Sweep(i, /*budget=*/8, now_ns_, &counters, /*to_now=*/true)) {
    }
    EXPECT_TRUE(table_->Swept(i, clock_.now_us));
  }
  EXPECT_TRUE(table_->Swept(clock_.now_us));
  EXPECT_EQ(table_->stats().keys, 0u);
  EXPECT_EQ(PutUntilItIsDone("new"), Code::kOk);
}

// After a round that found an item that has yet to expire, the next write without room needs no new round.
TEST_P(FullTableTest, WhatHasYetToExpireIsNoReasonToWait) {
  std::vector<ExpiredItem> counters;
  const uint64_t arrived_us = clock_.now_us += 5'000;
  for (int i = 0; i < table_->partitions(); ++i) {
    while (table_->Sweep(i, /*budget=*/8, now_ns_, &counters, /*to_now=*/true)) {
    }
  }
  EXPECT_TRUE(table_->Swept(arrived_us));
  EXPECT_EQ(table_->stats().expired_items, 0u);
  EXPECT_EQ(PutUntilItIsDone("new"), Code::kNoMemory);
}

}  // namespace
}  // namespace farlook::kv
