// Recovery: the value that a later server would find in the region if this one ended between any two stores of a write.
// It must be the old value, or the new one, with its expiry, and never the old one after the new one. The region must
// account for the index, units and versions that lead to it. Updates in place: store_order_rewrite_test.cc; moves:
// store_order_move_test.cc.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/table/store_order_testing.h"

namespace farlook::kv {
namespace {

class CrashTest : public StoreOrderTest {
 protected:
  WriteResult PutUntil(absl::string_view key, absl::string_view value, uint64_t expiry_ms) {
    PutParams params;
    params.expiry_ms = expiry_ms;
    return table_->Put(table_->HashOf(key), key, value, params, now_);
  }
  Code Touch(absl::string_view key, uint64_t expiry_ms) {
    return table_->Touch(table_->HashOf(key), key, expiry_ms, now_).code;
  }
};

// The first put of all: it takes a unit, and the first versions.
TEST_F(CrashTest, WithinAPutOfANewKey) {
  ExpectEachCrashKeeps({{"key", kNone, "value"}}, [&] { Put("key", "value"); });
  ExpectEachCrashKeeps({{"other", kNone, "others"}, {"key", "value", "value"}}, [&] { Put("other", "others"); });
}

// Longer items take units of other blocks.
TEST_F(CrashTest, WithinAPutOfALongItem) {
  for (const size_t bytes : {9'000, 70'000}) {
    const std::string value(bytes, 'l');
    ExpectEachCrashKeeps(
        {{"key", kNone, value}}, [&] { Put("key", value); }, /*every=*/97);
    ASSERT_EQ(Delete("key"), Code::kOk);
  }
}

TEST_F(CrashTest, WithinAPutElsewhere) {
  PutUntil("key", "old", 2'000'000);
  Put("other", "others");
  const std::string value(300, 'n');
  ExpectEachCrashKeeps({{"key", "old until 2000000", value}, {"other", "others", "others"}},
                       [&] { Put("key", value); });
  ExpectEachCrashKeeps({{"key", value, "third until 3000000"}}, [&] { PutUntil("key", "third", 3'000'000); });
}

TEST_F(CrashTest, WithinAPublish) {
  Put("key", "old");
  ExpectEachCrashKeeps({{"key", "old", "newer"}}, [&] {
    Reservation reservation;
    ASSERT_EQ(table_->Reserve(table_->HashOf("key"), "key", 5, &reservation, now_), Code::kOk);
    StoreBytes(reservation.value.data(), "newer", 5);
    ASSERT_EQ(table_->Publish(reservation, Condition::kAlways, 0, now_).code, Code::kOk);
  });
}

TEST_F(CrashTest, WithinADelete) {
  Put("key", "value");
  Put("other", "others");
  ExpectEachCrashKeeps({{"key", "value", kNone}, {"other", "others", "others"}}, [&] { Delete("key"); });
}

TEST_F(CrashTest, WithinATouch) {
  PutUntil("key", "value", 2'000'000);
  ExpectEachCrashKeeps({{"key", "value until 2000000", "value until 3000000"}}, [&] { Touch("key", 3'000'000); });
  ExpectEachCrashKeeps({{"key", "value until 3000000", "value"}}, [&] { Touch("key", 0); });
  ExpectEachCrashKeeps({{"key", "value", "value until 2000000"}}, [&] { Touch("key", 2'000'000); });
}

TEST_F(CrashTest, WithinASweep) {
  PutUntil("key", "value", 2'000'000);
  Put("other", "others");
  clock_.now_us = 2'500'000'000;
  ExpectEachCrashKeeps({{"key", "value until 2000000", kNone}, {"other", "others", "others"}}, [&] {
    std::vector<ExpiredItem> counters;
    while (table_->Sweep(0, 1'000, now_, &counters)) {
    }
  });
  EXPECT_EQ(table_->stats().expired_items, 1u);
}

TEST_F(CrashTest, WithinAnEviction) {
  const std::string value(1'000, 'v');
  const auto fill = [&](int keys) {
    Make(16 * kMiB, /*rewrites=*/true, /*evict=*/true);
    for (int i = 0; keys == 0 ? table_->stats().keys == static_cast<uint64_t>(i) : i < keys; ++i) {
      WriteResult result;
      do {
        result = Put(absl::StrCat("key", i), value);
      } while (result.code == Code::kMakingRoom);
    }
  };
  // Run twice: the first run determines the victims.
  fill(0);
  const auto keys = static_cast<int>(table_->stats().keys);
  std::vector<Change> changes;
  const std::string last = absl::StrCat("key", keys);
  changes.push_back({last, kNone, value});
  for (int i = 0; i < keys; ++i) {
    const std::string key = absl::StrCat("key", i);
    const std::string after = AfterACrash(key);
    if (after == kNone || i % 4'000 == 7) changes.push_back({key, value, after});
  }
  ASSERT_GT(changes.size(), 3u);
  fill(keys);
  ASSERT_EQ(table_->stats().keys, static_cast<uint64_t>(keys));
  ExpectEachCrashKeeps(changes, [&] {
    while (Put(last, value).code == Code::kMakingRoom) {
    }
  });
}

// All keys of both segments are reachable at every moment, through the directory of that moment.
TEST_F(CrashTest, WithinASplitAndAMerge) {
  std::vector<std::string> keys = KeysInBucket(*table_, 1, 17, 2 * kSlotsPerBucket + 1);
  const std::string last = keys.back();
  keys.pop_back();
  std::vector<Change> changes;
  for (const std::string& key : keys) {
    ASSERT_EQ(Put(key, key).code, Code::kOk);
    if (changes.size() < 8) changes.push_back({key, key, key});
  }
  ExpectEachCrashKeeps(
      changes, [&] { EXPECT_EQ(Put(last, last).code, Code::kOk); }, /*every=*/7);
  EXPECT_EQ(table_->stats().splits, 1u);
  PassQuarantine();
  ASSERT_EQ(Delete(last), Code::kOk);
  while (keys.size() > changes.size() && table_->stats().merges == 0) {
    ExpectEachCrashKeeps(
        changes, [&] { EXPECT_EQ(Delete(keys.back()), Code::kOk); }, /*every=*/7);
    keys.pop_back();
  }
  EXPECT_EQ(table_->stats().merges, 1u);
}

}  // namespace
}  // namespace farlook::kv
