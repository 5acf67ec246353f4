// Readers between any two stores of moves: to make room, and into the spare and back.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/table/store_order_testing.h"

namespace farlook::kv {
namespace {

// A full region with holes that each have room for one item. Another table, made in the same way, shows which items the
// same write moves.
class MoveTest : public StoreOrderTest {
 protected:
  // Makes the table as it is before the write; `movers_` are the items that the write will move.
  void Prepare(const std::function<void()>& write) {
    Fill();
    if (HasFatalFailure()) return;
    write();
    for (size_t i = 0; i < keys_.size(); ++i) {
      TestReader reader(memory_->span());
      const bool same = Read(&reader, keys_[i]) == value_ + keys_[i];  // not the overwritten item
      if (same && !(PlaceOf(keys_[i]) == slots_[i])) movers_.push_back(i);
    }
    ASSERT_GT(movers_.size(), 2u);
    ASSERT_EQ(moved(), movers_.size());
    Make(16 * kMiB);
    Fill();
  }
  void PutLarge() { ASSERT_EQ(Put("large", std::string(4000, 'l')).code, Code::kOk); }
  uint64_t moved() const { return table_->stats().moved_items - moved_; }
  Slot PlaceOf(absl::string_view key) const {
    ItemView item;
    return table_->Get(table_->HashOf(key), key, &item).slot;
  }

  const std::string value_ = std::string(1500, 's');
  std::vector<std::string> keys_;
  std::vector<Slot> slots_;     // of keys_, before the write
  std::vector<size_t> movers_;  // indexes of those that the write moves

 private:
  void Fill() {
    keys_.clear();
    slots_.clear();
    while (true) {
      const std::string key = absl::StrCat("key", keys_.size());
      const WriteResult result = Put(key, value_ + key);
      if (result.code != Code::kOk) break;
      keys_.push_back(key);
    }
    for (const std::string& key : keys_) slots_.push_back(PlaceOf(key));  // the last refusal came after some had moved
    std::vector<size_t> order(keys_.size());  // in the order of their addresses: no two neighbours are deleted
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return slots_[a].offset() < slots_[b].offset(); });
    const uint64_t sparse = slots_[order[order.size() / 2]].offset() / kUnitBytes;
    for (size_t n = 0; n < order.size(); ++n) {
      const size_t i = order[n];
      if (n % (slots_[i].offset() / kUnitBytes == sparse ? 2 : 10) != 1) continue;
      ASSERT_EQ(Delete(keys_[i]), Code::kOk);
    }
    moved_ = table_->stats().moved_items;
  }

  uint64_t moved_ = 0;  // before the write
};

TEST_F(MoveTest, IsNoticedByNobody) {
  Prepare([this] { PutLarge(); });
  TestReader old_reader(memory_->span());
  uint64_t wrong = 0, lost = 0, stores = 0;
  {
    StoreTracer tracer(memory_->span(), [&] {
      if (kSanitized && ++stores % 8 != 0) return;
      TestReader new_reader(memory_->span());
      for (const size_t i : movers_) {
        const std::string value = value_ + keys_[i];
        wrong += Read(&old_reader, keys_[i]) != value;
        wrong += Read(&new_reader, keys_[i], slots_[i]) != value;
        lost += AfterACrash(keys_[i]) != value;
      }
    });
    PutLarge();
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(lost, 0u) << "were the server to end there";
  EXPECT_EQ(moved(), movers_.size());
  // The old places lead to the items' new places, unless they were reused. Their expiry no longer matches, whatever
  // that memory is used for.
  for (const size_t i : movers_) {
    TestReader reader(memory_->span());
    EXPECT_EQ(Read(&reader, keys_[i], slots_[i]), value_ + keys_[i]);
    const char* old = memory_->span().data() + slots_[i].offset();
    if ((LoadWord(old + kVersionOffset) & kDeadBit) != 0) {
      EXPECT_EQ(LoadWord(old + kExpiryOffset), 0u);
    }
  }
}

// The old place has a hint, which a reader that remembers it follows: two READs, and none of a bucket.
TEST_F(MoveTest, LeavesAHintThatReadersFollow) {
  Prepare([this] { PutLarge(); });
  PutLarge();
  int hints = 0;
  for (const size_t i : movers_) {
    const char* old = memory_->span().data() + slots_[i].offset();
    if ((LoadWord(old + kVersionOffset) & kDeadBit) == 0) continue;  // reused
    const Slot now = PlaceOf(keys_[i]);
    ASSERT_FALSE(now == slots_[i]);
    EXPECT_EQ(LoadWord(old + kChecksumOffset), now.word());
    TestReader reader(memory_->span());
    EXPECT_EQ(Read(&reader, keys_[i], slots_[i]), value_ + keys_[i]);
    EXPECT_EQ(reader.lookup().item_reads(), 2);
    EXPECT_EQ(reader.lookup().bucket_reads(), 0);
    ++hints;
  }
  EXPECT_GT(hints, 2);
}

// A reader that remembers an item's old place must not see it there when the key has another value.
TEST_F(MoveTest, LeavesNoLivingCopyBehind) {
  Prepare([this] { PutLarge(); });
  PutLarge();
  ASSERT_EQ(moved(), movers_.size());
  TestReader reader(memory_->span());
  for (const size_t i : movers_) {
    const std::string other(1500, 'n');  // of the same class, since there is no room for another
    ASSERT_EQ(Put(keys_[i], other).code, Code::kOk);
    EXPECT_EQ(Read(&reader, keys_[i], slots_[i]), other);
    ASSERT_EQ(Delete(keys_[i]), Code::kOk);
    EXPECT_EQ(Read(&reader, keys_[i], slots_[i]), kNone);
  }
}

// The compaction that an overwrite needs moves the overwritten item itself.
TEST_F(MoveTest, OfTheItemThatIsBeingOverwrittenIsOneSwitch) {
  const std::string large(4000, 'l');
  std::vector<Reservation> reservations;
  // Takes the free units that overwrites may use.
  const auto take_units = [&] {
    reservations.emplace_back();
    while (table_->Reserve(table_->HashOf(keys_[0]), keys_[0], 4000, &reservations.back(), now_,
                           /*may_step=*/false) == Code::kOk) {
      reservations.emplace_back();
    }
    reservations.pop_back();
  };
  Prepare([&] {
    take_units();
    EXPECT_EQ(Put(keys_[0], large).code, Code::kOk);
  });
  reservations.clear();
  take_units();
  const size_t mover = movers_.back();
  const std::string& key = keys_[mover];
  const TableStats before = table_->stats();
  // Unreadable between "old DEAD" and "alive".
  ExpectOneSwitch(key, value_ + key, large, 2, {slots_[mover]}, [&] { EXPECT_EQ(Put(key, large).code, Code::kOk); });
  EXPECT_EQ(moved(), movers_.size());
  EXPECT_EQ(table_->stats().keys, before.keys);
  EXPECT_EQ(table_->stats().value_bytes, before.value_bytes + large.size() - value_.size() - key.size());
  TestReader reader(memory_->span());
  for (const size_t i : movers_) EXPECT_EQ(Read(&reader, keys_[i]), keys_[i] == key ? large : value_ + keys_[i]);
  for (const Reservation& reservation : reservations) table_->Abandon(reservation);
  // The freed place is the one that it had been moved to: nothing is left when all keys are deleted.
  for (const std::string& each : keys_) table_->Delete(table_->HashOf(each), each, Condition::kAlways, 0, now_);
  const TableStats empty = table_->stats();
  EXPECT_EQ(empty.keys, 0u);
  EXPECT_EQ(empty.free_bytes + empty.index_bytes - (uint64_t{8} << empty.level) + empty.overhead_bytes,
            empty.region_bytes);
}

// A full region, whose overwrites are done in the spare.
class SpareOrderTest : public StoreOrderTest {
 protected:
  void SetUp() override {
    StoreOrderTest::SetUp();
    if (IsSkipped()) return;
    while (Put(absl::StrCat("key", keys_), absl::StrCat("key", keys_, value_)).code == Code::kOk) ++keys_;
    // Take everything that overwrites may use, so that only the spare is left.
    Reservation reservation;
    while (table_->Reserve(table_->HashOf("key5"), "key5", 2 * value_.size(), &reservation, now_) == Code::kOk) {
    }
  }
  Slot PlaceOf(absl::string_view key) const {
    ItemView item;
    return table_->Get(table_->HashOf(key), key, &item).slot;
  }

  const std::string value_ = std::string(66'000, 's');  // too long to be moved for each other's sake
  const std::string other_ = std::string(66'000, 'o');
  int keys_ = 0;
};

TEST_F(SpareOrderTest, AnOverwriteThereIsOneSwitch) {
  const Slot old = PlaceOf("key1");
  // Unreadable between "old DEAD" and "alive".
  ExpectOneSwitch("key1", "key1" + value_, other_, 2, {old}, [&] { EXPECT_EQ(Put("key1", other_).code, Code::kOk); });
  EXPECT_FALSE(PlaceOf("key1") == old);
}

TEST_F(SpareOrderTest, TheWayHomeIsNoticedByNobody) {
  const Slot home = PlaceOf("key1");
  ASSERT_EQ(Put("key1", other_).code, Code::kOk);
  const Slot spare = PlaceOf("key1");
  ASSERT_FALSE(spare == home);
  const uint64_t moved = table_->stats().moved_items;
  TestReader old_reader(memory_->span());
  EXPECT_EQ(Read(&old_reader, "key1"), other_);
  int wrong = 0, lost = 0;
  uint64_t stores = 0;
  {
    StoreTracer tracer(memory_->span(), [&] {
      // All of the first and the last stores, and few of those that copy the value.
      if (++stores > 64 && stores < other_.size() / 8 - 16 && stores % 100 != 0) return;
      TestReader new_reader(memory_->span());
      for (const Slot place : {Slot(), home, spare}) {
        wrong += Read(&old_reader, "key1", place) != other_;
        wrong += Read(&new_reader, "key1", place) != other_;
      }
      lost += AfterACrash("key1") != other_;
    });
    Reservation reservation;  // needs the spare
    EXPECT_EQ(table_->Reserve(table_->HashOf("key2"), "key2", value_.size(), &reservation, now_), Code::kOk);
  }
  EXPECT_GT(stores, other_.size() / 8);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(lost, 0) << "were the server to end there";
  EXPECT_EQ(table_->stats().moved_items, moved + 1);
  EXPECT_EQ(PlaceOf("key1"), home);
}

}  // namespace
}  // namespace farlook::kv
