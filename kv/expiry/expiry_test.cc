#include "kv/expiry/expiry.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kv/layout/segment.h"

namespace farlook::kv {
namespace {

using Tick = ExpiryIndex::Tick;

// Items in segments that each cover the positions with the same top `depth` bits.
class FakeTable {
 public:
  FakeTable(int depth, uint64_t prefix, int bits) : depth_(depth), prefix_(prefix), bits_(bits), index_(prefix, bits) {}

  ExpiryIndex& index() { return index_; }
  size_t size() const { return items_.size(); }
  size_t looked() const { return looked_; }
  size_t looked_again() const { return looked_again_; }
  size_t expired() const { return expired_; }
  // Looks of the sweep that it had not announced, and announced places that it did not look at in that step.
  size_t unforeseen() const { return unforeseen_; }
  size_t foreseen_in_vain() const { return foreseen_in_vain_; }
  uint64_t longest_step() const { return longest_step_; }

  // A random hash in the partition.
  uint64_t RandomHash(std::mt19937_64* random) const {
    for (;;) {
      const uint64_t hash = (*random)();
      if (bits_ == 0 || PositionOf(hash) >> (64 - bits_) == prefix_) return hash;
    }
  }

  // expiry_ms 0: never.
  void Put(uint64_t hash, uint64_t expiry_ms) {
    buckets_[KeyOf(PositionOf(hash), BucketOf(hash))][hash] = expiry_ms;
    items_[hash] = expiry_ms;
    if (expiry_ms == 0) return;
    index_.Note(hash, expiry_ms, depth_, [this](ExpiryIndex::Visit* visit) {
      const size_t before = looked_;
      Look(/*now_ms=*/0, visit);
      EXPECT_LE(looked_, before + 1);
      looked_ = before;
      ++looked_again_;
    });
  }
  void Delete(uint64_t hash) {
    buckets_[KeyOf(PositionOf(hash), BucketOf(hash))].erase(hash);
    items_.erase(hash);
  }
  const std::map<uint64_t, uint64_t>& items() const { return items_; }

  // Splits or merges all segments.
  void set_depth(int depth) {
    depth_ = depth;
    buckets_.clear();
    for (const auto& [hash, expiry_ms] : items_) buckets_[KeyOf(PositionOf(hash), BucketOf(hash))][hash] = expiry_ms;
  }

  // Steps until nothing is left to do now.
  size_t SweepAll(uint64_t now_ms, size_t budget) {
    size_t steps = 1;
    while (Step(now_ms, budget)) ++steps;
    return steps;
  }
  bool Step(uint64_t now_ms, size_t budget) {
    const size_t before = looked_;
    const bool more = index_.Sweep(
        ExpiryIndex::TickOf(now_ms), budget, [this, now_ms](ExpiryIndex::Visit* visit) { Look(now_ms, visit); },
        [this](absl::Span<const ExpiryIndex::Place> places) { Foresee(places); });
    longest_step_ = std::max<uint64_t>(longest_step_, looked_ - before);
    return more;
  }

 private:
  std::pair<uint64_t, uint32_t> KeyOf(uint64_t position, uint32_t bucket) const {
    return {depth_ == 0 ? 0 : position >> (64 - depth_), bucket};
  }

  void Foresee(absl::Span<const ExpiryIndex::Place> places) {
    foreseen_.clear();
    for (const ExpiryIndex::Place& place : places) foreseen_.insert(KeyOf(place.position, place.bucket));
    foreseen_in_vain_ += foreseen_.size();
  }

  void Look(uint64_t now_ms, ExpiryIndex::Visit* visit) {
    for (;;) {
      if (now_ms != 0) {
        const size_t was_foreseen = foreseen_.erase(KeyOf(visit->first, visit->bucket));
        unforeseen_ += 1 - was_foreseen;
        foreseen_in_vain_ -= was_foreseen;
      }
      auto& bucket = buckets_[KeyOf(visit->first, visit->bucket)];
      for (auto item = bucket.begin(); item != bucket.end();) {
        if (item->second != 0 && item->second <= now_ms) {
          items_.erase(item->first);
          item = bucket.erase(item);
          ++expired_;
          continue;
        }
        if (item->second != 0) visit->next = std::min(visit->next, ExpiryIndex::TickOf(item->second));
        ++item;
      }
      ++looked_;
      ++visit->looked;
      ++visit->segments;
      const uint64_t last = depth_ == 0 ? ~uint64_t{0} : visit->first | ~uint64_t{0} >> depth_;
      visit->done = last >= visit->last;
      if (visit->done) return;
      visit->first = last + 1;
      if (visit->looked >= visit->budget) return;
    }
  }

  int depth_;
  const uint64_t prefix_;
  const int bits_;
  ExpiryIndex index_;
  std::map<uint64_t, uint64_t> items_;
  std::map<std::pair<uint64_t, uint32_t>, std::map<uint64_t, uint64_t>> buckets_;
  std::set<std::pair<uint64_t, uint32_t>> foreseen_;  // announced by the current step, and not looked at yet
  size_t unforeseen_ = 0, foreseen_in_vain_ = 0;
  size_t looked_ = 0, expired_ = 0;
  size_t looked_again_ = 0;
  uint64_t longest_step_ = 0;
};

TEST(ExpiryIndexTest, WithoutExpiryThereIsNothing) {
  FakeTable table(4, 0, 0);
  EXPECT_EQ(table.index().due(), ExpiryIndex::kNever);
  EXPECT_EQ(table.index().bytes(), 0u);
  EXPECT_FALSE(table.Step(1'000'000'000'000, 100));
  EXPECT_EQ(table.looked(), 0u);
}

TEST(ExpiryIndexTest, NothingIsLookedAtBeforeItIsDue) {
  FakeTable table(4, 0, 0);
  table.Put(77, 10'000);
  EXPECT_EQ(table.index().due(), ExpiryIndex::TickOf(10'000));
  EXPECT_FALSE(table.Step(10'000, 100)) << "its tick is not over";
  EXPECT_EQ(table.looked(), 0u);
  table.SweepAll(10'000 + 256, 100);
  EXPECT_EQ(table.size(), 0u);
  // Expect: when all has expired, nothing is left to look at.
  EXPECT_EQ(table.index().due(), ExpiryIndex::kNever);
  table.SweepAll(20'000, 100);
  EXPECT_EQ(table.index().bytes(), 0u);
}

TEST(ExpiryIndexTest, WhatWasTouchedOrDeletedIsLookedForInVainOnce) {
  FakeTable table(0, 0, 0);
  table.Put(77, 1'000);
  table.Put(77, 90'000);
  table.SweepAll(2'000, 100);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.looked(), 1u);
  EXPECT_EQ(table.index().due(), ExpiryIndex::TickOf(90'000));
  table.Delete(77);
  table.SweepAll(100'000, 100);
  EXPECT_EQ(table.looked(), 2u);
  EXPECT_EQ(table.index().due(), ExpiryIndex::kNever);
}

// A bucket whose visit takes several steps, and an item that is put between them.
TEST(ExpiryIndexTest, WhatIsPutBetweenTheStepsOfOneLookIsKept) {
  FakeTable table(0, 0, 0);
  table.Put(5, 1'000);
  table.set_depth(2);
  EXPECT_TRUE(table.Step(2'000, 1)) << "three more segments";
  table.Put(6, 9'000);
  table.SweepAll(2'000, 1);
  EXPECT_LE(table.index().due(), ExpiryIndex::TickOf(9'000));
  for (int i = 0; i < 3; ++i) table.SweepAll(5'000, 1);
  table.SweepAll(10'000, 1);
  EXPECT_EQ(table.size(), 0u);
}

// The same with an item in what would become the other half of the row.
TEST(ExpiryIndexTest, ALookThatIsUnderWayGoesOnWhereAnItemIsPutMeanwhile) {
  FakeTable table(0, 0, 0);
  table.Put(5, 1'000);
  table.Put(5 | uint64_t{1} << 63, 1'000);
  table.set_depth(2);
  EXPECT_TRUE(table.Step(2'000, 1));
  EXPECT_EQ(table.size(), 1u);
  table.Put(6, 90'000);
  table.SweepAll(2'000, 1);
  EXPECT_EQ(table.size(), 1u) << "what is put last";
}

// Puts, touches and deletes at any time, also between the steps of a round; many more or many fewer segments than rows;
// partitions.
TEST(ExpiryIndexTest, NoItemOutlivesItsTickOnceTheSweepIsThrough) {
  size_t looked_again = 0;
  for (const int depth : {0, 1, 3, 6}) {
    for (const int bits : {0, 2}) {
      std::mt19937_64 random(static_cast<uint64_t>(depth * 10 + bits));
      FakeTable table(std::max(depth, bits), bits == 0 ? 0 : 2, bits);
      std::vector<uint64_t> hashes;
      for (int i = 0; i < 2'000; ++i) hashes.push_back(table.RandomHash(&random));
      uint64_t now_ms = 1'000'000;
      const auto change = [&] {
        const uint64_t hash = hashes[random() % hashes.size()];
        if (random() % 5 == 0) return table.Delete(hash);
        table.Put(hash, random() % 4 == 0 ? 0 : now_ms + 1 + random() % 20'000);
      };
      for (int round = 0; round < 200; ++round) {
        if (round % 20 == 19) table.set_depth(std::max(bits, depth - 1 + static_cast<int>(random() % 4)));
        for (uint64_t n = random() % 100; n > 0; --n) change();
        now_ms += random() % 700;
        while (table.Step(now_ms, 1 + random() % 20)) {
          for (uint64_t n = random() % 3; n > 0; --n) change();
        }
        for (const auto& [hash, expiry_ms] : table.items()) {
          ASSERT_TRUE(expiry_ms == 0 || ExpiryIndex::TickOf(expiry_ms) >= ExpiryIndex::TickOf(now_ms)) << depth;
          ASSERT_TRUE(expiry_ms == 0 || table.index().due() <= ExpiryIndex::TickOf(expiry_ms));
        }
        ASSERT_LE(table.longest_step(), 20u);
      }
      EXPECT_GT(table.expired(), 1'000u);
      looked_again += table.looked_again();
    }
  }
  EXPECT_GT(looked_again, 1'000u);
}

// A steady flow of items that expire: the work for each item and the memory are bounded. Counted, not timed.
TEST(ExpiryIndexTest, TheWorkForEachItemIsBounded) {
  constexpr int kDepth = 6, kItems = 100'000;
  constexpr uint64_t kTtlMs = 1'000'000;
  std::mt19937_64 random(7);
  FakeTable table(kDepth, 0, 0);
  uint64_t now_ms = 1'000'000;
  for (int i = 0; i < kItems; ++i) table.Put(random(), now_ms + 1 + random() % kTtlMs);
  table.SweepAll(now_ms, 100);
  size_t steps = 0;
  size_t looked_before = 0, expired_before = 0;
  for (int second = 0; second < 300; ++second) {
    if (second == 100) {  // rows are as fine as segments by now
      looked_before = table.looked();
      expired_before = table.expired();
    }
    now_ms += 1'000;
    for (uint64_t i = 0; i < kItems * 1'000 / kTtlMs; ++i) table.Put(random(), now_ms + kTtlMs);
    steps += table.SweepAll(now_ms, 100);
  }
  EXPECT_GT(table.expired(), 29'000u);
  EXPECT_LT(table.looked(), table.expired() * 5 / 2) << "buckets, with those of the rows that had to split";
  EXPECT_LT(table.looked() - looked_before, (table.expired() - expired_before) * 11 / 10);
  EXPECT_LT(steps, 300u * 10);
  // Expect: a thirtieth of the index, whose segments have 32 KiB.
  EXPECT_LE(table.index().bytes(), (uint64_t{kSegmentBytes} << kDepth) / 28);
}

// Items that were put while segments split have cells as exact as later ones, so the first sweep has no more to do than
// later ones.
TEST(ExpiryIndexTest, TheFirstItemsToExpireCostAsLittleAsOthers) {
  std::mt19937_64 random(9);
  FakeTable table(0, 0, 0);
  constexpr uint64_t kTtlMs = 1'000'000;
  for (int depth = 0; depth < 6; ++depth) {
    table.set_depth(depth);
    for (size_t i = table.size(); i < uint64_t{3000} << depth; ++i) table.Put(random(), 1'000 + random() % kTtlMs);
  }
  const size_t looked_again = table.looked_again();
  for (uint64_t now_ms = 1'000; now_ms < kTtlMs / 10; now_ms += 500) table.SweepAll(now_ms, 100);
  EXPECT_GT(table.expired(), 9'000u);
  EXPECT_LT(table.looked(), table.expired() * 11 / 10);
  // Expect: each segment's buckets were looked at once by the puts.
  EXPECT_LE(looked_again, size_t{kMainBuckets} * 64 * 2);
}

// Announced looks overlap their cache misses: without, the sweep of a large table takes twice as long.
TEST(ExpiryIndexTest, WhereTheSweepLooksItSaysAhead) {
  constexpr int kDepth = 6, kItems = 100'000;
  constexpr uint64_t kTtlMs = 1'000'000;
  std::mt19937_64 random(8);
  FakeTable table(kDepth, 0, 0);
  for (int i = 0; i < kItems; ++i) table.Put(random(), 1'000 + random() % kTtlMs);
  for (uint64_t now_ms = 1'000; now_ms < kTtlMs / 2; now_ms += 256) table.SweepAll(now_ms, 8);
  EXPECT_GT(table.expired(), 49'000u);
  EXPECT_LT(table.unforeseen(), table.looked() / 50) << "of " << table.looked();
  EXPECT_LT(table.foreseen_in_vain(), table.looked() / 2) << "of " << table.looked();
}

// Reading early heads takes time too.
TEST(ExpiryIndexTest, AStepLooksAtFewRowsWhereNothingIsDue) {
  constexpr int kDepth = 8;
  std::mt19937_64 random(10);
  FakeTable table(0, 0, 0);
  // All rows are halves of one that had this item: their heads stay early after their cells are corrected.
  const uint64_t first = random();
  table.Put(first, 1'000);
  table.Delete(first);
  table.set_depth(kDepth);
  for (size_t i = 0; i < size_t{kMainBuckets} * 2 << kDepth; ++i) table.Put(random(), 100'000);
  const size_t steps = table.SweepAll(2'000, 8);
  EXPECT_LE(table.looked(), 4u);
  EXPECT_GE(steps, (size_t{1} << kDepth) / 40);
}

TEST(ExpiryIndexTest, RowsMergeWhenNothingExpiresAnyMore) {
  std::mt19937_64 random(3);
  FakeTable table(5, 0, 0);
  for (int i = 0; i < 10'000; ++i) table.Put(random(), 1'000 + random() % 10'000);
  for (uint64_t now_ms = 1'000; now_ms < 20'000; now_ms += 500) table.SweepAll(now_ms, 50);
  EXPECT_EQ(table.size(), 0u);
  const uint64_t most = table.index().bytes();
  // Expect: another item makes only one row, which is removed again.
  table.Put(5, 30'000);
  table.SweepAll(31'000, 50);
  EXPECT_LT(table.index().bytes(), most + 1);
  EXPECT_EQ(table.index().bytes(), 0u);
}

}  // namespace
}  // namespace farlook::kv
