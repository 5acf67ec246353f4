// What readers see between any two stores of the writer. Each test traces one operation store by store and, after each
// store, reads as a new client does, as one that knows the directory as it was before, and as ones that remember the
// old or (memory is used again) the new item's location.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/limits.h"
#include "kv/message.h"
#include "kv/region.h"
#include "kv/segment.h"
#include "kv/slot.h"
#include "kv/store_tracer.h"
#include "kv/table.h"
#include "kv/test_region.h"
#include "kv/words.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr int64_t kMillisecond = 1'000'000;
constexpr char kAsk[] = "(would ask the server)";
constexpr char kNone[] = "(none)";

class StoreOrderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!StoreTracer::kWorksHere) GTEST_SKIP() << "no single steps here";
    Make(16 * kMiB);
  }
  void Make(uint64_t bytes, bool rewrites = false) {
    memory_ = std::make_unique<TestMemory>(bytes);
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.rewrites = rewrites;
    options.clock = &clock_;
    table_ = *Table::Create(memory_->span(), options);
    now_ = 1'000 * kMillisecond;
  }

  WriteResult Put(absl::string_view key, absl::string_view value) {
    now_ += 1000;
    return table_->Put(table_->HashOf(key), key, value, Condition::kAlways, 0, now_);
  }
  Code Delete(absl::string_view key) {
    return table_->Delete(table_->HashOf(key), key, Condition::kAlways, 0, now_).code;
  }

  // A write whose time was read after all that happened so far, then time.
  void PassQuarantine(int64_t ns = kQuarantineNs) {
    now_ += kMillisecond;
    Put("tick", "");
    table_->Delete(table_->HashOf("tick"), "tick", Condition::kAlways, 0, now_);
    now_ += ns;
  }

  static std::string Read(TestReader* reader, absl::string_view key, Slot cached = Slot()) {
    const uint64_t gave_up = reader->gave_up();
    const std::optional<std::string> value = reader->Get(key, cached);
    if (reader->gave_up() != gave_up) return kAsk;
    return value.value_or(kNone);
  }

  // Runs `write` and checks what readers of `key` see after each of its stores: `before`, then for at most `gap` stores
  // that they cannot read it, then `after`, and, once `after` was seen by one of them, nothing else ever. `places`:
  // locations that readers may remember.
  template <typename F>
  void ExpectOneSwitch(absl::string_view key, const std::string& before, const std::string& after, int gap,
                       const std::vector<Slot>& places, F write) {
    TestReader old_reader(memory_->span());
    ASSERT_EQ(Read(&old_reader, key), before);
    std::vector<std::string> seen;
    {
      StoreTracer tracer(memory_->span(), [&] {
        for (const Slot place : places) seen.push_back(Read(&old_reader, key, place));
        seen.push_back(Read(&old_reader, key));
        TestReader new_reader(memory_->span());
        seen.push_back(Read(&new_reader, key));
        for (const Slot place : places) seen.push_back(Read(&new_reader, key, place));
      });
      write();
      ASSERT_GT(tracer.stores(), 1u);
    }
    const size_t readers = 2 + 2 * places.size();
    bool switched = false;
    int asked = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      const size_t store = i / readers;
      switched = switched || (seen[i] == after && before != after);
      if (seen[i] == kAsk) {
        asked += i % readers == 0 || seen[i - 1] != kAsk;
        continue;
      }
      ASSERT_EQ(seen[i], switched ? after : before) << "reader " << i % readers << " after store " << store + 1;
    }
    EXPECT_LE(asked, gap);
    EXPECT_EQ(seen.back(), after);
  }

  TestClock clock_;
  std::unique_ptr<TestMemory> memory_;
  std::unique_ptr<Table> table_;
  int64_t now_ = 0;
};

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

// ---- Updates in place ----

class RewriteTest : public StoreOrderTest {
 protected:
  void SetUp() override {
    StoreOrderTest::SetUp();
    if (IsSkipped()) return;
    Make(16 * kMiB, /*rewrites=*/true);
    header_ = RegionHeader::For(16 * kMiB, 1);
  }
  // The redo piece, as a place that a reader might remember.
  Slot RedoPlace(Slot like) const { return Slot(like.fingerprint(), like.size_class(), header_.RedoOf(0)); }

  // What a later server would take for the key's value, were this one to end now. See "Writing" in docs/protocol.md.
  std::string Recovered(absl::string_view key, Slot place) const {
    const char* region = memory_->span().data();
    const std::optional<std::string> value = WholeValue(region + place.offset(), place.bytes(), key);
    if (value) return *value;
    const char* redo = region + header_.RedoOf(0);
    const uint64_t version = LoadWord(region + place.offset() + kVersionOffset);
    if (LoadWord(region + header_.MarksOf(0) + kRedoTarget) != place.word()) return kNone;
    if (LoadWord(redo + kVersionOffset) != version || (version & kDeadBit) == 0) return kNone;
    return WholeValue(redo, kRedoBytes, key).value_or("(a redo piece that is torn)");
  }

  RegionHeader header_;

 private:
  // Of an item whose version may say DEAD, and whose tag may be inverted.
  std::optional<std::string> WholeValue(const char* at, uint64_t bytes, absl::string_view key) const {
    std::string copy(at, bytes);
    const uint64_t version = LoadAs<uint64_t>(copy.data() + kVersionOffset) & ~kDeadBit;
    const uint64_t expiry = LoadAs<uint64_t>(copy.data() + kExpiryOffset);
    StoreAs(copy.data() + kVersionOffset, version);
    if (ExpiryFits(version, InvertTag(expiry))) StoreAs(copy.data() + kExpiryOffset, InvertTag(expiry));
    ItemView item;
    if (CheckItem(table_->hasher(), copy, key, &item) != ItemCheck::kValid) return std::nullopt;
    return std::string(item.value);
  }
};

TEST_F(RewriteTest, AnUpdateInPlaceIsOneSwitch) {
  const Slot place = Put("key", "0").slot;
  ASSERT_EQ(Put("key", "12345678").slot, place);
  std::string before = "12345678";
  for (const char* after : {"three", "four of sixteen", "", "of twenty-four bytes, ok", "5"}) {
    // Unreadable from DEAD to alive: version, checksum, lengths, expiry; key and value in whole granules.
    const uint64_t words = 4 + (8 + std::string(after).size() + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes / 8;
    ExpectOneSwitch("key", before, after, static_cast<int>(words), {place, RedoPlace(place)},
                    [&] { EXPECT_EQ(Put("key", after).slot, place); });
    before = after;
  }
  EXPECT_EQ(table_->stats().rewrites, 6u);
  EXPECT_EQ(table_->stats().value_bytes, 1u);
}

// Whoever remembers another key's piece, or where that key's copy for recovery was, sees its own key's values only.
TEST_F(RewriteTest, UpdatesOfOneKeyAreNoConcernOfAnothers) {
  const Slot place = Put("key", "mine").slot, other = Put("other", "others").slot;
  Put("other", "others2");
  ExpectOneSwitch("key", "mine", "mine2", 8, {place, other, RedoPlace(place)}, [&] { Put("key", "mine2"); });
  ExpectOneSwitch("key", "mine2", "mine2", 0, {place, other, RedoPlace(place)}, [&] { Put("other", "others3"); });
}

TEST_F(RewriteTest, AServerThatEndsBetweenTwoStoresLosesNeitherTheOldValueNorAnotherKeys) {
  const Slot place = Put("key", "old").slot, other = Put("other", "others").slot;
  const std::string values[] = {"new", std::string(24, 'n'), "", "last"};
  std::string before = "old", others = "others";
  for (const std::string& value : values) {
    uint64_t store = 0;
    bool switched = false;
    {
      StoreTracer tracer(memory_->span(), [&] {
        ++store;
        const std::string now = Recovered("key", place);
        switched = switched || now == value;
        EXPECT_EQ(now, switched ? value : before) << "after store " << store;
        EXPECT_EQ(Recovered("other", other), others) << "after store " << store;
      });
      ASSERT_EQ(Put("key", value).slot, place);
      EXPECT_EQ(Recovered("key", place), value);
    }
    before = value;
    const std::string next = others + "+";
    {
      StoreTracer tracer(memory_->span(), [&] {
        EXPECT_EQ(Recovered("key", place), before);
        const std::string now = Recovered("other", other);
        EXPECT_TRUE(now == others || now == next) << now;
      });
      ASSERT_EQ(Put("other", next).slot, other);
    }
    others = next;
  }
}

TEST_F(RewriteTest, OnlyWhatFitsAndDoesNotWasteStays) {
  const Slot place = Put("key", std::string(400, 'v')).slot;
  EXPECT_EQ(Put("key", std::string(200, 'v')).slot, place);
  EXPECT_FALSE(Put("key", std::string(100, 'v')).slot == place) << "less than half of its piece";
  const Slot small = Put("key", "v").slot;
  EXPECT_FALSE(Put("key", std::string(100, 'v')).slot == small) << "it does not fit";
  const Slot largest = Put("key", std::string(kRedoBytes - kItemHeaderBytes - 8, 'v')).slot;
  EXPECT_EQ(largest.bytes(), kRedoBytes);
  EXPECT_EQ(Put("key", std::string(kRedoBytes - kItemHeaderBytes - 8, 'w')).slot, largest);
  const Slot larger = Put("key", std::string(kRedoBytes, 'v')).slot;
  EXPECT_FALSE(Put("key", std::string(kRedoBytes, 'w')).slot == larger);
}

// ---- Expiry ----

// Runs a write again and again, and lets the time of the item come after each of its stores and looks at the clock in
// turn. Who reads just then and concludes that the key is absent must be right: the write does not succeed.
class ExpiryOrderTest : public RewriteTest {
 protected:
  static constexpr uint64_t kExpiryMs = 2'000'000;

  template <typename F>
  void ExpectNoSuccessAfterAbsence(uint64_t old_bytes, const std::string& after, F write) {
    int absences = 0, successes = 0;
    for (int come = 1;; ++come) {
      Make(16 * kMiB, /*rewrites=*/true);
      clock_.now_us = kExpiryMs * 1000 - 1;
      PutParams params;
      params.expiry_ms = kExpiryMs;
      const std::string old(old_bytes, 'o');
      const Slot place = table_->Put(table_->HashOf("key"), "key", old, params, now_).slot;
      int step = 0;
      std::string seen = "(nothing)";
      const auto look = [&] {
        if (++step != come) return;
        clock_.now_us = kExpiryMs * 1000;
        for (const Slot cached : {place, Slot()}) {
          TestReader reader(memory_->span());
          reader.clock = &clock_;
          const std::string value = Read(&reader, "key", cached);
          if (value != kAsk) seen = value;
        }
      };
      Code code;
      {
        clock_.after_look = look;
        StoreTracer tracer(memory_->span(), look);
        code = write();
        clock_.after_look = nullptr;
      }
      if (step < come) break;
      TestReader reader(memory_->span());
      reader.clock = &clock_;
      if (code == Code::kOk) {
        ++successes;
        EXPECT_NE(seen, kNone) << "step " << come << ": absent for one, then there for the writer";
        EXPECT_EQ(Read(&reader, "key", place), after) << come;
        EXPECT_EQ(Read(&reader, "key"), after) << come;
      } else {
        ASSERT_EQ(code, Code::kNotFound);
        EXPECT_EQ(Read(&reader, "key", place), kNone) << come;
        EXPECT_EQ(Read(&reader, "key"), kNone) << come;
        EXPECT_EQ(table_->stats().keys, 0u);
        EXPECT_EQ(table_->stats().expired_items, 1u);
      }
      absences += seen == kNone;
    }
    EXPECT_GT(absences, 0);
    EXPECT_GT(successes, 0);
  }
  Code PutIfPresent(const std::string& value) {
    return table_->Put(table_->HashOf("key"), "key", value, PutParams{Condition::kPresent}, now_).code;
  }
};

TEST_F(ExpiryOrderTest, APutInPlaceOnConditionOfPresence) {
  ExpectNoSuccessAfterAbsence(5, "newer", [&] { return PutIfPresent("newer"); });
}

TEST_F(ExpiryOrderTest, APutElsewhereOnConditionOfPresence) {
  ExpectNoSuccessAfterAbsence(5, std::string(300, 'n'), [&] { return PutIfPresent(std::string(300, 'n')); });
}

TEST_F(ExpiryOrderTest, APublishOnConditionOfPresence) {
  ExpectNoSuccessAfterAbsence(5, "newer", [&] {
    Reservation reservation;
    EXPECT_EQ(table_->Reserve(table_->HashOf("key"), "key", 5, &reservation, now_), Code::kOk);
    StoreBytes(reservation.value.data(), "newer", 5);
    return table_->Publish(reservation, PutParams{Condition::kPresent}, now_).code;
  });
}

TEST_F(ExpiryOrderTest, ATouch) {
  ExpectNoSuccessAfterAbsence(5, "ooooo",
                              [&] { return table_->Touch(table_->HashOf("key"), "key", 3'000'000, now_).code; });
}

TEST_F(ExpiryOrderTest, APersist) {
  ExpectNoSuccessAfterAbsence(5, "ooooo", [&] { return table_->Touch(table_->HashOf("key"), "key", 0, now_).code; });
}

// Keys of one main bucket of the segment that serves the positions with these three top bits.
std::vector<std::string> KeysInBucket(const Table& table, uint64_t step, uint32_t bucket, size_t count) {
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < count; ++i) {
    std::string key = absl::StrCat("k", i);
    const uint64_t hash = table.HashOf(key);
    if (BucketOf(hash) == bucket && PositionOf(hash) >> 61 == step) keys.push_back(std::move(key));
  }
  return keys;
}

// The first key of an overflow bucket: readers who remember where it lay must not see it before others find the way.
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

// Keys of main and overflow buckets stay readable all through the split that the insertion of another one needs: first
// with a directory that grows, then without, then into memory of retired segments.
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

// Keys of two segments stay readable all through the merge that a delete brings about, of main and overflow buckets.
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

// A full region of which one block has half of its items left, and the others holes that each have room for one.
class MoveTest : public StoreOrderTest {
 protected:
  void SetUp() override {
    StoreOrderTest::SetUp();
    if (IsSkipped()) return;
    while (true) {
      const std::string key = absl::StrCat("key", keys_.size());
      const WriteResult result = Put(key, value_ + key);
      if (result.code != Code::kOk) break;
      keys_.push_back(key);
    }
    ItemView item;  // the last refusal came after some had been moved
    for (const std::string& key : keys_) slots_.push_back(table_->Get(table_->HashOf(key), key, &item).slot);
    std::vector<size_t> order(keys_.size());  // as they lie in memory: no two neighbours are deleted
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return slots_[a].offset() < slots_[b].offset(); });
    const uint64_t block = slots_[order[order.size() / 2]].offset() / kUnitBytes;
    for (size_t n = 0; n < order.size(); ++n) {
      const size_t i = order[n];
      const bool sparse = slots_[i].offset() / kUnitBytes == block;
      if (n % (sparse ? 2 : 10) == 1) {
        ASSERT_EQ(Delete(keys_[i]), Code::kOk);
      } else if (sparse) {
        kept_.push_back(i);
      }
    }
    ASSERT_GT(kept_.size(), 2u);
    moved_ = table_->stats().moved_items;
  }
  uint64_t moved() const { return table_->stats().moved_items - moved_; }

  const std::string value_ = std::string(1500, 's');
  std::vector<std::string> keys_;
  std::vector<Slot> slots_;   // of keys_, where they are then
  std::vector<size_t> kept_;  // those that must move
  uint64_t moved_ = 0;        // until then
};

TEST_F(MoveTest, IsNoticedByNobody) {
  TestReader old_reader(memory_->span());
  uint64_t wrong = 0;
  {
    StoreTracer tracer(memory_->span(), [&] {
      TestReader new_reader(memory_->span());
      for (const size_t i : kept_) {
        const std::string value = value_ + keys_[i];
        wrong += Read(&old_reader, keys_[i]) != value;
        wrong += Read(&new_reader, keys_[i], slots_[i]) != value;
      }
    });
    ASSERT_EQ(Put("large", std::string(4000, 'l')).code, Code::kOk);
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GE(moved(), kept_.size());
  // The old places say where the items are now, unless they were used again. Their expiry fits no more, whatever
  // becomes of that memory.
  for (const size_t i : kept_) {
    TestReader reader(memory_->span());
    EXPECT_EQ(Read(&reader, keys_[i], slots_[i]), value_ + keys_[i]);
    const char* old = memory_->span().data() + slots_[i].offset();
    if ((LoadWord(old + kVersionOffset) & kDeadBit) != 0) {
      EXPECT_EQ(LoadWord(old + kExpiryOffset), 0u);
    }
  }
}

// Who remembers where an item was before must not see it there when the key has another value.
TEST_F(MoveTest, LeavesNoLivingCopyBehind) {
  ASSERT_EQ(Put("large", std::string(4000, 'l')).code, Code::kOk);
  ASSERT_GE(moved(), kept_.size());
  TestReader reader(memory_->span());
  for (const size_t i : kept_) {
    const std::string other(1500, 'n');  // of the same class, since there is no room for another
    ASSERT_EQ(Put(keys_[i], other).code, Code::kOk);
    EXPECT_EQ(Read(&reader, keys_[i], slots_[i]), other);
    ASSERT_EQ(Delete(keys_[i]), Code::kOk);
    EXPECT_EQ(Read(&reader, keys_[i], slots_[i]), kNone);
  }
}

// The overwritten item itself is moved by the compaction that its overwrite needs.
TEST_F(MoveTest, OfTheItemThatIsBeingOverwrittenIsOneSwitch) {
  const std::string& key = keys_[kept_[1]];
  // Takes what overwrites may have of the free units.
  std::vector<Reservation> reservations(1);
  while (table_->Reserve(table_->HashOf(key), key, 4000, &reservations.back(), now_, /*may_step=*/false) == Code::kOk) {
    reservations.emplace_back();
  }
  reservations.pop_back();
  const TableStats before = table_->stats();
  const std::string large(4000, 'l');
  // Unreadable between "old DEAD" and "alive".
  ExpectOneSwitch(key, value_ + key, large, 2, {slots_[kept_[1]]}, [&] { EXPECT_EQ(Put(key, large).code, Code::kOk); });
  EXPECT_GE(moved(), kept_.size());
  EXPECT_EQ(table_->stats().keys, before.keys);
  EXPECT_EQ(table_->stats().value_bytes, before.value_bytes + large.size() - value_.size() - key.size());
  TestReader reader(memory_->span());
  for (const size_t i : kept_) EXPECT_EQ(Read(&reader, keys_[i]), keys_[i] == key ? large : value_ + keys_[i]);
  for (const Reservation& reservation : reservations) table_->Abandon(reservation);
  // What was freed is the place that it had been moved to: nothing is left when all keys are deleted.
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
    // What overwrites get before only the spare is left.
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
  int wrong = 0;
  uint64_t stores = 0;
  {
    StoreTracer tracer(memory_->span(), [&] {
      // All of the first and the last, and few of those that copy the value.
      if (++stores > 64 && stores < other_.size() / 8 - 16 && stores % 100 != 0) return;
      TestReader new_reader(memory_->span());
      for (const Slot place : {Slot(), home, spare}) {
        wrong += Read(&old_reader, "key1", place) != other_;
        wrong += Read(&new_reader, "key1", place) != other_;
      }
    });
    Reservation reservation;  // which needs the spare
    EXPECT_EQ(table_->Reserve(table_->HashOf("key2"), "key2", value_.size(), &reservation, now_), Code::kOk);
  }
  EXPECT_GT(stores, other_.size() / 8);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(table_->stats().moved_items, moved + 1);
  EXPECT_EQ(PlaceOf("key1"), home);
}

}  // namespace
}  // namespace farlook::kv
