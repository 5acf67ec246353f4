// The reader against writers that come between: before each fetch, and between the words of one fetch.
#include "kv/lookup.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/item.h"
#include "kv/limits.h"
#include "kv/message.h"
#include "kv/table.h"
#include "kv/test_region.h"

namespace farlook::kv {
namespace {

using Step = Lookup::Step;

constexpr uint64_t kMiB = 1 << 20;
constexpr int64_t kMillisecond = 1'000'000;
constexpr int kRounds = kSanitized ? 1 : 20;
constexpr char kNone[] = "(none)";
constexpr char kAsk[] = "(would ask the server)";

class LookupTest : public testing::Test {
 protected:
  LookupTest() { Make(16 * kMiB); }

  // `rewrites`: puts are done in place where they fit. Most tests here are about those that are not.
  void Make(uint64_t bytes, bool rewrites = false) {
    reader_.reset();
    table_.reset();
    memory_ = std::make_unique<TestMemory>(bytes);
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.rewrites = rewrites;
    options.clock = &clock_;
    table_ = *Table::Create(memory_->span(), options);
    reader_ = std::make_unique<TestReader>(memory_->span());
  }

  WriteResult Put(absl::string_view key, absl::string_view value) {
    now_ += 1000;
    return table_->Put(table_->HashOf(key), key, value, Condition::kAlways, 0, now_);
  }
  void Delete(absl::string_view key) {
    ASSERT_EQ(table_->Delete(table_->HashOf(key), key, Condition::kAlways, 0, now_).code, Code::kOk);
  }

  // A write whose time was read after all that happened so far, then time.
  void PassQuarantine(int64_t ns = kQuarantineNs) {
    now_ += kMillisecond;
    Put("tick", "");
    table_->Delete(table_->HashOf("tick"), "tick", Condition::kAlways, 0, now_);
    now_ += ns;
  }

  std::string Get(absl::string_view key, Slot cached = Slot()) {
    const uint64_t gave_up = reader_->gave_up();
    const std::optional<std::string> value = reader_->Get(key, cached);
    return reader_->gave_up() != gave_up ? kAsk : value.value_or(kNone);
  }

  // Gets with `steps`, in order, run before the fetches of these numbers (from 0).
  std::string GetWith(absl::string_view key, std::map<int, std::function<void()>> steps, Slot cached = Slot()) {
    int n = 0;
    reader_->before_fetch = [&](const Range&) {
      const auto at = steps.find(n++);
      if (at != steps.end()) at->second();
    };
    const std::string value = Get(key, cached);
    reader_->before_fetch = nullptr;
    EXPECT_TRUE(steps.empty() || n > steps.rbegin()->first) << "only " << n << " fetches";
    fetches_ = n;
    return value;
  }

  // Keys whose hash fulfils a condition.
  template <typename F>
  std::vector<std::string> Keys(size_t count, F condition, absl::string_view prefix = "k") {
    std::vector<std::string> keys;
    for (int i = 0; keys.size() < count; ++i) {
      std::string key = absl::StrCat(prefix, i);
      if (condition(table_->HashOf(key))) keys.push_back(std::move(key));
    }
    return keys;
  }
  std::vector<std::string> KeysInBucketOf(const std::string& key, size_t count, const std::string& prefix = "k") {
    static auto& known = *new std::map<std::pair<std::string, std::string>, std::vector<std::string>>;
    std::vector<std::string>& keys = known[{key, prefix}];
    if (keys.size() < count) {
      const uint64_t hash = table_->HashOf(key);
      const auto same = [hash](uint64_t h) {
        return BucketOf(h) == BucketOf(hash) && PositionOf(h) >> 61 == PositionOf(hash) >> 61;
      };
      keys = Keys(count, same, prefix);
    }
    return {keys.begin(), keys.begin() + static_cast<int64_t>(count)};
  }
  // Found by search: "key"'s fingerprint, its bucket, its segment.
  std::vector<std::string> KeysWithFingerprintOfKey(size_t count) {
    const uint64_t hash = table_->HashOf("key");
    std::vector<std::string> keys = {"f60612854", "f214710853"};
    for (const std::string& key : keys) {
      const uint64_t h = table_->HashOf(key);
      EXPECT_EQ(FingerprintOf(h), FingerprintOf(hash));
      EXPECT_EQ(BucketOf(h), BucketOf(hash));
      EXPECT_EQ(PositionOf(h) >> 61, PositionOf(hash) >> 61);
    }
    keys.resize(count);
    return keys;
  }
  // Makes the segment of `key` split; main and overflow bucket of that hash were nearly empty before.
  void SplitSegmentOf(const std::string& key, const std::string& prefix = "s") {
    const uint64_t splits = table_->stats().splits;
    for (const std::string& filler : KeysInBucketOf(key, 2 * kSlotsPerBucket + 1, prefix)) {
      if (table_->stats().splits > splits) break;
      ASSERT_EQ(Put(filler, "filler").code, Code::kOk);
    }
    ASSERT_EQ(table_->stats().splits, splits + 1);
  }
  DirectoryEntry EntryOf(absl::string_view key) {
    TestReader fresh(memory_->span());
    return fresh.directory().Find(table_->HashOf(key));
  }
  char* At(uint64_t offset) { return memory_->span().data() + offset; }
  // The main bucket of `key`.
  char* BucketOfKey(absl::string_view key) {
    return At(EntryOf(key).offset() + BucketOf(table_->HashOf(key)) * kBucketBytes);
  }

  std::unique_ptr<TestMemory> memory_;
  std::unique_ptr<Table> table_;
  std::unique_ptr<TestReader> reader_;
  TestClock clock_;
  int64_t now_ = 1'000 * kMillisecond;
  int fetches_ = 0;
};

TEST_F(LookupTest, TakesABucketAndAnItemReadOrOneOfACachedLocation) {
  const Slot slot = Put("key", "value").slot;
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(reader_->lookup().bucket_reads(), 1u);
  EXPECT_EQ(reader_->lookup().item_reads(), 1u);
  EXPECT_EQ(reader_->lookup().slot(), slot);
  EXPECT_EQ(Get("key", slot), "value");
  EXPECT_EQ(reader_->lookup().bucket_reads(), 0u);
  EXPECT_EQ(reader_->lookup().item_reads(), 1u);
  EXPECT_FALSE(reader_->lookup().cached_was_stale());
  EXPECT_EQ(Get("absent"), kNone);
  EXPECT_EQ(reader_->lookup().bucket_reads(), 1u);
  EXPECT_EQ(reader_->lookup().item_reads(), 0u);
}

TEST_F(LookupTest, StaleLocationsLeadToTheBucket) {
  const Slot first = Put("key", "one").slot;
  Put("key", "two");
  const uint64_t end = memory_->span().size();
  const Slot elsewhere[] = {first,                                // dead
                            Put("other", "three").slot,           // of another key
                            Slot(1, 0, end),                      // outside
                            Slot(1, kSizeClasses - 1, end - 32),  // half outside
                            Slot(1, 0, 0),                        // the header
                            Slot(~0ull),
                            Slot(1, 5, end - kMiB)};  // nonsense; never used
  for (const Slot cached : elsewhere) {
    EXPECT_EQ(Get("key", cached), "two");
    EXPECT_EQ(reader_->lookup().cached_was_stale(), cached.ValidIn(end));
  }
}

TEST_F(LookupTest, AValueInTwoPiecesIsTheSame) {
  reader_->split_items = true;
  for (const size_t bytes : {0, 1, 100, 5000}) {
    Put("key", std::string(bytes, 'v'));
    EXPECT_EQ(Get("key"), std::string(bytes, 'v'));
  }
  // Another key's shorter item in the slot that matches.
  const std::string other = KeysWithFingerprintOfKey(1)[0];
  Put(other, "");
  EXPECT_EQ(Get("key"), std::string(5000, 'v'));
  Delete("key");
  EXPECT_EQ(Get("key"), kNone);
  EXPECT_EQ(Get(other), "");
}

// ---- Remembered places ----

TEST_F(LookupTest, AnItemThatMovedIsFoundByTheHintInItsOldPlace) {
  const Slot first = Put("key", "one").slot;
  const Slot second = Put("key", "two").slot;
  ASSERT_FALSE(first == second);
  EXPECT_EQ(Get("key", first), "two");
  EXPECT_EQ(reader_->lookup().item_reads(), 2u);
  EXPECT_EQ(reader_->lookup().bucket_reads(), 0u);
  EXPECT_EQ(reader_->lookup().slot(), second);
  EXPECT_TRUE(reader_->lookup().moved());
  EXPECT_FALSE(reader_->lookup().cached_was_stale());
  // Only once: the hint of the hint leads to the bucket.
  StoreWord(At(second.offset() + kVersionOffset), 1 | kDeadBit);
  StoreWord(At(second.offset()), Slot(second.fingerprint(), 3, kMiB * 9).word());
  EXPECT_EQ(Get("key", first), kAsk);
  EXPECT_TRUE(reader_->lookup().cached_was_stale());
  EXPECT_EQ(reader_->lookup().bucket_reads(), static_cast<uint32_t>(Lookup::kMaxRounds));
}

// What stands there may be the checksum of an update that is under way, or anything.
TEST_F(LookupTest, AWordThatIsNoHintIsNotFollowed) {
  const Slot first = Put("key", "one").slot;
  Put("key", "two");
  for (const uint64_t word : {uint64_t{0}, ~uint64_t{0}, first.word(), Slot(1, 0, kMiB).word(),
                              Slot(first.fingerprint(), 0, 16 * kMiB).word(),
                              Slot(first.fingerprint(), kSizeClasses - 1, 15 * kMiB).word()}) {
    StoreWord(At(first.offset()), word);
    EXPECT_EQ(Get("key", first), "two") << word;
    EXPECT_EQ(reader_->lookup().item_reads(), 2u + Lookup::kMaxRetries) << word;
    EXPECT_EQ(reader_->lookup().bucket_reads(), 1u) << word;
  }
}

TEST_F(LookupTest, ARememberedPlaceThatIsBeingRewrittenIsReadAgain) {
  Make(16 * kMiB, /*rewrites=*/true);
  const WriteResult put = Put("key", "one");
  char* version = At(put.slot.offset() + kVersionOffset);
  const auto die = [&] { StoreWord(version, put.version | kDeadBit); };
  for (const int again : {1, 2}) {
    die();
    EXPECT_EQ(GetWith("key", {{again, [&] { Put("key", "two"); }}}, put.slot), "two");
    EXPECT_EQ(fetches_, again + 1);
    EXPECT_EQ(reader_->lookup().bucket_reads(), 0u);
    EXPECT_FALSE(reader_->lookup().cached_was_stale());
  }
}

// ---- Expiry ----

class ExpiringTest : public LookupTest {
 protected:
  ExpiringTest() {
    Make(16 * kMiB, /*rewrites=*/true);
    reader_->clock = &clock_;
  }
  WriteResult PutUntil(uint64_t expiry_ms, absl::string_view value = "v") {
    PutParams params;
    params.expiry_ms = expiry_ms;
    return table_->Put(table_->HashOf("key"), "key", value, params, now_);
  }
};

TEST_F(ExpiringTest, WhatNeverExpiresIsFoundWithoutALookAtTheClock) {
  Put("key", "v");
  EXPECT_EQ(Get("key"), "v");
  EXPECT_EQ(Get("other"), kNone);
  EXPECT_EQ(clock_.looks, 0);
}

TEST_F(ExpiringTest, FoundBeforeItsTimeAbsentAfterItAndAskedAboutBetween) {
  const Slot slot = PutUntil(1'000'005).slot;
  clock_.error_us = 100;
  for (const Slot cached : {Slot(), slot}) {
    clock_.now_us = 1'000'004'899;
    EXPECT_EQ(Get("key", cached), "v");
    EXPECT_EQ(reader_->lookup().item_reads(), 1u);
    clock_.now_us = 1'000'004'900;
    EXPECT_EQ(Get("key", cached), kAsk);
    clock_.now_us = 1'000'005'099;
    EXPECT_EQ(Get("key", cached), kAsk);
    clock_.now_us = 1'000'005'100;
    EXPECT_EQ(Get("key", cached), kNone);
    EXPECT_EQ(reader_->lookup().item_reads(), 2u);
  }
  reader_->clock = nullptr;
  EXPECT_EQ(Get("key"), kAsk);
}

// Its time is over when the second READ is posted, and not before.
TEST_F(ExpiringTest, AbsenceIsConcludedFromAReadThatWasPostedAfterTheTime) {
  const Slot slot = PutUntil(1'000'005).slot;
  clock_.now_us = 1'000'004'999;
  clock_.error_us = 1;
  EXPECT_EQ(GetWith("key", {{1, [&] { clock_.now_us += 1'000'000; }}}, slot), kAsk) << "lo was taken before";
}

TEST_F(ExpiringTest, ATouchBetweenTheTwoReadsCounts) {
  const Slot slot = PutUntil(1'000'005).slot;
  clock_.now_us = 1'000'010'000;
  const uint64_t hash = table_->HashOf("key");
  const auto touch = [&] {
    clock_.now_us = 1'000'004'000;
    ASSERT_EQ(table_->Touch(hash, "key", 1'000'020, now_).code, Code::kOk);
    clock_.now_us = 1'000'010'000;
  };
  EXPECT_EQ(GetWith("key", {{1, touch}}, slot), "v");
  // And endlessly: the server is asked.
  int times = 0;
  reader_->before_fetch = [&](const Range&) {
    ++times;
    clock_.now_us = 1'000'004'000;
    ASSERT_EQ(table_->Touch(hash, "key", 1'000'005 + static_cast<uint64_t>(times) % 2, now_).code, Code::kOk);
    clock_.now_us = 1'000'010'000;
  };
  EXPECT_EQ(Get("key", slot), kAsk);
  EXPECT_LE(times, 2 + Lookup::kMaxExpiryLooks);
  reader_->before_fetch = nullptr;
}

// A Touch that has stored the inverted tag and no more: neither found nor absent.
TEST_F(ExpiringTest, AnItemThatIsBeingTouchedIsTorn) {
  const Slot slot = PutUntil(1'000'005).slot;
  clock_.now_us = 1'000'010'000;
  char* const expiry = At(slot.offset() + kExpiryOffset);
  const uint64_t word = LoadWord(expiry);
  StoreWord(expiry, InvertTag(word));
  EXPECT_EQ(Get("key", slot), kAsk);
  EXPECT_EQ(Get("key"), kAsk);
  StoreWord(expiry, word);
  EXPECT_EQ(
      GetWith("key", {{1, [&] { StoreWord(expiry, InvertTag(word)); }}, {4, [&] { StoreWord(expiry, word); }}}, slot),
      kNone);
}

// ---- A writer between the fetches ----

TEST_F(LookupTest, AnOverwriteBetweenBucketAndItemIsGoneRound) {
  Put("key", "one");
  EXPECT_EQ(GetWith("key", {{1, [&] { Put("key", "two"); }}}), "two");
  EXPECT_EQ(fetches_, 4);
  // Time and again: each round is overtaken.
  std::map<int, std::function<void()>> steps;
  for (int i = 0; i < 20; ++i) steps[2 * i + 1] = [this, i] { Put("key", absl::StrCat(i)); };
  EXPECT_EQ(GetWith("key", steps), "19");
}

TEST_F(LookupTest, ADeleteBetweenBucketAndItemIsNotFound) {
  Put("key", "one");
  EXPECT_EQ(GetWith("key", {{1, [&] { Delete("key"); }}}), kNone);
}

TEST_F(LookupTest, ADeletedKeysMemoryWithAnotherKeyIsNotThatKey) {
  const Slot slot = Put("key", "one").slot;
  EXPECT_EQ(GetWith("key", {{1,
                             [&] {
                               Delete("key");
                               ASSERT_EQ(Put("other", "two").slot.offset(), slot.offset());
                             }}}),
            kNone);
  Delete("other");
  Put("key", "three");
  EXPECT_EQ(GetWith("key",
                    {{0,
                      [&] {
                        Delete("key");
                        ASSERT_EQ(Put("other", "four").slot.offset(), slot.offset());
                      }}},
                    slot),
            kNone);
}

// The key is always there. Its item is overwritten between the READs of bucket and item, and its old memory given to
// another key: what the reader finds is a whole, live item of another key. It must not say NotFound.
TEST_F(LookupTest, TheSlotsItemReplacedByAnotherKeysIsLookedAtTwice) {
  const Slot slot = Put("key", "one").slot;
  const auto replace = [&] {
    Put("key", "two");
    ASSERT_EQ(Put("other", "x").slot.offset(), slot.offset());
  };
  EXPECT_EQ(GetWith("key", {{1, replace}}), "two");
}

// The same at the second look, too: the slot is the same word as before, since the item came back to its old place, and
// once more it is another key's item that is found there. Only the item's version tells.
TEST_F(LookupTest, TheSecondLookComparesVersions) {
  const Slot slot = Put("key", "one").slot;
  const auto replace = [&] {
    Put("key", "two");
    ASSERT_EQ(Put("other", "x").slot.offset(), slot.offset());
  };
  const auto back = [&] {
    Delete("other");
    ASSERT_EQ(Put("key", "three").slot, slot);
  };
  // 0 bucket, 1 item; 2 bucket, 3 item; then a third round.
  EXPECT_EQ(GetWith("key", {{1, replace}, {2, back}, {3, replace}}), "two");
}

// At the second look the slot has another item, dead by the time it is read.
TEST_F(LookupTest, TheSecondLookComparesSlots) {
  const Slot slot = Put("key", "one").slot;
  const auto replace = [&] {
    Put("key", "two");
    ASSERT_EQ(Put("other", "x").slot.offset(), slot.offset());
  };
  EXPECT_EQ(GetWith("key", {{1, replace}, {3, [&] { Put("key", "three"); }}}), "three");
}

// Slots that match, with whole live items of other keys, twice the same: absent.
TEST_F(LookupTest, EqualFingerprintsOfOtherKeysAreNotFoundAfterTheSecondLook) {
  const std::vector<std::string> others = KeysWithFingerprintOfKey(2);
  for (const std::string& other : others) Put(other, "v");
  EXPECT_EQ(Get("key"), kNone);
  EXPECT_EQ(reader_->lookup().bucket_reads(), 2u);
  EXPECT_EQ(reader_->lookup().item_reads(), 4u);
  Put("key", "mine");
  EXPECT_EQ(Get("key"), "mine");
  // One of them is overwritten before each READ of an item: dead, and round again, to the end.
  Delete("key");
  EXPECT_EQ(GetWith("key", {{2, [&] { Put(others[1], "w"); }}}), kNone);
  // Inserted into a slot between the first and the second look.
  EXPECT_EQ(GetWith("key", {{3, [&] { Put("key", "now"); }}}), "now");
}

TEST_F(LookupTest, ADeadItemInAMatchingSlotIsNoProofOfAbsence) {
  // The writer stops between "old DEAD" and "alive": a store of its own, as a stopped server would leave it.
  const WriteResult put = Put("key", "one");
  char* version = At(put.slot.offset() + kVersionOffset);
  StoreWord(version, put.version | kDeadBit);
  EXPECT_EQ(Get("key"), kAsk);
  EXPECT_EQ(reader_->lookup().bucket_reads(), static_cast<uint32_t>(Lookup::kMaxRounds));
  // It goes on while the reader goes round.
  EXPECT_EQ(GetWith("key", {{20, [&] { StoreWord(version, put.version); }}}), "one");
  // With a location that says so, too.
  StoreWord(version, put.version | kDeadBit);
  EXPECT_EQ(Get("key", put.slot), kAsk);
}

TEST_F(LookupTest, ADeadItemOfAnotherKeyDoesNotHideTheKey) {
  const std::string other = KeysWithFingerprintOfKey(1)[0];
  const WriteResult dead = Put(other, "o");
  Put("key", "mine");
  StoreWord(At(dead.slot.offset() + kVersionOffset), dead.version | kDeadBit);
  EXPECT_EQ(Get("key"), "mine");
  EXPECT_EQ(reader_->lookup().bucket_reads(), 1u);
}

// ---- Splits ----

TEST_F(LookupTest, ASplitBeforeAnyFetchIsSurvived) {
  for (const bool cached : {false, true}) {
    for (int at = 0; at < 3; ++at) {
      Make(16 * kMiB);
      const Slot old = Put("key", "one").slot;
      const Slot slot = Put("key", "two").slot;
      const int fetches = cached ? 1 : 2;
      if (at >= fetches) continue;
      EXPECT_EQ(GetWith("key", {{at, [&] { SplitSegmentOf("key"); }}}, cached ? slot : Slot()), "two");
      // With a directory of before, a location of before, and all between.
      EXPECT_EQ(Get("key"), "two");
      EXPECT_EQ(Get("key", old), "two");
    }
  }
}

TEST_F(LookupTest, SeveralSplitsBetweenAreSurvived) {
  Put("key", "one");
  // The first grows the directory while the reader asks for its entry.
  EXPECT_EQ(GetWith("key", {{0, [&] { SplitSegmentOf("key", "s"); }}}), "one");
  EXPECT_GE(reader_->refreshes(), 1u);
  TestReader old(memory_->span());
  for (int i = 0; i < 60000; ++i) ASSERT_EQ(Put(absl::StrCat("more", i), "v").code, Code::kOk);
  EXPECT_GT(table_->stats().level, 4);
  EXPECT_EQ(old.Get("key"), "one");
  EXPECT_EQ(old.Get("absent"), std::nullopt);
  for (int i = 0; i < 60000; ++i) ASSERT_EQ(old.Get(absl::StrCat("more", i)), "v");
  EXPECT_EQ(old.gave_up(), 0u);
}

TEST_F(LookupTest, ASplitBetweenTheFirstAndTheSecondLookIsSurvived) {
  const Slot slot = Put("key", "one").slot;
  const auto replace = [&] {
    Put("key", "two");
    ASSERT_EQ(Put("other", "x").slot.offset(), slot.offset());
  };
  EXPECT_EQ(GetWith("key", {{1, replace}, {2, [&] { SplitSegmentOf("key"); }}}), "two");
  // The stale slot of the retired segment leads to another key's item, and stays so. Its descriptions tell.
  Make(16 * kMiB);
  const Slot again = Put("key", "one").slot;
  const auto split_and_replace = [&] {
    SplitSegmentOf("key");
    Put("key", "two");
    ASSERT_EQ(Put("other", "xx").slot.offset(), again.offset());
  };
  EXPECT_EQ(GetWith("key", {{1, split_and_replace}}), "two");
}

// An answer of the second look that began in another segment than the first is none: slots are compared within one.
TEST_F(LookupTest, ARefreshBeginsTheTwoLooksAnew) {
  const std::string other = KeysWithFingerprintOfKey(1)[0];
  const WriteResult there = Put(other, "o");
  // First look: only the other key. Then a split; then "key" takes the other one's place.
  EXPECT_EQ(GetWith("key", {{2, [&] { SplitSegmentOf("key"); }},
                            {5,
                             [&] {
                               Delete(other);
                               ASSERT_EQ(Put("key", "now").slot.offset(), there.slot.offset());
                             }}}),
            "now");
}

TEST_F(LookupTest, AReusedSegmentOfOtherPositionsIsRecognized) {
  Put("key", "one");
  const DirectoryEntry before = EntryOf("key");
  TestReader stale(memory_->span());
  SplitSegmentOf("key");
  PassQuarantine();
  // Another segment's split takes its memory.
  std::string far = "far0";
  for (int i = 1; PositionOf(table_->HashOf(far)) >> 61 == PositionOf(table_->HashOf("key")) >> 61 ||
                  BucketOf(table_->HashOf(far)) != BucketOf(table_->HashOf("key"));
       ++i) {
    far = absl::StrCat("far", i);
  }
  SplitSegmentOf(far, "t");
  EXPECT_NE(LoadWord(At(before.offset())), 0u) << "in use again";
  EXPECT_EQ(stale.Get("key"), "one");
  EXPECT_EQ(stale.gave_up(), 0u);
}

// ---- Overflow buckets ----

class OverflowTest : public LookupTest {
 protected:
  OverflowTest() : keys_(KeysInBucketOf("key", kSlotsPerBucket + 4)) {
    for (size_t i = 0; i < kSlotsPerBucket; ++i) Put(keys_[i], "v");
  }
  const std::vector<std::string> keys_;
};

TEST_F(OverflowTest, AKeyThereTakesOneReadMore) {
  Put("key", "mine");
  EXPECT_EQ(Get("key"), "mine");
  EXPECT_EQ(reader_->lookup().bucket_reads(), 2u);
  EXPECT_EQ(Get(keys_.back()), kNone);
  EXPECT_EQ(reader_->lookup().bucket_reads(), 2u);
}

TEST_F(OverflowTest, ASplitBetweenTheTwoBucketsIsSurvived) {
  Put("key", "mine");
  EXPECT_EQ(GetWith("key", {{1, [&] { SplitSegmentOf("key", "more"); }}}), "mine");
  EXPECT_GE(reader_->refreshes(), 1u);
}

// The overflow bucket was already a retired one when it was READ, and its segment in use again: it describes itself.
TEST_F(OverflowTest, AnOverflowBucketReusedBetweenIsRecognized) {
  Put("key", "mine");
  const auto reuse = [&] {
    SplitSegmentOf("key", "more");
    PassQuarantine();
    std::string far = "far0";
    for (int i = 1; PositionOf(table_->HashOf(far)) >> 61 == PositionOf(table_->HashOf("key")) >> 61; ++i) {
      far = absl::StrCat("far", i);
    }
    SplitSegmentOf(far, "t");
  };
  EXPECT_EQ(GetWith("key", {{1, reuse}}), "mine");
}

TEST_F(OverflowTest, TheSecondLookIsOfBothBuckets) {
  Put(keys_[kSlotsPerBucket], "v");  // the link
  const Slot slot = Put("key", "one").slot;
  const auto replace = [&] {
    Put("key", "two");
    ASSERT_EQ(Put("other", "x").slot.offset(), slot.offset());
  };
  const auto back = [&] {
    Delete("other");
    ASSERT_EQ(Put("key", "three").slot, slot);
  };
  // 0 main, 1 overflow, 2 item; 3 main, 4 overflow, 5 item.
  EXPECT_EQ(GetWith("key", {{2, replace}}), "two");
  Delete("other");
  ASSERT_EQ(Put("key", "one").slot, slot);
  EXPECT_EQ(GetWith("key", {{2, replace}, {4, back}, {5, replace}}), "two");
}

// Keys of two main buckets share an overflow bucket, and may have equal fingerprints.
TEST_F(OverflowTest, ALinkThatAppearsBetweenTheLooksBeginsThemAnew) {
  const std::vector<std::string> others = KeysWithFingerprintOfKey(1);
  Delete(keys_[0]);
  Put(others[0], "v");
  EXPECT_EQ(GetWith("key", {{2, [&] { Put("key", "now"); }}}), "now");
}

// ---- READs that take their time ----

// A READ whose words were fetched long apart: the description before a split, the slots when the memory was in use
// again. Late, so it is not believed.
TEST_F(LookupTest, ALateReadOfABucketIsNotBelieved) {
  Put("key", "one");
  bool late = false;
  reader_->is_late = [&](const Range&) { return std::exchange(late, false); };
  reader_->before_word = [&](const Range& range, size_t word) {
    if (range.bytes != kBucketBytes || word != 1 || late || table_->stats().splits > 0) return;
    SplitSegmentOf("key");
    PassQuarantine();
    const auto far = [&](uint64_t h) { return PositionOf(h) >> 61 != PositionOf(table_->HashOf("key")) >> 61; };
    SplitSegmentOf(Keys(1, far, "far")[0], "t");
    late = true;
  };
  EXPECT_EQ(Get("key"), "one");
  reader_->is_late = [](const Range&) { return true; };
  EXPECT_EQ(Get("key"), kAsk) << "a bounded number of times";
  EXPECT_EQ(Get("key", Put("key", "two").slot), "two") << "an item is believed however late";
}

// As above, but within the quarantine: so the slots are still what they were.
TEST_F(LookupTest, ABucketReadDuringASplitIsRightWithinTheQuarantine) {
  for (const bool backwards : {false, true}) {
    for (size_t at = 0; at < kWordsPerBucket; ++at) {
      Make(16 * kMiB);
      Put("key", "one");
      reader_->backwards = backwards;
      reader_->before_word = [&](const Range& range, size_t word) {
        if (range.bytes != kBucketBytes || word != at || table_->stats().splits > 0) return;
        SplitSegmentOf("key");
        PassQuarantine(kQuarantineNs - 40 * kMillisecond);
        const auto far = [&](uint64_t h) { return PositionOf(h) >> 61 != PositionOf(table_->HashOf("key")) >> 61; };
        SplitSegmentOf(Keys(1, far, "far")[0], "t");
      };
      ASSERT_EQ(Get("key"), "one") << backwards << " " << at;
    }
  }
}

// The writer took the time long before it retired a segment: the process was stopped between, or the work of one batch
// took so long. The quarantine must not be over when the next write comes with a time read afterwards.
TEST_F(LookupTest, TheQuarantineDoesNotTrustATimeThatWasReadBeforeTheSplit) {
  Put("key", "one");
  reader_->before_word = [&](const Range& range, size_t word) {
    if (range.bytes != kBucketBytes || word != 1 || table_->stats().splits > 0) return;
    SplitSegmentOf("key");  // with a time of long ago
    now_ += 2 * kQuarantineNs;
    const auto far = [&](uint64_t h) { return PositionOf(h) >> 61 != PositionOf(table_->HashOf("key")) >> 61; };
    SplitSegmentOf(Keys(1, far, "far")[0], "t");
  };
  EXPECT_EQ(Get("key"), "one");
}

// ---- Any interleaving ----

// Before each word of each fetch a writer may do something with the key, with keys that share its memory, its
// fingerprint, its bucket; segments split and are used again. What is read must have been the key's value at a moment
// between the lookup's begin and its end.
TEST_F(LookupTest, WhatIsReadWasTheKeysValueAtSomeMomentOfTheLookup) {
  uint64_t lookups = 0, interleaved = 0, asked = 0, splits = 0, merges = 0, found = 0;
  for (uint64_t seed = 1; seed <= 15 * kRounds; ++seed) {
    Make(16 * kMiB);
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    std::vector<std::string> group = KeysWithFingerprintOfKey(2);
    group.push_back("key");
    if (seed % 3 == 0) {  // so that all of them lie in the overflow bucket
      for (const std::string& filler : KeysInBucketOf("key", kSlotsPerBucket, "o")) Put(filler, "filler");
    }
    const std::vector<std::string> fillers = KeysInBucketOf("key", 80, "s");
    size_t next_filler = 0;
    std::string present = kNone;
    std::set<std::string> allowed;
    int sequence = 0;
    const auto write = [&] {
      ++interleaved;
      const uint64_t what = random() % 40;
      const std::string value = absl::StrCat("v", ++sequence);
      if (what < 14) {
        Put("key", value);
        present = value;
      } else if (what < 18) {
        if (present != kNone) Delete("key");
        present = kNone;
      } else if (what < 34) {
        const std::string& other = what < 28 ? group[random() % 2] : "memory";
        if (table_->Delete(table_->HashOf(other), other, Condition::kAlways, 0, now_).code != Code::kOk)
          Put(other, value);
      } else if (what < 36) {
        PassQuarantine();
      } else if (next_filler > 30 && random() % 2 == 0) {  // segments merge
        for (size_t i = 0; i < 24; ++i) Delete(fillers[--next_filler]);
      } else if (next_filler < fillers.size()) {
        for (size_t i = 0; i < 6 && next_filler < fillers.size(); ++i) Put(fillers[next_filler++], value);
      }
      allowed.insert(present);
    };
    reader_->backwards = seed % 2 == 0;
    reader_->split_items = seed % 5 == 0;
    int64_t began = 0;
    reader_->before_fetch = [&](const Range&) { began = now_; };
    reader_->is_late = [&](const Range&) { return now_ - began > kMaxBucketReadNs; };
    const uint64_t rate = 4 + random() % 40;
    reader_->before_word = [&](const Range&, size_t) {
      if (random() % rate == 0) write();
    };
    Slot cached;
    for (int i = 0; i < 300; ++i) {
      allowed = {present};
      const std::string got = Get("key", random() % 2 == 0 ? cached : Slot());
      ++lookups;
      if (got == kAsk) {
        ++asked;
        continue;
      }
      ASSERT_EQ(allowed.count(got), 1u) << got << " at lookup " << i;
      if (got != kNone) {
        ++found;
        cached = reader_->lookup().slot();
      }
    }
    reader_->before_word = nullptr;
    splits += table_->stats().splits;
    merges += table_->stats().merges;
  }
  std::printf("%lu lookups, %lu found, %lu writes between, %lu splits, %lu merges, %lu asked\n", lookups, found,
              interleaved, splits, merges, asked);
  EXPECT_GT(splits, 5u * kRounds);
  EXPECT_GT(merges, kRounds);
  EXPECT_LT(asked, lookups / 20);
}

// ---- Memory of a peer that is broken, or worse ----

class NoiseTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 16 * kMiB;

  NoiseTest() : memory_(kBytes), hasher_(42), directory_(kBytes, 4096) {
    RegionHeader header = RegionHeader::For(kBytes, 1);
    header.incarnation = 7;
    header.hash_seed = 42;
    header.level = 6;
    WriteRegionHeader(region(), header);
  }
  char* region() { return memory_.span().data(); }

  void LoadDirectory() {
    Directory::Step step = directory_.Load();
    while (step == Directory::Step::kRead) step = *directory_.Feed(Fetch(directory_.wanted()));
  }

  absl::string_view Fetch(const Range& range) {
    EXPECT_GT(range.bytes, 0u);
    EXPECT_LE(range.bytes, kBytes);
    EXPECT_LE(range.offset, kBytes - range.bytes);
    return {region() + range.offset, range.bytes};
  }

  // Runs one lookup to its end; its fetches must stay inside and be few.
  Step Run(absl::string_view key, Slot cached = Slot()) {
    const ReaderContext context{&hasher_, &directory_, kBytes};
    Step step = lookup_.Start(context, key, hasher_(key), cached);
    int refreshes = 0;
    fetches_ = 0;
    while (true) {
      switch (step) {
        case Step::kRead:
          ++fetches_;
          step = lookup_.Feed(Fetch(lookup_.wanted()), false);
          break;
        case Step::kRefresh: {
          ++refreshes;
          Directory::Step next = directory_.Refresh(lookup_.hash(), lookup_.stale_entry());
          for (int i = 0; next == Directory::Step::kRead && i < 100; ++i) {
            next = *directory_.Feed(Fetch(directory_.wanted()));
          }
          EXPECT_EQ(next, Directory::Step::kDone);
          step = lookup_.Resume();
          break;
        }
        default:
          EXPECT_LE(refreshes, Lookup::kMaxRounds);
          EXPECT_LE(fetches_, 1 + Lookup::kMaxRounds * 2 * static_cast<int>(kWordsPerBucket));
          return step;
      }
    }
  }

  TestMemory memory_;
  const Hasher hasher_;
  Directory directory_;
  Lookup lookup_;
  int fetches_ = 0;
};

TEST_F(NoiseTest, RandomBytesAreNeverAnAnswerAndNeverEndless) {
  std::mt19937_64 random(1);
  for (uint64_t at = kDirectoryOffset; at < kBytes; at += 8) StoreWord(region() + at, random());
  LoadDirectory();
  for (int i = 0; i < 10'000 * kRounds; ++i) {
    const Step step = Run(absl::StrCat("key", i), Slot(random()));
    ASSERT_EQ(step, Step::kAskServer);
    ASSERT_FALSE(HasFailure()) << i;
  }
}

// Noise that gets further: descriptions and directory entries that look right, slots that match.
TEST_F(NoiseTest, NoiseBehindRightDescriptions) {
  std::mt19937_64 random(2);
  for (uint64_t at = kDirectoryOffset; at < kBytes; at += 8) StoreWord(region() + at, random());
  const uint64_t segments = kBytes / kSegmentBytes;
  std::vector<uint32_t> ids(segments);
  for (uint64_t s = 1; s < segments; ++s) {
    for (uint32_t b = 0; b < kBuckets; ++b) {
      char* bucket = region() + s * kSegmentBytes + b * kBucketBytes;
      StoreWord(bucket, BucketInfo(static_cast<uint32_t>(s), b, random() % 2 ? random() % 32 : 0).word());
    }
  }
  RegionHeader header;
  for (uint64_t i = 0; i < 64; ++i) {
    const uint64_t s = 1 + random() % (segments - 1);
    const DirectoryEntry entry(static_cast<uint32_t>(s), s * kSegmentBytes);
    StoreWord(region() + header.DirectoryArray(6) + 8 * i, i % 8 == 0 ? random() : entry.word());
  }
  LoadDirectory();
  std::map<Step, int> count;
  for (int i = 0; i < 50'000 * kRounds; ++i) {
    // A fingerprint that matches, in some slots, with or without a place inside.
    const std::string key = absl::StrCat("key", i);
    const uint64_t hash = hasher_(key);
    const DirectoryEntry entry = directory_.Find(hash);
    if (entry.ValidIn(kBytes) && i % 4 != 0) {
      char* slots = region() + entry.offset() + BucketOf(hash) * kBucketBytes;
      for (uint64_t n = random() % 16; n > 0; --n) {
        const uint64_t place = random() % 8 == 0 ? random() : (random() % 380) << 39 | random() % (kBytes / 32);
        StoreWord(slots + 8 * n, uint64_t{FingerprintOf(hash)} << 48 | (place & ~0ull >> 16));
      }
    }
    ++count[Run(key, Slot(random() % 4 == 0 ? random() : 0))];
    ASSERT_FALSE(HasFailure()) << i;
  }
  EXPECT_EQ(count[Step::kFound], 0);
  EXPECT_GT(count[Step::kNotFound], 50 * kRounds) << "no slot matched";
  EXPECT_GT(count[Step::kAskServer], 50 * kRounds);
}

TEST_F(NoiseTest, AnEmptyRegionIsAskedAboutAndNotBelieved) {
  LoadDirectory();
  EXPECT_EQ(Run("key"), Step::kAskServer) << "zeros are no directory entry";
}

TEST_F(NoiseTest, HostileEntriesLinksAndSlots) {
  const uint64_t hash = hasher_("key");
  const uint64_t last = kBytes - kSegmentBytes;
  RegionHeader header;
  const auto entry = [&](uint64_t word) {
    for (uint64_t i = 0; i < 64; ++i) StoreWord(region() + header.DirectoryArray(6) + 8 * i, word);
    LoadDirectory();
  };
  for (const uint64_t word : {uint64_t{0}, ~uint64_t{0}, DirectoryEntry(1, kBytes).word(),
                              DirectoryEntry(1, last + kBucketBytes).word(), DirectoryEntry(0, last).word()}) {
    entry(word);
    EXPECT_EQ(Run("key"), Step::kAskServer) << word;
    EXPECT_EQ(fetches_, 0);
  }
  // A segment at the region's end, so that a bucket beyond it is outside.
  entry(DirectoryEntry(1, last).word());
  char* bucket = region() + last + BucketOf(hash) * kBucketBytes;
  for (uint32_t link = 0; link < 32; ++link) {
    StoreWord(bucket, BucketInfo(1, BucketOf(hash), link).word());
    EXPECT_EQ(Run("key"), link == 0 ? Step::kNotFound : Step::kAskServer) << link;
  }
  // A bucket that describes itself as another, or not at all.
  for (const uint64_t word : {BucketInfo(1, BucketOf(hash) ^ 1, 0).word(), BucketInfo(2, BucketOf(hash), 0).word(),
                              uint64_t{0}, BucketInfo(1, BucketOf(hash), 0).word() | uint64_t{1} << 32}) {
    StoreWord(bucket, word);
    EXPECT_EQ(Run("key"), Step::kAskServer) << word;
  }
  // An overflow bucket that links on: nobody follows.
  StoreWord(bucket, BucketInfo(1, BucketOf(hash), 1).word());
  StoreWord(region() + last + LinkedBucket(1) * kBucketBytes, BucketInfo(1, LinkedBucket(1), 31).word());
  EXPECT_EQ(Run("key"), Step::kNotFound);
  EXPECT_EQ(fetches_, 2);
  // Slots that match and lead outside, or into the reserved bits.
  StoreWord(bucket, BucketInfo(1, BucketOf(hash), 0).word());
  const uint16_t fingerprint = FingerprintOf(hash);
  for (const Slot slot : {Slot(fingerprint, 0, kBytes), Slot(fingerprint, 1, kBytes - 32),
                          Slot(fingerprint, kSizeClasses - 1, kMiB), Slot(fingerprint, kSizeClasses, kMiB),
                          Slot(fingerprint, 0, 0), Slot(Slot(fingerprint, 0, kMiB).word() | 1ull << 36)}) {
    StoreWord(bucket + 8, slot.word());
    EXPECT_EQ(Run("key"), Step::kAskServer) << slot.word();
  }
}

TEST_F(NoiseTest, BytesOfAnotherLengthThanWantedAreNotLookedAt) {
  RegionHeader header;
  for (uint64_t i = 0; i < 64; ++i) {
    StoreWord(region() + header.DirectoryArray(6) + 8 * i, DirectoryEntry(1, kMiB).word());
  }
  LoadDirectory();
  const ReaderContext context{&hasher_, &directory_, kBytes};
  ASSERT_EQ(lookup_.Start(context, "key", hasher_("key"), Slot(1, 0, 32)), Step::kRead);
  EXPECT_EQ(lookup_.Feed("short", false), Step::kRead);
  // A bucket that would be believed, had all of it come.
  std::string bucket(kBucketBytes, '\0');
  StoreAs(bucket.data(), BucketInfo(1, BucketOf(hasher_("key")), 0).word());
  EXPECT_EQ(lookup_.Feed(absl::string_view(bucket).substr(0, kBucketBytes - 8), false), Step::kRead);
  EXPECT_EQ(lookup_.Feed(bucket + "12345678", false), Step::kRead);
  EXPECT_EQ(lookup_.Feed(bucket, false), Step::kNotFound);
  ASSERT_EQ(lookup_.Start(context, "key", hasher_("key")), Step::kRead);
  int steps = 0;
  while (lookup_.Feed("short", false) == Step::kRead) ASSERT_LT(++steps, 100);
}

}  // namespace
}  // namespace farlook::kv
