// Hints to a key's bucket and slot: whatever happened to the table since, a put has the same result as without a hint.
#include "kv/layout/key_place.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/table/table.h"
#include "kv/table/table_testing.h"

namespace farlook::kv {
namespace {

constexpr int64_t kNow = 1;

class KeyPlaceTest : public TableFixture {
 protected:
  static std::string Name(int i) { return absl::StrCat("key-", i); }

  KeyPlace LookAhead(const std::string& key) const {
    KeyPlace place{table_->HashOf(key)};
    table_->PrefetchBucket(&place);
    table_->PrefetchItem(&place);
    return place;
  }
  std::vector<KeyPlace> LookAheadAll(int keys) const {
    std::vector<KeyPlace> places;
    for (int i = 0; i < keys; ++i) places.push_back(LookAhead(Name(i)));
    return places;
  }
  Code PutAt(const KeyPlace& place, const std::string& key, const std::string& value, Condition condition) {
    PutParams params;
    params.condition = condition;
    return table_->Put(place, {key, value}, params, now_ns_).code;
  }
  void PutAll(int from, int to) {
    for (int i = from; i < to; ++i) {
      ASSERT_EQ(table_->Put(table_->HashOf(Name(i)), Name(i), "old", PutParams(), now_ns_).code, Code::kOk) << i;
    }
  }
  // Expects that a lookup without a hint finds what the put with a hint wrote.
  void ExpectPut(const std::string& key, const std::string& value) const {
    ItemView item;
    ASSERT_EQ(table_->Get(table_->HashOf(key), key, &item).code, Code::kOk) << key;
    EXPECT_EQ(item.value, value);
  }

  int64_t now_ns_ = kNow;
};

TEST_F(KeyPlaceTest, AFreshHintLeadsToTheKey) {
  Make(64 << 20);
  PutAll(0, 1000);
  for (int i = 0; i < 1000; ++i) {
    const KeyPlace place = LookAhead(Name(i));
    EXPECT_NE(place.turn, 0u);
    EXPECT_NE(place.slot, nullptr);
    EXPECT_EQ(PutAt(place, Name(i), "new", Condition::kPresent), Code::kOk);
    ExpectPut(Name(i), "new");
  }
  EXPECT_EQ(table_->stats().keys, 1000u);
}

TEST_F(KeyPlaceTest, WhoLookedForTheBucketAloneFindsTheKey) {
  Make(64 << 20);
  PutAll(0, 20'000);  // fill the buckets nearly, and let some overflow
  for (int i = 0; i < 20'100; ++i) {
    KeyPlace place{table_->HashOf(Name(i))};
    table_->PrefetchBucket(&place);
    EXPECT_EQ(place.slot, nullptr);
    EXPECT_EQ(PutAt(place, Name(i), "new", Condition::kPresent), i < 20'000 ? Code::kOk : Code::kNotFound) << i;
  }
  EXPECT_EQ(table_->stats().keys, 20'000u);
}

TEST_F(KeyPlaceTest, OfAKeyThatIsNotThereItMakesANewOne) {
  Make(64 << 20);
  const KeyPlace place = LookAhead("key");
  EXPECT_EQ(place.slot, nullptr);
  EXPECT_EQ(PutAt(place, "key", "value", Condition::kPresent), Code::kNotFound);
  EXPECT_EQ(PutAt(place, "key", "value", Condition::kAbsent), Code::kOk);
  ExpectPut("key", "value");
  // The key was put after the look ahead.
  EXPECT_EQ(PutAt(place, "key", "newer", Condition::kAbsent), Code::kExists);
  EXPECT_EQ(PutAt(place, "key", "newer", Condition::kAlways), Code::kOk);
  ExpectPut("key", "newer");
  EXPECT_EQ(table_->stats().keys, 1u);
}

TEST_F(KeyPlaceTest, TheSlotMayBeEmptyOrAnothersByThen) {
  Make(64 << 20);
  PutAll(0, 3000);
  std::vector<KeyPlace> places = LookAheadAll(3000);
  for (int i = 0; i < 3000; i += 2) {
    table_->Delete(table_->HashOf(Name(i)), Name(i), Condition::kAlways, 0, now_ns_);
  }
  PutAll(3000, 4500);
  ASSERT_EQ(table_->stats().keys, 3000u);
  for (int i = 0; i < 3000; ++i) {
    const Code expected = i % 2 == 0 ? Code::kNotFound : Code::kOk;
    EXPECT_EQ(PutAt(places[i], Name(i), "new", Condition::kPresent), expected) << i;
    EXPECT_EQ(PutAt(places[i], Name(i), "newer", Condition::kAlways), Code::kOk) << i;
    ExpectPut(Name(i), "newer");
  }
  EXPECT_EQ(table_->stats().keys, 4500u);
}

TEST_F(KeyPlaceTest, ASlotOfAnotherKeyLeadsNowhere) {
  Make(64 << 20);
  PutAll(0, 2);
  KeyPlace place = LookAhead(Name(0));
  place.slot = LookAhead(Name(1)).slot;
  EXPECT_EQ(PutAt(place, Name(0), "new", Condition::kPresent), Code::kOk);
  ExpectPut(Name(0), "new");
  ExpectPut(Name(1), "old");
}

TEST_F(KeyPlaceTest, SegmentsMayHaveBeenSplitAndMerged) {
  constexpr int kKeys = 20'000, kMore = 200'000;
  Make(256 << 20, /*partitions=*/4);
  PutAll(0, kKeys);
  std::vector<KeyPlace> places = LookAheadAll(kKeys);
  const uint64_t splits = table_->stats().splits;
  PutAll(kKeys, kMore);
  ASSERT_GT(table_->stats().splits, splits);
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_EQ(PutAt(places[i], Name(i), "new", Condition::kPresent), Code::kOk) << i;
    ExpectPut(Name(i), "new");
  }
  EXPECT_EQ(table_->stats().keys, static_cast<uint64_t>(kMore));

  places = LookAheadAll(kKeys);
  for (int i = kKeys; i < kMore; ++i) {
    now_ns_ += 1'000'000;  // let quarantines end, so that memory is reused
    ASSERT_EQ(table_->Delete(table_->HashOf(Name(i)), Name(i), Condition::kAlways, 0, now_ns_).code, Code::kOk);
  }
  ASSERT_GT(table_->stats().merges, 0u);
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_EQ(PutAt(places[i], Name(i), "newer", Condition::kPresent), Code::kOk) << i;
    ExpectPut(Name(i), "newer");
  }
  EXPECT_EQ(table_->stats().keys, static_cast<uint64_t>(kKeys));
}

}  // namespace
}  // namespace farlook::kv
