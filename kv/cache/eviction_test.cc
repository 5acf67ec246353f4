#include "kv/cache/eviction.h"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "kv/layout/limits.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kRegion = 64 << 20;
constexpr int64_t kSecond = 1'000'000'000;
constexpr BlockKind kSmall = BlockKind::kSmall, kMedium = BlockKind::kMedium;

// Pieces of each kind by their offsets.
class FakeWalk : public PieceWalk {
 public:
  uint64_t Next(BlockKind kind, uint64_t* from, uint32_t* looks) const override {
    const auto of = pieces.find(kind);
    if (of == pieces.end()) return 0;
    const auto at = of->second.lower_bound(*from);
    if (at == of->second.end()) return 0;
    --*looks;
    if (*looks == 0) {
      *from = *at;
      return 0;
    }
    return *at;
  }
  std::map<BlockKind, std::set<uint64_t>> pieces;
};

class EvictionTest : public testing::Test {
 protected:
  void Add(uint64_t offset, bool old = false, BlockKind kind = kSmall) {
    walk_.pieces[kind].insert(offset);
    eviction_.Added(kind, offset, old, now_ns_);
  }
  // Evicts, and returns the victim's offset; 0: none.
  uint64_t Evict(BlockKind kind = kSmall, uint64_t spared = 0) {
    uint32_t looks = 1000;
    const Eviction::Victim victim = eviction_.Choose(kind, spared, now_ns_, &looks);
    if (victim.offset == 0) return 0;
    Remove(victim.offset, kind);
    eviction_.Evicted(kind, victim, /*hash=*/victim.offset, now_ns_);
    return victim.offset;
  }
  void Remove(uint64_t offset, BlockKind kind = kSmall) {
    walk_.pieces[kind].erase(offset);
    eviction_.Removed(kind, offset);
  }

  PieceMarks marks_{kRegion};
  FakeWalk walk_;
  int64_t now_ns_ = 0;
  Eviction eviction_{&marks_, &walk_, kRegion, 0};
};

TEST_F(EvictionTest, MarksOfNeighboursAreApart) {
  for (uint64_t offset : {64, 160, 224, 320}) marks_.Set(offset, PieceMarks::kEvictable);
  EXPECT_TRUE(marks_.Touch(160));
  EXPECT_EQ(marks_.Get(64), PieceMarks::kEvictable);
  EXPECT_EQ(marks_.Get(160), PieceMarks::kEvictable + 1);
  EXPECT_EQ(marks_.Get(224), PieceMarks::kEvictable);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(marks_.Touch(160));
  EXPECT_EQ(marks_.Get(160), PieceMarks::kEvictable | PieceMarks::kTouches);
  EXPECT_FALSE(marks_.Touch(512)) << "nothing is there";
  EXPECT_EQ(marks_.Get(512), 0);
  marks_.Set(160, 0);
  EXPECT_FALSE(marks_.Touch(160));
  EXPECT_EQ(marks_.Get(224), PieceMarks::kEvictable);
}

TEST_F(EvictionTest, TheYoungGoInTheOrderInWhichTheyCame) {
  for (uint64_t i = 1; i <= 20; ++i) Add((i * 7 % 20 + 1) * 64);
  for (uint64_t i = 1; i <= 20; ++i) EXPECT_EQ(Evict(), (i * 7 % 20 + 1) * 64);
  EXPECT_EQ(Evict(), 0u);
}

TEST_F(EvictionTest, WhoWasTouchedWhileYoungIsOldAndGoesAfterTheYoung) {
  for (uint64_t i = 1; i <= 100; ++i) Add(i * 64);
  for (uint64_t i = 1; i <= 10; ++i) eviction_.Used(i * 640);
  for (uint64_t i = 0; i < 90; ++i) EXPECT_NE(Evict() % 640, 0u);
  EXPECT_EQ(Evict(), 640u);
}

TEST_F(EvictionTest, EachTouchOfAnOldOneIsARoundOfTheHand) {
  for (uint64_t i = 1; i <= 10; ++i) Add(i * 64, /*old=*/true);
  for (int touches = 0; touches < 3; ++touches) eviction_.Used(5 * 64);
  eviction_.Used(6 * 64);
  const uint64_t order[] = {1, 2, 3, 4, 7, 8, 9, 10, 6, 5};
  for (const uint64_t i : order) EXPECT_EQ(Evict(), i * 64);
}

TEST_F(EvictionTest, WhatIsSparedStays) {
  Add(64);
  Add(128, /*old=*/true);
  EXPECT_EQ(Evict(kSmall, 64), 128u);
  EXPECT_EQ(Evict(kSmall, 64), 0u);
  EXPECT_EQ(Evict(kSmall), 64u);
}

// If it reported that there is more to look at, the caller that needs room would retry forever.
TEST_F(EvictionTest, WhereOnlyTheSparedOneIsThereIsNothingToLookFor) {
  Add(64, /*old=*/true);
  for (int calls = 0; calls < 3; ++calls) {
    uint32_t looks = 1000;
    EXPECT_EQ(eviction_.Choose(kSmall, /*spared=*/64, now_ns_, &looks).offset, 0u);
    EXPECT_GT(looks, 900u);
  }
  EXPECT_EQ(Evict(), 64u);
}

TEST_F(EvictionTest, WhatIsNotKnownIsNeverChosen) {
  walk_.pieces[kSmall] = {64, 128, 192};  // kept, or a counter, or not published yet
  EXPECT_EQ(Evict(), 0u);
  Add(256, /*old=*/true);
  EXPECT_EQ(Evict(), 256u);
  eviction_.Removed(kSmall, 64);
  eviction_.Moved(kSmall, 128, 512);
  EXPECT_EQ(Evict(), 0u);
  EXPECT_FALSE(eviction_.Knows(512));
}

TEST_F(EvictionTest, WhoIsMovedTakesItsTouchesAlong) {
  Add(64);
  eviction_.Used(64);
  Add(128, true);
  walk_.pieces[kSmall] = {128, 256};
  eviction_.Moved(kSmall, 64, 256);
  EXPECT_FALSE(eviction_.Knows(64));
  EXPECT_TRUE(eviction_.IsOld(256));
  EXPECT_EQ(Evict(), 128u);
  EXPECT_EQ(Evict(), 256u);
  EXPECT_EQ(Evict(), 0u);
}

TEST_F(EvictionTest, AKeyThatReturnsIsOneThatWasEvictedYoung) {
  for (uint64_t i = 1; i <= 4; ++i) Add(i * 64);
  EXPECT_FALSE(eviction_.Returns(64));
  Evict();
  EXPECT_TRUE(eviction_.Returns(64));
  EXPECT_FALSE(eviction_.Returns(64)) << "once";
  Add(64, /*old=*/true);
  while (Evict() != 64) {
  }
  EXPECT_FALSE(eviction_.Returns(64)) << "it was old when it went";
  EXPECT_EQ(eviction_.ghost_hits(), 1u);
}

TEST_F(EvictionTest, TheQueueIsBoundedHoweverManyComeAndGo) {
  for (uint64_t i = 0; i < 1'000'000; ++i) {
    Add(64);
    Remove(64);
  }
  Add(64);
  now_ns_ += kSecond;
  eviction_.ToRob(kSmall, 1, now_ns_);
  EXPECT_LE(eviction_.memory_bytes(), kRegion / 128);
  EXPECT_GT(eviction_.memory_bytes(), 0u);
  uint64_t evicted = 0;
  for (int calls = 0; calls < 200 && evicted == 0; ++calls) evicted = Evict();  // skip the stale entries of the queue
  EXPECT_EQ(evicted, 64u);
  EXPECT_EQ(Evict(), 0u);
}

TEST_F(EvictionTest, LooksAreBounded) {
  for (uint64_t i = 1; i <= 100; ++i) {
    Add(i * 64, /*old=*/true);
    for (int n = 0; n < 3; ++n) eviction_.Used(i * 64);
  }
  int calls = 0;
  uint32_t looks;
  Eviction::Victim victim;
  do {
    looks = 20;
    victim = eviction_.Choose(kSmall, 0, 0, &looks);
    ++calls;
  } while (victim.offset == 0);
  EXPECT_GE(calls, 300 / 20) << "it goes on where it stopped";
  EXPECT_LE(calls, 30);
}

TEST_F(EvictionTest, AKindWhoseVictimsAreOlderGivesAPageInASecond) {
  now_ns_ = 10 * kSecond;
  for (uint64_t i = 1; i <= 100; ++i) Add(i * 64);
  for (uint64_t i = 1; i <= 100; ++i) Add((1 << 20) + i * 8192, false, kMedium);
  // Small items are evicted one after the other; nothing was evicted from the medium ones for long.
  now_ns_ += 10 * kSecond;
  for (int i = 0; i < 50; ++i) Evict();
  uint64_t robbed = 0;
  for (int i = 0; i < 1000; ++i) {
    if (eviction_.ToRob(kSmall, 8192, now_ns_) == kMedium) robbed += 8192;
  }
  EXPECT_GT(robbed, 0u);
  EXPECT_LE(robbed, kPageBytes);
  EXPECT_EQ(eviction_.ToRob(kMedium, 8192, now_ns_), kMedium) << "who is to give takes of its own";
  now_ns_ += 2 * kSecond;
  EXPECT_EQ(eviction_.ToRob(kSmall, 8192, now_ns_), kMedium);
}

TEST_F(EvictionTest, KindsOfTheSameAgeLeaveEachOtherAlone) {
  for (int round = 0; round < 100; ++round) {
    now_ns_ += kSecond / 10;
    for (const BlockKind kind : {kSmall, kMedium}) {
      Add((round + 1) * 64 + (kind == kMedium ? 1 << 20 : 0), false, kind);
      if (round > 10) Evict(kind);
      EXPECT_EQ(eviction_.ToRob(kind, 64, now_ns_), kind);
    }
  }
}

TEST_F(EvictionTest, AKindThatHasNothingTakesFromTheOldest) {
  Add(64);
  EXPECT_EQ(eviction_.ToRob(BlockKind::kRun, 1 << 20, now_ns_), kSmall);
}

}  // namespace
}  // namespace farlook::kv
