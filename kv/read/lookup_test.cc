// A reader without interference; cached locations, expiry; slow READs; any interleaving.
#include "kv/read/lookup.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/item.h"
#include "kv/read/lookup_testing.h"

namespace farlook::kv {
namespace {

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
                            Slot(1, 5, end - kMiB)};  // nonsense, never used
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

// ---- Cached locations ----

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

// The word may be the checksum of an update in progress, or anything.
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

// A counter lives until it is swept: clients that know its cell change it until then.
TEST_F(ExpiringTest, ACounterIsFoundHoweverLateItIs) {
  ASSERT_EQ(table_->InsertCounter(table_->HashOf("key"), "key", 64, /*expiry_ms=*/1'000'005, now_).code, Code::kOk);
  clock_.now_us = 2'000'000'000;
  EXPECT_NE(Get("key"), kNone);
  EXPECT_EQ(reader_->lookup().item_reads(), 1u);
}

// The time has passed when the second READ is posted, and not before.
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
  // Repeated without end: the server is asked.
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

// A Touch that has only stored the inverted tag: neither found nor absent.
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

// ---- Slow READs ----

// A READ whose words were fetched far apart in time: the description before a split, the slots after the memory was
// reused. It is late, so it is rejected.
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

// The same within the quarantine: the slots are unchanged.
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

// The writer read the time long before it retired a segment: the process was stopped between, or the work of one batch
// took that long. The quarantine must not have ended when the next write arrives with a time read afterwards.
TEST_F(LookupTest, TheQuarantineDoesNotTrustATimeThatWasReadBeforeTheSplit) {
  Put("key", "one");
  reader_->before_word = [&](const Range& range, size_t word) {
    if (range.bytes != kBucketBytes || word != 1 || table_->stats().splits > 0) return;
    SplitSegmentOf("key");  // with a time read long ago
    now_ += 2 * kQuarantineNs;
    const auto far = [&](uint64_t h) { return PositionOf(h) >> 61 != PositionOf(table_->HashOf("key")) >> 61; };
    SplitSegmentOf(Keys(1, far, "far")[0], "t");
  };
  EXPECT_EQ(Get("key"), "one");
}

// ---- Any interleaving ----

// Before each word of each fetch a writer may change the key, or keys that share its memory, its fingerprint or its
// bucket; segments split and are reused. The result must have been the key's value at a moment between the lookup's
// begin and its end.
TEST_F(LookupTest, WhatIsReadWasTheKeysValueAtSomeMomentOfTheLookup) {
  uint64_t lookups = 0, interleaved = 0, asked = 0, splits = 0, merges = 0, found = 0;
  for (uint64_t seed = 1; seed <= 15 * kRounds; ++seed) {
    Make(16 * kMiB);
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    std::vector<std::string> group = KeysWithFingerprintOfKey(2);
    group.push_back("key");
    if (seed % 3 == 0) {  // puts all of them into the overflow bucket
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

}  // namespace
}  // namespace farlook::kv
