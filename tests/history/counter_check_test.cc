// The checker's counters: histories made by hand, right and wrong, and random ones that a real counter produced.
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/history/bridge.h"
#include "tests/history/check.h"
#include "tests/history/history.h"

namespace farlook::history {
namespace {

// Builders: begin, end, then request and answer.
Operation Counting(Type type, Outcome outcome, int64_t begin, int64_t end, int64_t operand, int64_t was) {
  Operation operation;
  operation.type = type;
  operation.outcome = outcome;
  operation.begin_ns = begin;
  operation.end_ns = end;
  operation.operand = operand;
  operation.counter = was;
  return operation;
}
Operation Create(int64_t begin, int64_t end, int64_t first, Outcome outcome = Outcome::kOk, int64_t was = 0) {
  return Counting(Type::kCreateCounter, outcome, begin, end, first, was);
}
Operation Add(int64_t begin, int64_t end, int64_t delta, int64_t was, Outcome outcome = Outcome::kOk) {
  return Counting(Type::kFetchAdd, outcome, begin, end, delta, was);
}
Operation AddOrCreate(int64_t begin, int64_t end, int64_t initial, int64_t delta, int64_t was,
                      Outcome outcome = Outcome::kOk) {
  Operation add = Counting(Type::kAddOrCreate, outcome, begin, end, delta, was);
  add.expected_counter = initial;
  return add;
}
Operation Swap(int64_t begin, int64_t end, int64_t from, int64_t to, int64_t was) {
  Operation swap = Counting(Type::kCompareSwap, was == from ? Outcome::kOk : Outcome::kMismatch, begin, end, to, was);
  swap.expected_counter = from;
  return swap;
}
Operation Read(int64_t begin, int64_t end, int64_t was, Outcome outcome = Outcome::kOk) {
  return Counting(Type::kReadCounter, outcome, begin, end, 0, was);
}
Operation Delete(int64_t begin, int64_t end, int64_t was, Outcome outcome = Outcome::kOk) {
  return Counting(Type::kDeleteCounter, outcome, begin, end, 0, was);
}
Operation Of(Type type, Outcome outcome, int64_t begin, int64_t end, uint64_t write = 0, uint64_t found = 0) {
  return {type, outcome, 2, begin, end, write, found, 0, 0};
}
Operation Unknown(Operation operation) {
  operation.outcome = Outcome::kPending;
  operation.counter = 0;
  return operation;
}

bool Right(const KeyHistory& history) { return Check(history).verdict == Verdict::kLinearizable; }
bool Wrong(const KeyHistory& history) { return Check(history).verdict == Verdict::kViolation; }

TEST(CounterCheckTest, Sequences) {
  EXPECT_TRUE(
      Right({Read(1, 2, 0, Outcome::kNotFound), Create(3, 4, 5), Add(5, 6, 2, 5), Read(7, 8, 7), Swap(9, 10, 7, -1, 7),
             Add(11, 12, -3, -1), Delete(13, 14, -4), Add(15, 16, 1, 0, Outcome::kNotFound)}));
  EXPECT_TRUE(Wrong({Add(1, 2, 1, 0)})) << "there was no counter";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Read(3, 4, 0, Outcome::kNotFound)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Create(3, 4, 6)}));
  EXPECT_TRUE(Right({Create(1, 2, 5), Add(3, 4, 1, 5), Create(5, 6, 9, Outcome::kExists, 6)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Add(3, 4, 1, 5), Create(5, 6, 9, Outcome::kExists, 5)})) << "told an old number";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Add(3, 4, 1, 4)})) << "a number that never was";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Add(3, 4, 1, 5), Read(5, 6, 5)})) << "lost";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Add(3, 4, 1, 5), Read(5, 6, 7)})) << "done twice";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Delete(3, 4, 5), Add(5, 6, 1, 5)})) << "an add after the delete";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Delete(3, 4, 5), Create(5, 6, 8), Read(7, 8, 5)})) << "another counter's number";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Add(3, 4, 1, 5), Delete(5, 6, 5)})) << "an add that was told of, not counted";
}

TEST(CounterCheckTest, AddsThatCreate) {
  EXPECT_TRUE(Right({AddOrCreate(1, 2, 5, 2, 5), Read(3, 4, 7), AddOrCreate(5, 6, 9, 1, 7), Read(7, 8, 8)}));
  EXPECT_TRUE(Right({AddOrCreate(1, 2, 5, 2, 5), Delete(3, 4, 7), AddOrCreate(5, 6, 9, 1, 9), Read(7, 8, 10)}));
  EXPECT_TRUE(Right({Create(1, 2, 5), AddOrCreate(3, 4, 5, 2, 5), Read(5, 6, 7)}));
  EXPECT_TRUE(Wrong({AddOrCreate(1, 2, 5, 2, 0, Outcome::kNotFound)})) << "it finds or creates one";
  EXPECT_TRUE(Wrong({AddOrCreate(1, 2, 5, 2, 7)})) << "not what it was to create";
  EXPECT_TRUE(Wrong({AddOrCreate(1, 2, 5, 2, 5), Read(3, 4, 5)})) << "created, and not added to";
  EXPECT_TRUE(Wrong({AddOrCreate(1, 2, 5, 2, 5), Read(3, 4, 9)})) << "done twice";
  EXPECT_TRUE(Wrong({AddOrCreate(1, 2, 5, 2, 5), AddOrCreate(3, 4, 9, 1, 9)})) << "created over what was there";
  // Two creates at once: one succeeds.
  EXPECT_TRUE(Right({AddOrCreate(1, 9, 5, 2, 5), AddOrCreate(1, 9, 8, 1, 7), Read(10, 11, 8)}));
  EXPECT_TRUE(Wrong({AddOrCreate(1, 9, 5, 2, 5), AddOrCreate(1, 9, 8, 1, 8)}));
  // Expect: with an unknown outcome it may have created, have added, or have done nothing.
  const Operation unknown = Unknown(AddOrCreate(1, 2, 5, 2, 0));
  EXPECT_TRUE(Right({unknown, Read(3, 4, 7)}));
  EXPECT_TRUE(Right({unknown, Read(3, 4, 0, Outcome::kNotFound)}));
  EXPECT_TRUE(Right({Create(0, 0, 1), unknown, Read(3, 4, 3)}));
  EXPECT_TRUE(Wrong({unknown, Read(3, 4, 5)}));
  EXPECT_TRUE(Wrong({unknown, Read(3, 4, 9)}));
}

TEST(CounterCheckTest, Swaps) {
  EXPECT_TRUE(Right({Create(1, 2, 5), Swap(3, 4, 4, 9, 5), Read(5, 6, 5)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Swap(3, 4, 4, 9, 5), Read(5, 6, 9)})) << "set though it was another";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Swap(3, 4, 5, 9, 5), Read(5, 6, 5)})) << "not set though it was the one";
  // Two clients want the same: one gets it.
  EXPECT_TRUE(Right({Create(1, 2, 0), Swap(3, 9, 0, 1, 0), Swap(3, 9, 0, 2, 1)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 0), Swap(3, 9, 0, 1, 0), Swap(3, 9, 0, 2, 0)}));
}

TEST(CounterCheckTest, OverlappingOperationsTakeEffectInAnyOrder) {
  EXPECT_TRUE(Right({Create(1, 2, 0), Add(3, 9, 1, 2), Add(3, 9, 2, 0), Read(4, 5, 2)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 0), Add(3, 9, 1, 2), Add(3, 9, 2, 0), Read(4, 5, 1)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 0), Add(3, 9, 1, 0), Add(3, 9, 2, 0)})) << "both found the same";
  EXPECT_TRUE(Wrong({Create(1, 2, 0), Add(3, 9, 1, 0), Read(4, 5, 1), Read(6, 7, 0)})) << "unseen again";
  EXPECT_TRUE(Right({Create(1, 2, 0), Delete(3, 9, 1), Add(3, 9, 1, 0), Read(10, 11, 0, Outcome::kNotFound)}));
  EXPECT_TRUE(Right({Create(1, 2, 0), Delete(3, 9, 0), Create(3, 9, 7), Add(3, 9, 1, 7)}));
  // The item is dead, the cell is not yet: absent for one client, and then an add that succeeds.
  EXPECT_TRUE(Wrong({Create(1, 2, 0), Delete(3, 20, 1), Of(Type::kGet, Outcome::kNotFound, 4, 5), Add(6, 7, 1, 0)}));
}

TEST(CounterCheckTest, UnknownAddsHappenOnceOrNever) {
  const Operation add = Unknown(Add(3, 4, 2, 0));
  EXPECT_TRUE(Right({Create(1, 2, 5), add, Read(5, 6, 5)}));
  EXPECT_TRUE(Right({Create(1, 2, 5), add, Read(5, 6, 7)}));
  EXPECT_TRUE(Right({Create(1, 2, 5), add, Read(5, 6, 5), Read(7, 8, 7)})) << "late";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), add, Read(5, 6, 7), Read(7, 8, 5)})) << "undone";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), add, Read(5, 6, 9)})) << "done twice";
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Read(2, 3, 7), Unknown(Add(4, 5, 2, 0))})) << "before it was asked for";
  EXPECT_TRUE(Right({Create(1, 2, 0), add, Delete(5, 6, 0), Create(7, 8, 0), Read(9, 10, 2)}))
      << "a message may be late, and finds the next counter";
  EXPECT_TRUE(Right({Create(1, 2, 5), add, add, Add(5, 6, 1, 9), Read(7, 8, 10)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 5), add, add, Add(5, 6, 1, 10)}));
}

TEST(CounterCheckTest, OtherUnknownOutcomes) {
  EXPECT_TRUE(Right({Unknown(Create(1, 2, 5)), Read(3, 4, 5)}));
  EXPECT_TRUE(Right({Unknown(Create(1, 2, 5)), Read(3, 4, 0, Outcome::kNotFound), Read(5, 6, 5)}));
  EXPECT_TRUE(Wrong({Unknown(Create(1, 2, 5)), Read(3, 4, 5), Delete(5, 6, 5), Read(7, 8, 5)})) << "twice";
  EXPECT_TRUE(Right({Create(1, 2, 5), Unknown(Delete(3, 4, 0)), Read(5, 6, 0, Outcome::kNotFound)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Unknown(Delete(3, 4, 0)), Read(5, 6, 0, Outcome::kNotFound), Read(7, 8, 5)}));
  EXPECT_TRUE(Right({Create(1, 2, 5), Unknown(Swap(3, 4, 5, 9, 5)), Read(5, 6, 9)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 5), Unknown(Swap(3, 4, 6, 9, 6)), Read(5, 6, 9)})) << "its condition never held";
  EXPECT_TRUE(Right({Create(1, 2, 5), Unknown(Add(3, 4, 1, 0)), Unknown(Swap(3, 4, 6, 9, 6)), Read(5, 6, 9)}))
      << "an unknown add brought it to where the unknown swap wanted it";
}

TEST(CounterCheckTest, AKeyNamesAValueOrACounter) {
  EXPECT_TRUE(Right(
      {Of(Type::kPut, Outcome::kOk, 1, 2, 1), Read(3, 4, 0, Outcome::kWrongKind), Of(Type::kDelete, Outcome::kOk, 5, 6),
       Create(7, 8, 3), Of(Type::kPut, Outcome::kWrongKind, 9, 10, 2), Of(Type::kGet, Outcome::kWrongKind, 11, 12),
       Delete(13, 14, 3), Of(Type::kPut, Outcome::kOk, 15, 16, 3), Of(Type::kGet, Outcome::kOk, 17, 18, 0, 3)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 3), Of(Type::kPut, Outcome::kOk, 3, 4, 1)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 3), Of(Type::kDelete, Outcome::kOk, 3, 4)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 3), Of(Type::kGet, Outcome::kNotFound, 3, 4)}));
  EXPECT_TRUE(Wrong({Of(Type::kPut, Outcome::kOk, 1, 2, 1), Create(3, 4, 3)}));
  EXPECT_TRUE(Wrong({Of(Type::kPut, Outcome::kOk, 1, 2, 1), Add(3, 4, 1, 0)}));
  EXPECT_TRUE(Wrong({Of(Type::kPut, Outcome::kOk, 1, 2, 1), Of(Type::kGet, Outcome::kWrongKind, 3, 4)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 3), Read(3, 4, 0, Outcome::kWrongKind)}));
  const Operation wipe = Of(Type::kWipe, Outcome::kOk, 3, 8);
  EXPECT_TRUE(Right({Create(1, 2, 3), wipe, Add(4, 5, 1, 3), Read(9, 10, 0, Outcome::kNotFound)}));
  EXPECT_TRUE(Wrong({Create(1, 2, 3), wipe, Read(9, 10, 3)}));
}

TEST(CounterCheckTest, ManyUnknownAddsDoNotTakeForEver) {
  KeyHistory history = {Create(0, 1, 0)};
  for (int64_t i = 0; i < 30; ++i) history.push_back(Unknown(Add(1, 2, 1000 + 7 * i * i, 0)));
  history.push_back(Read(10, 11, 3 * 1000 + 7 * (4 + 9 + 625)));
  EXPECT_TRUE(Right(history));
  history.push_back(Read(12, 13, 0));
  EXPECT_FALSE(Right(history));
  // All are identical: only their number counts.
  history = {Create(0, 1, 0)};
  for (int64_t i = 0; i < 60; ++i) history.push_back(Unknown(Add(1, 2, 1, 0)));
  history.push_back(Read(10, 11, 40));
  EXPECT_TRUE(Right(history));
  history.push_back(Read(12, 13, 61));
  EXPECT_TRUE(Wrong(history));
}

TEST(SetsWithSumTest, FindsEachOnceAndSaysWhenThereMayBeMore) {
  bool all = true;
  EXPECT_EQ(SetsWithSum({{1, 5}, {2, 3}, {3, 2}}, 5, 8, &all).size(), 2u);
  EXPECT_EQ(SetsWithSum({{1, 5}, {2, -3}, {3, -2}}, -5, 8, &all), (std::vector<std::vector<uint32_t>>{{2, 3}}));
  EXPECT_EQ(SetsWithSum({{1, 4}, {2, 4}, {3, 4}}, 8, 8, &all), (std::vector<std::vector<uint32_t>>{{1, 2}}));
  EXPECT_TRUE(SetsWithSum({{1, 5}, {2, 3}}, 7, 8, &all).empty());
  EXPECT_TRUE(all);
  EXPECT_EQ(SetsWithSum({{1, 5}, {2, 3}, {3, 2}}, 5, 1, &all).size(), 1u);
  EXPECT_FALSE(all);
}

// A counter that several clients use at once.
KeyHistory Random(uint64_t seed, bool break_one) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  KeyHistory history;
  bool present = false;
  int64_t value = 0, now = 0;
  for (int i = 0; i < 300; ++i) {
    now += 1 + below(10);
    Operation o;
    // The operation takes effect now; begin and end lie around.
    o.begin_ns = now - below(40);
    o.end_ns = now + below(40);
    o.counter = value;
    o.outcome = present ? Outcome::kOk : Outcome::kNotFound;
    const int64_t dice = below(20);
    if (dice == 0) {
      o.type = Type::kDeleteCounter;
      present = false;
    } else if (dice < 4) {
      o.type = Type::kCreateCounter;
      o.operand = below(1000) << 20;
      o.outcome = present ? Outcome::kExists : Outcome::kOk;
      if (!present) value = o.operand;
      present = true;
    } else if (dice < 8) {
      o.type = Type::kReadCounter;
    } else if (dice < 11) {
      o.type = Type::kCompareSwap;
      o.operand = below(1000) << 20;
      o.expected_counter = below(3) == 0 ? value + 1 : value;
      if (present && o.expected_counter != value) o.outcome = Outcome::kMismatch;
      if (o.outcome == Outcome::kOk) value = o.operand;
    } else {
      o.type = Type::kFetchAdd;
      o.operand = 1 + below(1 << 15);
      if (present) value += o.operand;
    }
    if (o.type != Type::kReadCounter && below(10) == 0) o.outcome = Outcome::kPending;
    history.push_back(o);
  }
  if (break_one) {
    now += 100;
    history.push_back(Create(now, now + 1, 1, present ? Outcome::kExists : Outcome::kOk, value));
    now += 10;
    history.push_back(Read(now, now + 1, int64_t{5} << 50));
  }
  return history;
}

TEST(CounterCheckTest, WhatACounterSaidIsRight) {
  int undecided = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const CheckResult result = Check(Random(seed, false), 100'000);
    EXPECT_NE(result.verdict, Verdict::kViolation) << "seed " << seed << ": " << result.why;
    undecided += result.verdict == Verdict::kGaveUp ? 1 : 0;
  }
  EXPECT_LE(undecided, 4);
}

TEST(CounterCheckTest, AWrongAnswerIsFoundAndShrunk) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    // Proving that there is no order may take too long; but the history is never called right.
    ASSERT_NE(Check(Random(seed, true), 20'000).verdict, Verdict::kLinearizable) << "seed " << seed;
  }
  const KeyHistory shrunk = Shrink({Create(1, 2, 5), Read(3, 4, 5), Add(5, 6, 1, 5), Read(7, 8, 6), Read(9, 10, 5),
                                    Add(11, 12, 1, 6), Read(13, 14, 7)});
  EXPECT_EQ(shrunk.size(), 3u);  // creation and add, and the read of the value before
  EXPECT_TRUE(Wrong(shrunk));
}

}  // namespace
}  // namespace farlook::history
