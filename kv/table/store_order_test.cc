// The values that readers see between any two stores of the writer: puts, deletes, and the index's splits and merges.
// Updates in place and expiry: store_order_rewrite_test.cc; moves: store_order_move_test.cc.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/segment.h"
#include "kv/table/store_order_testing.h"

namespace farlook::kv {
namespace {

TEST_F(StoreOrderTest, AnOverwriteIsOneSwitch) {
  const Slot first = Put("key", "one").slot;
  const Slot second = Put("key", "two").slot;  // so `first` is free, and used by the next
  ASSERT_FALSE(first == second);
  // Unreadable between "old DEAD" and "alive": two stores.
  ExpectOneSwitch("key", "two", "three", 2, {first, second}, [&] { EXPECT_EQ(Put("key", "three").slot, first); });
}

TEST_F(StoreOrderTest, AnInsertIsOneSwitch) {
  const Slot first = Put("key", "one").slot;
  ASSERT_EQ(Delete("key"), Code::kOk);
  // Unreadable after the slot, before "alive".
  ExpectOneSwitch("key", kNone, "two", 1, {first}, [&] { EXPECT_EQ(Put("key", "two").slot, first); });
}

TEST_F(StoreOrderTest, ADeleteIsOneSwitch) {
  const Slot slot = Put("key", "one").slot;
  // Dead in its slot for one store.
  ExpectOneSwitch("key", "one", kNone, 1, {slot}, [&] { Delete("key"); });
}

TEST_F(StoreOrderTest, AReservationIsInvisibleUntilItIsPublished) {
  const Slot first = Put("key", "one").slot;
  const Slot second = Put("key", "two").slot;
  const auto write = [&] {
    Reservation reservation;
    ASSERT_EQ(table_->Reserve(table_->HashOf("key"), "key", 5, &reservation, now_), Code::kOk);
    ASSERT_EQ(reservation.slot, first);
    StoreBytes(reservation.value.data(), "three", 5);
    ASSERT_EQ(table_->Publish(reservation, Condition::kAlways, 0, now_).code, Code::kOk);
  };
  ExpectOneSwitch("key", "two", "three", 2, {first, second}, write);
}

// The first key of an overflow bucket: readers that remember its place must not see it before others find the way.
TEST_F(StoreOrderTest, AnInsertThatLinksAnOverflowBucketIsOneSwitch) {
  const uint64_t hash = table_->HashOf("key");
  const std::vector<std::string> keys = KeysInBucket(*table_, PositionOf(hash) >> 61, BucketOf(hash), kSlotsPerBucket);
  const Slot slot = Put("key", "one").slot;
  ASSERT_EQ(Delete("key"), Code::kOk);
  const Slot held = Put("another", "one").slot;  // keeps the place for "key"
  ASSERT_EQ(held.offset(), slot.offset());
  for (const std::string& key : keys) ASSERT_EQ(Put(key, "v").code, Code::kOk);
  ASSERT_EQ(Delete("another"), Code::kOk);
  const uint64_t overflow_keys = table_->stats().overflow_keys;
  ExpectOneSwitch("key", kNone, "two", 1, {slot}, [&] { EXPECT_EQ(Put("key", "two").slot, slot); });
  EXPECT_EQ(table_->stats().overflow_keys, overflow_keys + 1);
}

// Keys of main and overflow buckets stay readable during the split that the insertion of another one needs. The
// directory grows in the first split, and not in the second. The third uses memory of retired segments.
TEST_F(StoreOrderTest, ASplitIsNoticedByNobody) {
  for (const uint64_t step : {0, 1, 2}) {
    PassQuarantine();
    std::vector<std::string> keys = KeysInBucket(*table_, step, 17, 2 * kSlotsPerBucket + 1);
    const std::string last = keys.back();
    keys.pop_back();
    for (const std::string& key : keys) ASSERT_EQ(Put(key, key).code, Code::kOk);
    ASSERT_EQ(table_->stats().splits, step);
    const uint64_t index_bytes = table_->stats().segment_bytes;

    TestReader old_reader(memory_->span());
    uint64_t wrong = 0, first_wrong = 0, store = 0;
    {
      StoreTracer tracer(memory_->span(), [&] {
        if (++store < 8'150 && store % 64 != 0) return;  // enough of the slots
        TestReader new_reader(memory_->span());
        for (size_t i = 0; i < keys.size(); i += 4) {
          wrong += Read(&old_reader, keys[i]) != keys[i];
          wrong += Read(&new_reader, keys[i]) != keys[i];
        }
        if (wrong != 0 && first_wrong == 0) first_wrong = store;
      });
      ASSERT_EQ(Put(last, last).code, Code::kOk);
      EXPECT_GT(tracer.stores(), 8'192u + 256);
    }
    EXPECT_EQ(wrong, 0u) << "step " << step << ", first after store " << first_wrong;
    EXPECT_EQ(table_->stats().splits, step + 1);
    EXPECT_EQ(table_->stats().segment_bytes - index_bytes, 2 * kSegmentBytes);
    for (const std::string& key : keys) ASSERT_EQ(Read(&old_reader, key), key);
  }
}

// Keys of two segments, in main and overflow buckets, stay readable all through the merge that a delete causes.
TEST_F(StoreOrderTest, AMergeIsNoticedByNobody) {
  std::vector<std::string> keys = KeysInBucket(*table_, 0, 17, 2 * kSlotsPerBucket + 1);
  for (const std::string& key : keys) ASSERT_EQ(Put(key, key).code, Code::kOk);
  ASSERT_EQ(table_->stats().splits, 1u);
  PassQuarantine();
  ASSERT_EQ(table_->stats().merges, 0u);
  TestReader old_reader(memory_->span());
  uint64_t wrong = 0, first_wrong = 0, store = 0;
  for (; keys.size() > kSlotsPerBucket * 3 / 2 + 1; keys.pop_back()) ASSERT_EQ(Delete(keys.back()), Code::kOk);
  ASSERT_EQ(table_->stats().merges, 0u);
  const std::string gone = keys.back();
  keys.pop_back();
  {
    StoreTracer tracer(memory_->span(), [&] {
      if (++store < 4'080 && store % 64 != 0) return;  // enough of the slots
      TestReader new_reader(memory_->span());
      for (size_t i = 0; i < keys.size(); i += 3) {
        wrong += Read(&old_reader, keys[i]) != keys[i];
        wrong += Read(&new_reader, keys[i]) != keys[i];
      }
      if (wrong != 0 && first_wrong == 0) first_wrong = store;
    });
    ASSERT_EQ(Delete(gone), Code::kOk);
    EXPECT_GT(tracer.stores(), 4'096u + 512);
  }
  EXPECT_EQ(wrong, 0u) << "first after store " << first_wrong;
  EXPECT_EQ(table_->stats().merges, 1u);
  EXPECT_EQ(table_->stats().segments, 8u);
  for (const std::string& key : keys) ASSERT_EQ(Read(&old_reader, key), key);
}

}  // namespace
}  // namespace farlook::kv
