// A table that is a cache: which items stay, which are evicted, and that there is always room.
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/layout/item.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class TableEvictionTest : public testing::TestWithParam<int> {
 protected:
  void Make(uint64_t bytes, bool evict = true) {
    memory_ = std::make_unique<TestMemory>(bytes);
    TableOptions options;
    options.incarnation = 0x1234;
    options.hash_seed = 42;
    options.partitions = GetParam();
    options.clock = &clock_;
    options.evict = evict;
    table_ = *Table::Create(memory_->span(), options);
    reader_ = std::make_unique<TestReader>(memory_->span());
    reader_->clock = &clock_;
  }

  WriteResult Put(absl::string_view key, absl::string_view value, PutParams params = {}) {
    WriteResult result;
    for (int calls = 0; calls < 100'000; ++calls) {
      now_ += 1000;
      // Like the server: first without a step.
      params.may_step = calls % 2 == 1;
      result = table_->Put(table_->HashOf(key), key, value, params, now_);
      if (result.code != Code::kMakingRoom) break;
    }
    return result;
  }
  // A value that identifies its key.
  static std::string ValueOf(absl::string_view key, size_t bytes) {
    std::string value;
    while (value.size() < bytes) absl::StrAppend(&value, key, ";");
    value.resize(bytes);
    return value;
  }
  uint64_t evictions() const {
    uint64_t sum = 0;
    for (const TableStats::Evictions& of : table_->stats().evictions) sum += of.evictions;
    return sum;
  }

  std::unique_ptr<TestMemory> memory_;
  TestClock clock_;
  std::unique_ptr<Table> table_;
  std::unique_ptr<TestReader> reader_;
  int64_t now_ = 5'000'000'000;
};

TEST_P(TableEvictionTest, AStoreRefusesAndACacheDoesNot) {
  for (const bool evict : {false, true}) {
    Make(16 * kMiB, evict);
    int refused = 0;
    for (int i = 0; i < 30'000; ++i) {
      const Code code = Put(absl::StrCat(i), ValueOf(absl::StrCat(i), 1000)).code;
      if (code != Code::kOk) {
        ASSERT_EQ(code, Code::kNoMemory);
        ++refused;
      } else if (evict) {
        ASSERT_EQ(reader_->Get(absl::StrCat(i)), ValueOf(absl::StrCat(i), 1000));
      }
    }
    EXPECT_EQ(refused == 0, evict);
    EXPECT_EQ(evictions() > 10'000, evict);
    // The memory is used.
    EXPECT_GT(table_->stats().keys, 10'000u);
  }
}

TEST_P(TableEvictionTest, WhatIsEvictedIsNotFoundAndWhatIsFoundIsRight) {
  Make(16 * kMiB);
  std::mt19937_64 random(1);
  uint64_t found = 0;
  for (int i = 0; i < 60'000; ++i) {
    const std::string key = absl::StrCat(random() % 20'000);
    const auto got = reader_->Get(key);
    if (got.has_value()) {
      ASSERT_EQ(*got, ValueOf(key, got->size()));
      ++found;
      if (i % 4 == 0) {
        EXPECT_TRUE(table_->Touched(reader_->lookup().slot()));
      }
    } else {
      ASSERT_EQ(Put(key, ValueOf(key, random() % 3000), {.refill = true}).code, Code::kOk);
    }
  }
  EXPECT_GT(found, 5'000u);
  EXPECT_GT(evictions(), 1'000u);
  EXPECT_GT(table_->stats().ghost_hits, 0u);
  EXPECT_EQ(reader_->gave_up(), 0u);
}

TEST_P(TableEvictionTest, WhatIsKeptStaysUntilAPutSaysOtherwise) {
  Make(16 * kMiB);
  const auto kept = [](int i) { return absl::StrCat("kept", i); };
  for (int i = 0; i < 2000; ++i) {
    PutParams params;
    params.flags = kKeepItem;
    ASSERT_EQ(Put(kept(i), ValueOf(kept(i), 500 + i), params).code, Code::kOk);
  }
  std::vector<WriteResult> counters;
  for (int i = 0; i < 100; ++i) {
    const std::string key = absl::StrCat("counter", i);
    ASSERT_EQ(table_->InsertCounter(table_->HashOf(key), key, 64 * (i + 1), ++now_).code, Code::kOk);
  }
  const auto flood = [this] {
    for (int i = 0; i < 30'000; ++i) {
      ASSERT_EQ(Put(absl::StrCat(i), ValueOf(absl::StrCat(i), 200 + i % 1800)).code, Code::kOk);
    }
  };
  flood();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(reader_->Get(kept(i)), ValueOf(kept(i), 500 + i)) << i;
    EXPECT_FALSE(table_->Touched(reader_->lookup().slot())) << "it is not known to who evicts";
  }
  for (int i = 0; i < 100; ++i) {
    const std::string key = absl::StrCat("counter", i);
    uint64_t cell = 0;
    ASSERT_EQ(table_->FindCounter(table_->HashOf(key), key, &cell), Code::kOk);
    EXPECT_EQ(cell, 64u * (i + 1));
  }
  // Written in place, without the flag: from now on it may be evicted.
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(Put(kept(i), ValueOf(kept(i), 500 + i)).code, Code::kOk);
  flood();
  int left = 0;
  for (int i = 0; i < 2000; ++i) left += reader_->Get(kept(i)).has_value();
  EXPECT_LT(left, 200);
}

TEST_P(TableEvictionTest, WhereAllIsKeptItRefuses) {
  Make(16 * kMiB);
  PutParams keep;
  keep.flags = kKeepItem;
  int stored = 0;
  while (Put(absl::StrCat("kept", stored), ValueOf("", 0) + std::string(1000, 'k'), keep).code == Code::kOk) ++stored;
  EXPECT_GT(stored, 10'000);
  int refused = 0;  // at least one partition is full
  for (int i = 0; i < 50; ++i) refused += Put(absl::StrCat("other", i), std::string(1000, 'o'), keep).code != Code::kOk;
  EXPECT_GT(refused, 0);
  // Existing items can be overwritten.
  for (int i = 0; i < stored; ++i) {
    ASSERT_EQ(Put(absl::StrCat("kept", i), std::string(1000, 'n'), keep).code, Code::kOk);
  }
  EXPECT_EQ(evictions(), 0u);
}

TEST_P(TableEvictionTest, ConditionsOnAKeyThatWasEvictedFindNone) {
  Make(16 * kMiB);
  const WriteResult first = Put("k", "v");
  for (int i = 0; i < 40'000; ++i) ASSERT_EQ(Put(absl::StrCat(i), std::string(1000, 'v')).code, Code::kOk);
  ASSERT_EQ(reader_->Get("k"), std::nullopt);
  PutParams params{Condition::kVersion, first.version};
  EXPECT_EQ(Put("k", "w", params).code, Code::kNotFound);
  EXPECT_EQ(table_->Delete(table_->HashOf("k"), "k", Condition::kAlways, 0, now_).code, Code::kNotFound);
  EXPECT_EQ(table_->Touch(table_->HashOf("k"), "k", 0, now_).code, Code::kNotFound);
  EXPECT_GT(Put("k", "w", {Condition::kAbsent}).version, first.version);
}

TEST_P(TableEvictionTest, AnItemThatGrowsIsNotEvictedForItself) {
  Make(16 * kMiB);
  for (int i = 0; i < 30'000; ++i) ASSERT_EQ(Put(absl::StrCat(i), std::string(1000, 'v')).code, Code::kOk);
  std::mt19937_64 random(3);
  uint64_t grown = 0;
  for (int i = 0; i < 5'000; ++i) {
    const std::string key = absl::StrCat(20'000 + random() % 10'000);
    if (!reader_->Get(key).has_value()) continue;
    // With a condition: if the key had been evicted meanwhile, the put would fail.
    ASSERT_EQ(Put(key, ValueOf(key, 1000 + random() % 3000), {Condition::kPresent}).code, Code::kOk);
    ++grown;
  }
  EXPECT_GT(grown, 1000u);
}

// From one kind of block to the next, and back: memory moves to the kind that needs it.
TEST_P(TableEvictionTest, SizesThatDriftFindRoom) {
  Make(64 * kMiB);
  const auto write = [&](absl::string_view what, size_t bytes, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = absl::StrCat(what, i);
      ASSERT_EQ(Put(key, ValueOf(key, bytes)).code, Code::kOk) << key;
      ASSERT_EQ(reader_->Get(key), ValueOf(key, bytes)) << key;
      now_ += 1'000'000;
    }
  };
  const int part = kSanitized ? 5 : 1;
  write("small", 900, 80'000 / part);
  write("medium", 20'000, 5'000 / part);
  write("large", 300'000, 500 / part);
  write("run", 2'000'000, 50 / part);
  write("tiny", 10, 200'000 / part);
  write("medium again", 50'000, 3'000 / part);
  const TableStats stats = table_->stats();
  EXPECT_GT(stats.keys, 0u);
}

TEST_P(TableEvictionTest, MixedSizesUseMostOfTheMemory) {
  Make(64 * kMiB);
  std::mt19937_64 random(5);
  for (int i = 0; i < 60'000; ++i) {
    const std::string key = absl::StrCat(i);
    const size_t bytes = size_t{1} << (random() % 13) << (random() % 4);
    ASSERT_EQ(Put(key, ValueOf(key, bytes + random() % bytes)).code, Code::kOk) << i;
  }
  const TableStats stats = table_->stats();
  EXPECT_GT(stats.key_bytes + stats.value_bytes + stats.keys * 32, stats.region_bytes * 7 / 10);
}

TEST_P(TableEvictionTest, WhatHasExpiredGoesFirst) {
  Make(16 * kMiB);
  for (int i = 0; i < 5'000; ++i) ASSERT_EQ(Put(absl::StrCat("live", i), std::string(1000, 'v')).code, Code::kOk);
  PutParams soon;
  soon.expiry_ms = clock_.now_us / 1000 + 1000;
  for (int i = 0; evictions() == 0; ++i) {
    ASSERT_EQ(Put(absl::StrCat("soon", i), std::string(1000, 'v'), soon).code, Code::kOk);
  }
  clock_.now_us += 2'000'000;
  const uint64_t before = evictions();
  for (int i = 0; i < 3'000; ++i) ASSERT_EQ(Put(absl::StrCat("new", i), std::string(1000, 'v')).code, Code::kOk);
  EXPECT_LT(evictions() - before, 300u);
  EXPECT_GT(table_->stats().expired_items, 2'500u);
}

TEST_P(TableEvictionTest, TouchesOfNonsenseAreIgnored) {
  Make(16 * kMiB);
  std::mt19937_64 random(9);
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(Put(absl::StrCat(i), std::string(1000, 'v')).code, Code::kOk);
  uint64_t taken = 0;
  for (int i = 0; i < 100'000; ++i) taken += table_->Touched(Slot(random()));
  EXPECT_EQ(taken, 0u) << "random words lead out of the region";
  for (int i = 0; i < 100'000; ++i) {
    taken += table_->Touched(Slot(7, 3, random() % (16 * kMiB / kGranuleBytes) * kGranuleBytes));
  }
  EXPECT_LT(taken, 100'000u / 8) << "a piece begins at few places";
  Make(16 * kMiB, /*evict=*/false);
  const WriteResult put = Put("k", "v");
  EXPECT_FALSE(table_->Touched(put.slot));
}

TEST_P(TableEvictionTest, ALongValueTakesFromAll) {
  Make(64 * kMiB);
  for (int i = 0; i < 80'000; ++i) ASSERT_EQ(Put(absl::StrCat(i), std::string(900, 'v')).code, Code::kOk);
  for (int i = 0; i < 8; ++i) {
    const std::string key = absl::StrCat("long", i);
    ASSERT_EQ(Put(key, std::string(4 * kMiB, 'v')).code, Code::kOk) << i;
    EXPECT_TRUE(reader_->Get(key).has_value());
  }
  EXPECT_GT(table_->stats().keys, 10'000u) << "the others keep what is left";
}

INSTANTIATE_TEST_SUITE_P(Partitions, TableEvictionTest, testing::Values(1, 4),
                         [](const auto& partitions) { return absl::StrCat(partitions.param); });

}  // namespace
}  // namespace farlook::kv
