// The reader with writers that run between its fetches: overwrites, splits, overflow buckets.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/read/lookup_testing.h"

namespace farlook::kv {
namespace {

// ---- A writer between the fetches ----

TEST_F(LookupTest, AnOverwriteBetweenBucketAndItemIsGoneRound) {
  Put("key", "one");
  EXPECT_EQ(GetWith("key", {{1, [&] { Put("key", "two"); }}}), "two");
  EXPECT_EQ(fetches_, 4);
  // Again and again: each round is overtaken.
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
// another key: the reader finds a whole, live item of another key. It must not return NotFound.
TEST_F(LookupTest, TheSlotsItemReplacedByAnotherKeysIsLookedAtTwice) {
  const Slot slot = Put("key", "one").slot;
  const auto replace = [&] {
    Put("key", "two");
    ASSERT_EQ(Put("other", "x").slot.offset(), slot.offset());
  };
  EXPECT_EQ(GetWith("key", {{1, replace}}), "two");
}

// The same also at the second look. The slot is the same word as before, since the item returned to its old place, and
// again the reader finds another key's item there. Only the item's version differs.
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
  // One of them is overwritten before each READ of an item: dead, so another round, to the end.
  Delete("key");
  EXPECT_EQ(GetWith("key", {{2, [&] { Put(others[1], "w"); }}}), kNone);
  // Inserted into a slot between the first and the second look.
  EXPECT_EQ(GetWith("key", {{3, [&] { Put("key", "now"); }}}), "now");
}

TEST_F(LookupTest, ADeadItemInAMatchingSlotIsNoProofOfAbsence) {
  // The writer stops between "old DEAD" and "alive": this store leaves the state of a stopped server.
  const WriteResult put = Put("key", "one");
  char* version = At(put.slot.offset() + kVersionOffset);
  StoreWord(version, put.version | kDeadBit);
  EXPECT_EQ(Get("key"), kAsk);
  EXPECT_EQ(reader_->lookup().bucket_reads(), static_cast<uint32_t>(Lookup::kMaxRounds));
  // The writer continues while the reader retries.
  EXPECT_EQ(GetWith("key", {{20, [&] { StoreWord(version, put.version); }}}), "one");
  // The same with this location cached.
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
      // With an earlier directory, an earlier location, and both.
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
  // The stale slot of the retired segment leads to another key's item, and stays so. The segment's descriptions show
  // that it is retired.
  Make(16 * kMiB);
  const Slot again = Put("key", "one").slot;
  const auto split_and_replace = [&] {
    SplitSegmentOf("key");
    Put("key", "two");
    ASSERT_EQ(Put("other", "xx").slot.offset(), again.offset());
  };
  EXPECT_EQ(GetWith("key", {{1, split_and_replace}}), "two");
}

// If the second look began in another segment than the first, they are not compared: slots are compared within one
// segment.
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

// The overflow bucket's segment was already retired when the bucket was READ, and in use again: its description shows
// that.
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

}  // namespace
}  // namespace farlook::kv
