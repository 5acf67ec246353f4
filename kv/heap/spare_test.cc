// Consecutive overwrites in a full table, and what may happen to an item while it is in the spare. room_test
// measures how many succeed, of which sizes; store_order_test tests what readers see.
#include "kv/heap/spare.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/test_region.h"
#include "kv/layout/words.h"
#include "kv/table/table.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kKiB = 1 << 10;

TEST(ClassCountsTest, KnowTheLongest) {
  ClassCounts counts;
  EXPECT_EQ(counts.longest_bytes(), SizeClassBytes(0));
  for (const uint64_t bytes : {96u, 4096u, 4096u, 1024u}) counts.Add(bytes);
  EXPECT_EQ(counts.longest_bytes(), 4096u);
  EXPECT_FALSE(counts.Remove(1024));
  EXPECT_FALSE(counts.Remove(4096));
  EXPECT_TRUE(counts.Remove(4096));
  EXPECT_EQ(counts.longest_bytes(), 96u);
  EXPECT_TRUE(counts.Remove(96));
  EXPECT_EQ(counts.longest_bytes(), SizeClassBytes(0));
}

// A table full of items of 600 KiB to 1.5 MiB, so that two are unlikely to have the same length.
class SpareTest : public testing::Test {
 protected:
  SpareTest() : memory_(32 * kMiB) {
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.partitions = 4;
    options.max_value_bytes = 2 * kMiB;
    table_ = *Table::Create(memory_.span(), options);
    Put("longest", 1536 * kKiB);
    while (Put(absl::StrCat("key", lengths_.size()), (600 + random_() % 900) * kKiB) == Code::kOk) {
    }
  }

  static std::string ValueOf(absl::string_view key, uint64_t bytes, uint64_t turn) {
    std::string value = absl::StrCat(key, " ", turn, " ");
    value.resize(bytes, static_cast<char>('a' + turn % 26));
    return value;
  }
  uint64_t Hash(absl::string_view key) const { return table_->HashOf(key); }

  template <class Write>
  static Code Repeat(Write write) {
    for (int i = 0; i < 100'000; ++i) {
      if (const Code code = write(); code != Code::kMakingRoom) return code;
    }
    return Code::kMakingRoom;
  }
  Code Put(const std::string& key, uint64_t bytes) {
    const std::string value = ValueOf(key, bytes, ++turn_);
    const Code code =
        Repeat([&] { return table_->Put(Hash(key), key, value, Condition::kAlways, 0, now_ += 1000).code; });
    if (code != Code::kOk) return code;
    lengths_[key] = bytes;
    turns_[key] = turn_;
    return code;
  }
  Code Delete(const std::string& key) {
    lengths_.erase(key);
    return table_->Delete(Hash(key), key, Condition::kAlways, 0, now_).code;
  }
  Code Reserve(const std::string& key, uint64_t bytes, Reservation* reservation) {
    return table_->Reserve(Hash(key), key, bytes, reservation, now_);
  }
  Code Publish(const std::string& key, const Reservation& reservation) {
    const std::string value = ValueOf(key, reservation.value.size(), ++turn_);
    StoreBytes(reservation.value.data(), value.data(), value.size());
    const Code code = Repeat([&] { return table_->Publish(reservation, PutParams(), now_ += 1000).code; });
    if (code != Code::kOk) return code;
    lengths_[key] = value.size();
    turns_[key] = turn_;
    return code;
  }

  void ExpectAllThere() {
    EXPECT_EQ(table_->stats().keys, lengths_.size());
    for (const auto& [key, bytes] : lengths_) {
      ItemView item;
      ASSERT_EQ(table_->Get(Hash(key), key, &item).code, Code::kOk) << key;
      ASSERT_TRUE(item.value == ValueOf(key, bytes, turns_[key])) << key;
    }
  }
  void ExpectOverwritesGoOn(int rounds = 3) {
    for (int round = 0; round < rounds; ++round) {
      for (const auto& [key, bytes] : std::map<std::string, uint64_t>(lengths_)) {
        ASSERT_EQ(Put(key, bytes), Code::kOk) << key << " of " << bytes << " bytes, round " << round;
      }
    }
    ExpectAllThere();
  }
  // Checks that no piece is lost: when everything is deleted, all memory is free.
  void TearDown() override {
    ExpectAllThere();
    for (const auto& [key, bytes] : std::map<std::string, uint64_t>(lengths_)) EXPECT_EQ(Delete(key), Code::kOk);
    const TableStats stats = table_->stats();
    EXPECT_EQ(stats.used_bytes, 0u);
    EXPECT_EQ(stats.free_bytes + stats.index_bytes - (uint64_t{8} << stats.level) + stats.overhead_bytes,
              stats.region_bytes);
  }

  TestMemory memory_;
  std::unique_ptr<Table> table_;
  std::mt19937_64 random_{1};
  std::map<std::string, uint64_t> lengths_, turns_;
  uint64_t turn_ = 0;
  int64_t now_ = 0;
};

TEST_F(SpareTest, OverwritesOfAFullTableGoOnForEver) { ExpectOverwritesGoOn(kSanitized ? 2 : 20); }

TEST_F(SpareTest, ShorterOnesToo) {
  while (lengths_["longest"] > 8 * kKiB) {
    for (const auto& [key, bytes] : std::map<std::string, uint64_t>(lengths_)) {
      ASSERT_EQ(Put(key, bytes - bytes / 8), Code::kOk) << key << " of " << bytes << " bytes";
    }
  }
}

TEST_F(SpareTest, ItServesOneAtATimeAndComesBackWhenThatIsAbandoned) {
  Reservation first, second;
  ASSERT_EQ(Reserve("longest", lengths_["longest"], &first), Code::kOk);
  ASSERT_EQ(Reserve("key3", lengths_["key3"], &second), Code::kMakingRoom);
  table_->Abandon(first);
  ASSERT_EQ(Reserve("key3", lengths_["key3"], &second), Code::kOk);
  EXPECT_EQ(Publish("key3", second), Code::kOk);
  ExpectOverwritesGoOn();
}

TEST_F(SpareTest, AnItemIsDeletedBeforeItIsHome) {
  const uint64_t free_bytes = table_->stats().free_bytes;
  ASSERT_EQ(Put("key3", lengths_["key3"]), Code::kOk);
  EXPECT_EQ(table_->stats().free_bytes, free_bytes);
  const uint64_t bytes = lengths_["key3"];
  ASSERT_EQ(Delete("key3"), Code::kOk);
  EXPECT_GE(table_->stats().free_bytes, free_bytes + bytes);
  ExpectOverwritesGoOn();
}

TEST_F(SpareTest, AnItemIsOverwrittenBeforeItIsHome) {
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Put("key3", lengths_["key3"]), Code::kOk);
  ExpectOverwritesGoOn();
}

TEST_F(SpareTest, TheKeyIsDeletedBeforeItsNewValueIsPublished) {
  Reservation reservation;
  ASSERT_EQ(Reserve("key3", lengths_["key3"], &reservation), Code::kOk);
  ASSERT_EQ(Delete("key3"), Code::kOk);
  EXPECT_EQ(Publish("key3", reservation), Code::kOk);
  ExpectOverwritesGoOn();
}

TEST_F(SpareTest, TheKeyHasAShorterValueBeforeItsNewOneIsPublished) {
  Reservation reservation;
  ASSERT_EQ(Reserve("key3", lengths_["key3"], &reservation), Code::kOk);
  const uint64_t bytes = lengths_["key3"];
  ASSERT_EQ(Put("key3", 10), Code::kOk);
  EXPECT_EQ(Publish("key3", reservation), Code::kOk);
  EXPECT_EQ(lengths_["key3"], bytes);
  ExpectOverwritesGoOn();
}

TEST_F(SpareTest, TheRoomOfTheKeyThatWasDeletedIsTakenByOthers) {
  Reservation reservation;
  ASSERT_EQ(Reserve("key3", lengths_["key3"], &reservation), Code::kOk);
  ASSERT_EQ(Delete("key3"), Code::kOk);
  for (int i = 0; Put(absl::StrCat("other", i), 60 * kKiB) == Code::kOk; ++i) {
  }
  EXPECT_EQ(Publish("key3", reservation), Code::kNoMemory);
  ExpectOverwritesGoOn();
}

TEST_F(SpareTest, ShrinksWithTheLongestItem) {
  const TableStats before = table_->stats();
  ASSERT_EQ(Delete("longest"), Code::kOk);
  uint64_t longest = 0;
  for (const auto& [key, bytes] : lengths_) longest = std::max(longest, bytes);
  EXPECT_LT(table_->stats().reserve_bytes, before.reserve_bytes);
  ExpectOverwritesGoOn();
  for (const auto& [key, bytes] : std::map<std::string, uint64_t>(lengths_)) {
    if (key != "key3") {
      ASSERT_EQ(Delete(key), Code::kOk);
    }
  }
  EXPECT_LE(table_->stats().reserve_bytes, before.reserve_bytes);
}

}  // namespace
}  // namespace farlook::kv
