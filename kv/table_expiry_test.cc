// What the sweep finds in a table whose segments split and merge meanwhile.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/expiry.h"
#include "kv/table.h"
#include "kv/test_region.h"

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
  std::vector<uint64_t> due_ms;  // but of those that never are
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
    const uint64_t over_ms = now_ms >> ExpiryIndex::kTickBits << ExpiryIndex::kTickBits;  // the ticks before that
    const auto left = due_ms.end() - std::lower_bound(due_ms.begin(), due_ms.end(), over_ms);
    const auto not_due = due_ms.end() - std::upper_bound(due_ms.begin(), due_ms.end(), now_ms);
    ASSERT_LE(table->stats().keys, static_cast<uint64_t>(left) + kKeys / 10);
    ASSERT_GE(table->stats().keys, static_cast<uint64_t>(not_due) + kKeys / 10);
  }
  EXPECT_EQ(table->stats().expiry_bytes, 0u);
}

}  // namespace
}  // namespace farlook::kv
