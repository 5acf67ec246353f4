// Every unit of a region is accounted for: with the header, the index, blocks of items, or free memory.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/limits.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"

namespace farlook::kv {
namespace {

class AccountingTest : public testing::TestWithParam<int> {
 protected:
  AccountingTest() : memory_(64 << 20) {
    TableOptions options;
    options.incarnation = 7;
    options.partitions = GetParam();
    table_ = *Table::Create(memory_.span(), options);
  }
  // REQUIRES the table has no item.
  void ExpectAllAccountedFor() {
    const TableStats stats = table_->stats();
    const uint64_t directory_bytes = uint64_t{8} << stats.level;
    EXPECT_EQ(stats.free_bytes + stats.index_bytes - directory_bytes + stats.overhead_bytes, stats.region_bytes);
    for (const TableStats::Blocks& blocks : stats.blocks) EXPECT_EQ(blocks.bytes, 0u);
    EXPECT_EQ(stats.used_bytes, 0u);
    EXPECT_EQ(stats.keys, 0u);
    EXPECT_EQ(stats.key_bytes, 0u);
    EXPECT_EQ(stats.value_bytes, 0u);
  }

  TestMemory memory_;
  std::unique_ptr<Table> table_;
};

TEST_P(AccountingTest, OfANewTable) { ExpectAllAccountedFor(); }

TEST_P(AccountingTest, AfterAllKeysAreDeleted) {
  std::vector<std::string> keys;
  for (int i = 0; i < 25'000; ++i) {
    std::string key = absl::StrCat("key", i);
    const std::string value(i % 3 * 50, 'v');
    const Code code = table_->Put(table_->HashOf(key), key, value, Condition::kAlways, 0, i * 10'000).code;
    if (code == Code::kOk) keys.push_back(std::move(key));
  }
  EXPECT_GT(keys.size(), 20'000u);
  EXPECT_GT(table_->stats().splits, 0u);
  for (const std::string& key : keys) {
    ASSERT_EQ(table_->Delete(table_->HashOf(key), key, Condition::kAlways, 0, 0).code, Code::kOk);
  }
  ExpectAllAccountedFor();
}

INSTANTIATE_TEST_SUITE_P(Partitions, AccountingTest, testing::Values(1, 4, 8));

}  // namespace
}  // namespace farlook::kv
