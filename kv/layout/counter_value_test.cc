#include "kv/layout/counter_value.h"

#include <limits>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(CounterValueTest, WhatLeadsFromAPoisonedCellToAValue) {
  constexpr int64_t kPoisoned = INT64_MIN;
  for (const int64_t value : {int64_t{0}, int64_t{5}, -kCounterEnd, kCounterEnd - 1, kPoisoned}) {
    EXPECT_EQ(AddedTo(kPoisoned, Difference(value, kPoisoned)), value);
    EXPECT_EQ(AddedTo(value, Difference(kPoisoned, value)), kPoisoned);
  }
}

TEST(CounterValueTest, TheRangesMeetWithoutGapAndOverlap) {
  EXPECT_EQ(StateOf(0), CellState::kLive);
  EXPECT_EQ(StateOf(kCounterEnd - 1), CellState::kLive);
  EXPECT_EQ(StateOf(kCounterEnd), CellState::kOutOfRange);
  EXPECT_EQ(StateOf(kDeadBegin - 1), CellState::kOutOfRange);
  EXPECT_EQ(StateOf(kDeadBegin), CellState::kDead);
  EXPECT_EQ(StateOf(kMax), CellState::kDead);
  EXPECT_EQ(StateOf(kMin), CellState::kDead);
  EXPECT_EQ(StateOf(-kDeadBegin - 1), CellState::kDead);
  EXPECT_EQ(StateOf(-kDeadBegin), CellState::kOutOfRange);
  EXPECT_EQ(StateOf(-kCounterEnd - 1), CellState::kOutOfRange);
  EXPECT_EQ(StateOf(-kCounterEnd), CellState::kLive);
}

TEST(CounterValueTest, APoisonedLiveValueIsDeadAndStaysSoThroughAllAddsThatMayBeInFlight) {
  for (const int64_t live : {-kCounterEnd, int64_t{-1}, int64_t{0}, int64_t{1}, kCounterEnd - 1}) {
    const int64_t poisoned = AddedTo(live, static_cast<int64_t>(kPoison));
    EXPECT_EQ(StateOf(poisoned), CellState::kDead);
    const int64_t most = kMaxAtomicsInFlight * kMaxCounterDelta;
    EXPECT_EQ(StateOf(AddedTo(poisoned, most)), CellState::kDead) << live;
    EXPECT_EQ(StateOf(AddedTo(poisoned, -most)), CellState::kDead) << live;
  }
}

TEST(CounterValueTest, AnAddCountsOnlyFromLiveToLive) {
  EXPECT_EQ(StateOfAdd(5, -7), CellState::kLive);
  EXPECT_EQ(StateOfAdd(kCounterEnd - 1, 1), CellState::kOutOfRange);
  EXPECT_EQ(StateOfAdd(-kCounterEnd, -1), CellState::kOutOfRange);
  EXPECT_EQ(StateOfAdd(kCounterEnd, -1), CellState::kOutOfRange);
  EXPECT_EQ(StateOfAdd(kMin, 1), CellState::kDead);
  EXPECT_EQ(StateOfAdd(kMax, 1), CellState::kDead);
}

TEST(CounterValueTest, DeltasAreBoundedOnBothSides) {
  EXPECT_TRUE(ValidDelta(kMaxCounterDelta));
  EXPECT_TRUE(ValidDelta(-kMaxCounterDelta));
  EXPECT_FALSE(ValidDelta(kMaxCounterDelta + 1));
  EXPECT_FALSE(ValidDelta(-kMaxCounterDelta - 1));
  EXPECT_FALSE(ValidDelta(kMin));
}

}  // namespace
}  // namespace farlook::kv
