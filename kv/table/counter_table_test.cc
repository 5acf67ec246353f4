// Counters' items in the table: a separate kind, distinct from values.
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/item.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"

namespace farlook::kv {
namespace {

class CounterTableTest : public testing::Test {
 protected:
  CounterTableTest() : memory_(16 << 20) {
    TableOptions options;
    options.incarnation = 1;
    options.max_value_bytes = 4;  // applies to values only
    table_ = *Table::Create(memory_.span(), options);
  }

  WriteResult Insert(absl::string_view key, uint64_t cell) {
    return table_->InsertCounter(table_->HashOf(key), key, cell, 1);
  }
  WriteResult DeleteCounter(absl::string_view key) { return table_->DeleteCounter(table_->HashOf(key), key); }
  Code Find(absl::string_view key, uint64_t* cell) { return table_->FindCounter(table_->HashOf(key), key, cell); }
  WriteResult Put(absl::string_view key, absl::string_view value) {
    return table_->Put(table_->HashOf(key), key, value, Condition::kAlways, 0, 1);
  }

  TestMemory memory_;
  std::unique_ptr<Table> table_;
  uint64_t cell_ = 0;
};

TEST_F(CounterTableTest, ACounterIsFoundWithItsCellUntilItIsDeleted) {
  const WriteResult inserted = Insert("hits", 64);
  ASSERT_EQ(inserted.code, Code::kOk);
  EXPECT_NE(inserted.version, 0u);
  EXPECT_EQ(Find("hits", &cell_), Code::kOk);
  EXPECT_EQ(cell_, 64u);
  EXPECT_EQ(Insert("hits", 128).code, Code::kExists);
  EXPECT_EQ(DeleteCounter("hits").code, Code::kOk);
  EXPECT_EQ(Find("hits", &cell_), Code::kNotFound);
  EXPECT_EQ(DeleteCounter("hits").code, Code::kNotFound);
  EXPECT_EQ(Insert("hits", 128).code, Code::kOk);
  EXPECT_EQ(Find("hits", &cell_), Code::kOk);
  EXPECT_EQ(cell_, 128u);
}

TEST_F(CounterTableTest, ValuesAndCountersDoNotTakeEachOthersPlace) {
  ASSERT_EQ(Insert("hits", 64).code, Code::kOk);
  ASSERT_EQ(Put("name", "abc").code, Code::kOk);
  EXPECT_EQ(Put("hits", "abc").code, Code::kWrongKind);
  const uint64_t hash = table_->HashOf("hits");
  EXPECT_EQ(table_->Delete(hash, "hits", Condition::kAlways, 0, 1).code, Code::kWrongKind);
  EXPECT_EQ(Insert("name", 64).code, Code::kWrongKind);
  EXPECT_EQ(DeleteCounter("name").code, Code::kWrongKind);
  EXPECT_EQ(Find("name", &cell_), Code::kWrongKind);
  EXPECT_EQ(Find("hits", &cell_), Code::kOk);
}

TEST_F(CounterTableTest, AReaderSeesAnItemOfAnotherKind) {
  ASSERT_EQ(Insert("hits", 64).code, Code::kOk);
  TestReader reader(memory_.span());
  ASSERT_TRUE(reader.Get("hits").has_value());
  EXPECT_EQ(reader.lookup().item().kind, ItemKind::kCounter);
}

TEST_F(CounterTableTest, CountersSurviveGrowthAndCompactionOfTheTable) {
  uint64_t count = 0;
  while (Insert(absl::StrCat("counter", count), 64 * (count + 1)).code == Code::kOk) ++count;
  ASSERT_GT(count, 50'000u);
  for (uint64_t i = 0; i < count; ++i) {
    if (i % 8 != 0) {
      ASSERT_EQ(DeleteCounter(absl::StrCat("counter", i)).code, Code::kOk);
    }
  }
  // Items of another size need units, so blocks of the counters are emptied.
  const std::string long_key(900, 'k');
  for (int i = 0; i < 4000; ++i) Put(absl::StrCat(long_key, i), "v");
  EXPECT_GT(table_->stats().moved_items, 0u);
  for (uint64_t i = 0; i < count; i += 8) {
    ASSERT_EQ(Find(absl::StrCat("counter", i), &cell_), Code::kOk) << i;
    ASSERT_EQ(cell_, 64 * (i + 1));
  }
}

}  // namespace
}  // namespace farlook::kv
