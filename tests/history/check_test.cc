// The checker against histories made by hand, right and wrong, and against random ones that a real register produced.
#include "tests/history/check.h"

#include <algorithm>
#include <random>
#include <utility>

#include "gtest/gtest.h"
#include "kv/layout/sanitized.h"
#include "tests/history/history.h"

namespace farlook::history {
namespace {

// Builders: begin, end, then request and answer.
Operation Put(int64_t begin, int64_t end, uint64_t write, uint64_t version = 0) {
  return {Type::kPut, Outcome::kOk, 1, begin, end, write, 0, 0, version};
}
Operation Get(int64_t begin, int64_t end, uint64_t found, uint64_t version = 0) {
  return {Type::kGet, Outcome::kOk, 2, begin, end, 0, found, 0, version};
}
Operation Miss(int64_t begin, int64_t end) { return {Type::kGet, Outcome::kNotFound, 3, begin, end, 0, 0, 0, 0}; }
Operation Delete(int64_t begin, int64_t end, Outcome outcome = Outcome::kOk) {
  return {Type::kDelete, outcome, 4, begin, end, 0, 0, 0, 0};
}
Operation Insert(int64_t begin, int64_t end, uint64_t write, Outcome outcome = Outcome::kOk, uint64_t version = 0) {
  return {Type::kInsert, outcome, 5, begin, end, write, 0, 0, version};
}
Operation Replace(int64_t begin, int64_t end, uint64_t write, Outcome outcome = Outcome::kOk) {
  return {Type::kReplace, outcome, 6, begin, end, write, 0, 0, 0};
}
Operation Cas(int64_t begin, int64_t end, uint64_t write, uint64_t expected, Outcome outcome = Outcome::kOk,
              uint64_t version = 0) {
  return {Type::kCompareAndSet, outcome, 7, begin, end, write, 0, expected, version};
}
Operation Unknown(Operation operation) {
  operation.outcome = Outcome::kPending;
  operation.version = 0;
  return operation;
}

bool Right(const KeyHistory& history) { return Check(history).verdict == Verdict::kLinearizable; }
bool Wrong(const KeyHistory& history) { return Check(history).verdict == Verdict::kViolation; }

TEST(CheckTest, Sequences) {
  EXPECT_TRUE(Right({}));
  EXPECT_TRUE(
      Right({Miss(1, 2), Put(3, 4, 1), Get(5, 6, 1), Put(7, 8, 2), Get(9, 10, 2), Delete(11, 12), Miss(13, 14)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1), Miss(3, 4)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1), Put(3, 4, 2), Get(5, 6, 1)})) << "an old value";
  EXPECT_TRUE(Wrong({Get(1, 2, 1), Put(3, 4, 1)})) << "from the future";
  EXPECT_TRUE(Wrong({Put(1, 2, 1), Delete(3, 4), Get(5, 6, 1)}));
  EXPECT_TRUE(Wrong({Get(1, 2, 9)})) << "nobody wrote that";
  EXPECT_TRUE(Wrong({Delete(1, 2)})) << "there was nothing to delete";
  EXPECT_TRUE(Wrong({Put(1, 2, 1), Delete(3, 4, Outcome::kNotFound)}));
}

TEST(CheckTest, OverlappingOperationsTakeEffectInAnyOrder) {
  EXPECT_TRUE(Right({Put(1, 10, 1), Get(2, 3, 1), Get(4, 5, 1)}));
  EXPECT_TRUE(Right({Put(1, 10, 1), Miss(2, 3), Get(4, 5, 1)}));
  EXPECT_TRUE(Right({Put(1, 10, 1), Put(1, 10, 2), Get(2, 3, 2), Get(4, 5, 1)}));
  EXPECT_TRUE(Right({Put(1, 10, 1), Put(1, 10, 2), Get(11, 12, 1)}));
  // Once seen, never unseen.
  EXPECT_TRUE(Wrong({Put(1, 10, 1), Get(2, 3, 1), Miss(4, 5)}));
  EXPECT_TRUE(Wrong({Put(1, 10, 1), Put(1, 10, 2), Get(2, 3, 2), Get(4, 5, 1), Get(6, 7, 2)}));
  EXPECT_TRUE(Wrong({Put(1, 10, 1), Put(1, 10, 2), Get(11, 12, 1), Get(13, 14, 2)}));
  // The new value for one reader and then the old one for another: the result of a wrong order of stores.
  EXPECT_TRUE(Wrong({Put(1, 2, 1), Put(3, 20, 2), Get(4, 5, 2), Get(6, 7, 1)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1), Put(3, 20, 2), Miss(4, 5)})) << "a gap within a replacement";
}

TEST(CheckTest, Conditions) {
  EXPECT_TRUE(Right({Insert(1, 2, 1, Outcome::kOk, 7), Insert(3, 4, 2, Outcome::kExists, 7)}));
  EXPECT_TRUE(Wrong({Insert(1, 2, 1), Insert(3, 4, 2)}));
  EXPECT_TRUE(Wrong({Insert(1, 2, 1, Outcome::kExists)}));
  EXPECT_TRUE(Wrong({Insert(1, 2, 1, Outcome::kOk, 7), Insert(3, 4, 2, Outcome::kExists, 8)})) << "exists, but another";
  EXPECT_TRUE(Right({Replace(1, 2, 1, Outcome::kNotFound), Put(3, 4, 2), Replace(5, 6, 3), Get(7, 8, 3)}));
  EXPECT_TRUE(Wrong({Replace(1, 2, 1)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1), Replace(3, 4, 2, Outcome::kNotFound)}));
}

TEST(CheckTest, Versions) {
  EXPECT_TRUE(Right({Put(1, 2, 1, 7), Cas(3, 4, 2, 7, Outcome::kOk, 8), Get(5, 6, 2, 8)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), Put(3, 4, 2, 8), Cas(5, 6, 3, 7)})) << "succeeded with an old version";
  EXPECT_TRUE(Right({Put(1, 2, 1, 7), Put(3, 4, 2, 8), Cas(5, 6, 3, 7, Outcome::kMismatch, 8)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), Cas(5, 6, 3, 7, Outcome::kMismatch, 7)})) << "failed with the right version";
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), Put(3, 4, 2, 8), Cas(5, 6, 3, 6, Outcome::kMismatch, 7)})) << "told an old one";
  EXPECT_TRUE(Right({Cas(1, 2, 1, 7, Outcome::kNotFound)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), Get(3, 4, 1, 8)})) << "one write, two versions";
  EXPECT_TRUE(Wrong({Unknown(Put(1, 2, 1)), Get(3, 4, 1, 7), Get(5, 6, 1, 8)}));
  // Two clients increment: one of them must fail.
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), Cas(3, 9, 2, 7, Outcome::kOk, 8), Cas(4, 9, 3, 7, Outcome::kOk, 9)}));
  EXPECT_TRUE(Right({Put(1, 2, 1, 7), Cas(3, 9, 2, 7, Outcome::kOk, 8), Cas(4, 9, 3, 7, Outcome::kMismatch, 8)}));
}

TEST(CheckTest, UnknownOutcomesHappenOnceOrNever) {
  const Operation put = Unknown(Put(3, 4, 2));
  EXPECT_TRUE(Right({Put(1, 2, 1), put, Get(5, 6, 1)}));
  EXPECT_TRUE(Right({Put(1, 2, 1), put, Get(5, 6, 2)}));
  EXPECT_TRUE(Right({Put(1, 2, 1), put, Get(5, 6, 1), Get(7, 8, 2)})) << "late";
  EXPECT_TRUE(Wrong({Put(1, 2, 1), put, Get(5, 6, 2), Get(7, 8, 1)})) << "undone";
  EXPECT_TRUE(Wrong({Put(1, 2, 1), put, Get(5, 6, 2), Put(7, 8, 3), Get(9, 10, 3), Get(11, 12, 2)})) << "done twice";
  EXPECT_TRUE(Right({Put(1, 2, 1), Unknown(Delete(3, 4)), Miss(5, 6)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1), Unknown(Delete(3, 4)), Miss(5, 6), Get(7, 8, 1)}));
  EXPECT_TRUE(Right({Unknown(Put(1, 2, 1)), Delete(3, 4)})) << "explained by what nobody saw";
  EXPECT_TRUE(Right({Put(1, 2, 1, 7), Unknown(Cas(3, 4, 2, 7)), Get(5, 6, 2)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), Unknown(Cas(3, 4, 2, 6)), Get(5, 6, 2)})) << "its condition never held";
}

// The same client ran them in this order, one after the other had ended.
KeyHistory OneAfterTheOther(KeyHistory history) {
  uint64_t place = 0;
  for (Operation& operation : history) {
    operation.client = 1;
    operation.began = ++place;
    operation.ended = ++place;
  }
  return history;
}

TEST(CheckTest, ConsecutiveOperationsOfOneClientAreNotConcurrent) {
  // Their times are adjacent, equal, or known as overlapping spans.
  for (const KeyHistory& history : {KeyHistory{Put(1, 2, 1), Miss(2, 3)},
                                    {Put(5, 5, 1), Miss(5, 5)},
                                    {Put(1, 20, 1), Miss(3, 25)},
                                    {Put(1, 2, 1), Put(2, 3, 2), Get(3, 4, 1)},
                                    {Put(1, 9, 1), Delete(2, 9), Get(3, 9, 1)},
                                    {Put(1, 9, 1), Replace(1, 9, 2, Outcome::kNotFound)}}) {
    EXPECT_TRUE(Right(history)) << "of several clients";
    EXPECT_TRUE(Wrong(OneAfterTheOther(history)));
    KeyHistory reversed = OneAfterTheOther(history);
    std::reverse(reversed.begin(), reversed.end());
    EXPECT_TRUE(Wrong(reversed)) << "however it was written down";
  }
  EXPECT_TRUE(Right(OneAfterTheOther({Put(1, 20, 1), Get(3, 25, 1), Delete(3, 25), Miss(3, 25)})));
  // A client's own operations narrow the time of another client's operation.
  KeyHistory history = OneAfterTheOther({Put(10, 30, 1), Get(1, 40, 1), Put(2, 50, 2), Get(3, 60, 2)});
  history.push_back(Miss(7, 9));
  EXPECT_TRUE(Right(history));
  history.back() = Miss(31, 32);
  EXPECT_TRUE(Wrong(history));
  // Simultaneous operations of one client are concurrent.
  history = OneAfterTheOther({Put(1, 9, 1), Miss(1, 9)});
  std::swap(history[0].ended, history[1].began);
  EXPECT_TRUE(Right(history));
  // An operation of unknown outcome may still happen after the client's next operations.
  history = OneAfterTheOther({Put(1, 2, 1), Unknown(Put(3, 4, 2)), Get(5, 6, 1), Get(7, 8, 2)});
  EXPECT_TRUE(Right(history));
  history = OneAfterTheOther({Put(1, 2, 1), Unknown(Delete(2, 2)), Get(2, 2, 1), Miss(2, 2)});
  EXPECT_TRUE(Right(history));
  std::swap(history[2], history[3]);
  std::swap(history[2].began, history[3].began);
  std::swap(history[2].ended, history[3].ended);
  EXPECT_TRUE(Wrong(history));
}

TEST(CheckTest, AVersionIsOfOneWriteThoughItsOutcomeIsUnknown) {
  const auto exists = [](int64_t at, uint64_t version) { return Insert(at, at, 99, Outcome::kExists, version); };
  const auto mismatch = [](int64_t at, uint64_t version) { return Cas(at, at, 98, 5, Outcome::kMismatch, version); };
  const auto present = [](int64_t at, uint64_t version) { return Get(at, at, 0, version); };
  const Operation put = Unknown(Put(3, 4, 2)), other = Unknown(Put(3, 4, 3));
  EXPECT_TRUE(Right({Put(1, 2, 1, 7), put, exists(5, 7), exists(6, 9)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), exists(5, 9)})) << "that version nobody wrote";
  for (const auto& met : {exists(6, 9), mismatch(6, 9), present(6, 9)}) {
    EXPECT_TRUE(Right({Put(1, 2, 1, 7), put, met}));
    EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), put, met, Get(7, 8, 1, 7)})) << "it was there, and is undone";
    EXPECT_TRUE(Right({Put(1, 2, 1, 7), put, met, exists(7, 9), mismatch(8, 9), present(9, 9), Get(10, 11, 2, 9)}));
    EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), put, met, exists(7, 10)})) << "one write, two versions";
    EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), put, met, Get(10, 11, 2, 10)}));
    EXPECT_TRUE(Right({Put(1, 2, 1, 7), put, other, met, exists(7, 10)}));
    EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), put, other, met, exists(7, 10), exists(8, 9)})) << "it came again";
    EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), put, other, met, Put(7, 8, 4, 11), exists(9, 9)})) << "one version, two writes";
    // A condition binds too.
    EXPECT_TRUE(Right({Put(1, 2, 1, 7), put, met, Cas(7, 8, 4, 9, Outcome::kOk, 10), Get(9, 10, 4, 10)}));
    EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), put, met, Cas(7, 8, 4, 10, Outcome::kOk, 11)}));
    EXPECT_TRUE(Right({Put(1, 2, 1, 7), put, met, Unknown(Cas(7, 8, 4, 9)), Get(9, 10, 4, 10)}));
    EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), put, met, Unknown(Cas(7, 8, 4, 10)), Get(9, 10, 4, 11)}));
  }
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), put, Cas(5, 6, 4, 9, Outcome::kOk, 10), exists(7, 9)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), put, Cas(5, 6, 4, 9, Outcome::kMismatch, 9)})) << "that is the one it wanted";
  // It is unknown which operation returns the version first: the first one tried is wrong.
  EXPECT_TRUE(Right({Put(1, 2, 1, 7), put, other, Insert(5, 9, 97, Outcome::kExists, 9),
                     Insert(5, 9, 96, Outcome::kExists, 10), Get(10, 11, 2, 9)}));
  EXPECT_TRUE(Right({Put(1, 2, 1, 7), put, other, Insert(5, 9, 97, Outcome::kExists, 9),
                     Insert(5, 9, 96, Outcome::kExists, 10), Get(10, 11, 2, 10)}));
}

TEST(CheckTest, WritesOfOneSessionTakeEffectInTheirOrder) {
  const auto in_session = [](KeyHistory history) {
    uint64_t place = 0;
    for (Operation& operation : history) {
      operation.client = 1;
      operation.began = ++place;  // all under way together
      operation.session = operation.type == Type::kGet ? 0 : 3;
    }
    return history;
  };
  for (const KeyHistory& history : {KeyHistory{Put(1, 9, 1), Put(1, 9, 2), Get(10, 11, 1)},
                                    {Put(0, 0, 9), Put(1, 9, 1), Delete(1, 9), Get(10, 11, 1)},
                                    {Put(1, 9, 1), Insert(1, 9, 2), Get(10, 11, 1)},
                                    {Put(1, 9, 1), Replace(1, 9, 2, Outcome::kNotFound), Get(10, 11, 1)},
                                    // A put that had ended for its client overwrites a later one.
                                    {Unknown(Put(1, 2, 1)), Put(3, 4, 2), Get(5, 6, 2), Get(7, 8, 1)},
                                    {Unknown(Put(1, 2, 1)), Unknown(Put(1, 2, 2)), Get(5, 6, 2), Get(7, 8, 1)}}) {
    EXPECT_TRUE(Right(history));
    EXPECT_TRUE(Wrong(in_session(history)));
  }
  for (const KeyHistory& history :
       {KeyHistory{Put(1, 9, 1), Put(1, 9, 2), Get(10, 11, 2)},
        {Unknown(Put(1, 2, 1)), Put(3, 4, 2), Get(5, 6, 2)},
        {Unknown(Put(1, 2, 1)), Unknown(Put(1, 2, 2)), Unknown(Put(1, 2, 3)), Get(5, 6, 1), Get(7, 8, 3)}}) {
    EXPECT_TRUE(Right(in_session(history)));
  }
  KeyHistory history = in_session({Unknown(Put(1, 2, 1)), Put(3, 4, 2), Get(5, 6, 2), Get(7, 8, 1)});
  history[1].session = 4;
  EXPECT_TRUE(Right(history)) << "of another session";
}

TEST(CheckTest, WhatIsOverAtItsTimeDoesNotHappenLater) {
  const auto until = [](Operation operation, int64_t ns) {
    operation.until_ns = ns;
    return operation;
  };
  const Operation put = Unknown(Put(3, 4, 2));
  EXPECT_TRUE(Right({Put(1, 2, 1), put, Get(10, 11, 1), Get(12, 13, 2)}));
  EXPECT_TRUE(Right({Put(1, 2, 1), until(put, 10), Get(10, 11, 1), Get(12, 13, 2)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1), until(put, 9), Get(10, 11, 1), Get(12, 13, 2)}));
  EXPECT_TRUE(Right({Put(1, 2, 1), until(put, 9), Get(10, 11, 2), Get(12, 13, 2)}));
  EXPECT_TRUE(Right({Put(1, 2, 1), until(put, 9), Get(10, 11, 1), Get(12, 13, 1)}));
  // Not found because it was deleted, not because it had not been put: a read decides when the put happened.
  EXPECT_TRUE(Right({until(put, 9), Miss(10, 20), Delete(11, 20), Miss(21, 22)}));
  EXPECT_TRUE(Wrong({until(put, 9), Miss(10, 11), Delete(12, 20), Miss(21, 22)}));
  EXPECT_TRUE(Right({Put(1, 2, 1), until(put, 9), until(Unknown(Put(3, 4, 3)), 15), Get(10, 11, 2), Get(14, 18, 3)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1), until(put, 9), until(Unknown(Put(3, 4, 3)), 15), Get(14, 18, 3), Get(20, 21, 2)}));
}

TEST(CheckTest, ATableThatBeginsAnewIsEmpty) {
  const Operation wipe = {Type::kWipe, Outcome::kOk, 0, 3, 8, 0, 0, 0, 0};
  EXPECT_TRUE(Right({Put(1, 2, 1), wipe, Miss(9, 10)}));
  EXPECT_TRUE(Right({Put(1, 2, 1), wipe, Get(4, 5, 1), Miss(6, 7)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1), wipe, Get(9, 10, 1)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1), wipe, Miss(4, 5), Get(6, 7, 1)}));
}

// A value that ends between 11 and 20, at one moment.
TEST(CheckTest, WhatExpiresIsThereUntilAMomentAndNotAfter) {
  const auto expire = [](int64_t begin, int64_t end, uint64_t write) {
    return Operation{Type::kExpire, Outcome::kOk, 0, begin, end, 0, write, 0, 0};
  };
  const Operation put = Put(1, 2, 1), end = expire(11, 20, 1);
  EXPECT_TRUE(Right({put, end, Get(3, 4, 1), Get(10, 12, 1), Miss(13, 14), Miss(21, 22)}));
  EXPECT_TRUE(Right({put, end, Get(18, 19, 1), Miss(21, 22)}));
  EXPECT_TRUE(Wrong({put, end, Miss(9, 10)})) << "surely not expired";
  EXPECT_TRUE(Wrong({put, end, Get(21, 22, 1)})) << "surely expired";
  EXPECT_TRUE(Wrong({put, end, Miss(12, 13), Get(15, 16, 1)})) << "back from the dead";
  EXPECT_TRUE(Wrong({put, end, Get(15, 16, 1), Replace(21, 22, 2)}));
  EXPECT_TRUE(Right({put, end, Insert(12, 13, 2), Get(25, 26, 2)})) << "another value has its own end";
  EXPECT_TRUE(Right({put, Put(3, 4, 2), end, Get(12, 13, 2), Get(25, 26, 2)}));
  EXPECT_TRUE(Wrong({put, Put(3, 4, 2), end, Miss(12, 13)}));
  // Expect: the end of a put of unknown outcome may have no effect.
  EXPECT_TRUE(Right({put, Unknown(Put(3, 4, 2)), Unknown(expire(11, 20, 2)), Miss(12, 13), Get(15, 16, 2),
                     Miss(17, 18)}) == false);
  EXPECT_TRUE(Right({put, Unknown(Put(3, 4, 2)), Unknown(expire(11, 20, 2)), Get(12, 13, 2), Miss(15, 16)}));
}

TEST(CheckTest, AVersionOfTheTableBeforeFitsNothing) {
  const Operation wipe = {Type::kWipe, Outcome::kOk, 0, 3, 8, 0, 0, 0, 0};
  // A balance of 100, a server that dies and returns, a balance of 7: a client that remembers the first must not change
  // it.
  EXPECT_TRUE(Right({Put(1, 2, 1, 7), wipe, Put(9, 10, 2, 19), Cas(11, 12, 3, 7, Outcome::kMismatch, 19)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), wipe, Put(9, 10, 2, 19), Cas(11, 12, 3, 7, Outcome::kOk, 20)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), wipe, Put(9, 10, 2, 7), Cas(11, 12, 3, 7, Outcome::kOk, 8)})) << "counted anew";
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), wipe, Put(9, 10, 2, 7)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), wipe, Put(9, 10, 2), Cas(11, 12, 3, 7, Outcome::kOk, 8)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), wipe, Unknown(Put(9, 10, 2)), Cas(11, 12, 3, 7, Outcome::kOk, 8)}));
  EXPECT_TRUE(Wrong({Put(1, 2, 1, 7), wipe, Unknown(Put(9, 10, 2)), Unknown(Cas(11, 12, 3, 7)), Get(13, 14, 3, 8)}));
  EXPECT_TRUE(Wrong({Unknown(Put(1, 2, 1)), Get(2, 3, 0, 7), wipe, Put(9, 10, 2), Cas(11, 12, 3, 7)}));
  EXPECT_TRUE(Right({Unknown(Put(1, 2, 1)), wipe, Get(9, 10, 0, 7), Cas(11, 12, 3, 7)})) << "it came after all";
}

TEST(CheckTest, ManyUnknownOutcomesDoNotTakeForEver) {
  KeyHistory history;
  for (uint64_t i = 1; i <= 60; ++i) history.push_back(Unknown(Put(1, 2, i)));
  history.push_back(Get(10, 11, 30));
  EXPECT_TRUE(Right(history));
  history.push_back(Put(12, 13, 100));
  history.push_back(Get(14, 15, 30));
  EXPECT_TRUE(Wrong(history));
}

// A register that several clients use at once. `break_one`: one answer belongs to another write than it should.
KeyHistory Random(uint64_t seed, bool break_one) {
  std::mt19937_64 random(seed);
  KeyHistory history;
  uint64_t writes = 0, versions = 0;
  uint64_t value = 0, version = 0;  // now; 0: absent
  int64_t now = 0;
  const int count = 300;
  for (int i = 0; i < count; ++i) {
    now += 1 + static_cast<int64_t>(random() % 10);
    Operation o;
    o.client = i % 7;
    // The operation takes effect now; begin and end lie around.
    o.begin_ns = now - static_cast<int64_t>(random() % 40);
    o.end_ns = now + static_cast<int64_t>(random() % 40);
    const auto put = [&] {
      value = o.write;
      version = o.version = ++versions;
      o.outcome = Outcome::kOk;
    };
    switch (random() % 6) {
      case 0:
        o = {Type::kPut, Outcome::kOk, o.client, o.begin_ns, o.end_ns, ++writes, 0, 0, 0};
        put();
        break;
      case 1:
        o.type = Type::kDelete;
        o.outcome = value != 0 ? Outcome::kOk : Outcome::kNotFound;
        value = version = 0;
        break;
      case 2:
        o.type = Type::kCompareAndSet;
        o.write = ++writes;
        o.expected = random() % 2 == 0 && version != 0 ? version : 1 + random() % (versions + 1);
        if (value == 0) {
          o.outcome = Outcome::kNotFound;
        } else if (o.expected == version) {
          put();
        } else {
          o.outcome = Outcome::kMismatch;
          o.version = version;
        }
        break;
      default:
        o.outcome = value != 0 ? Outcome::kOk : Outcome::kNotFound;
        o.found = value;
        o.version = version;
    }
    if (o.type != Type::kGet && random() % 10 == 0) {
      o.outcome = Outcome::kPending;
      o.version = 0;
      if (random() % 2 == 0) o.until_ns = now + static_cast<int64_t>(random() % 40);
    }
    o.began = static_cast<uint64_t>(i) + 1;
    if (o.type != Type::kGet && o.client < 4) o.session = 1;
    history.push_back(o);
  }
  if (break_one) {
    // A client reads a value that was overwritten long before.
    now += 100;
    history.push_back({Type::kPut, Outcome::kOk, 9, now, now + 1, 1'000'000, 0, 0, 1'000'000});
    history.push_back({Type::kPut, Outcome::kOk, 9, now + 2, now + 3, 1'000'001, 0, 0, 1'000'001});
    history.push_back({Type::kGet, Outcome::kOk, 9, now + 4, now + 5, 0, 1'000'000, 0, 1'000'000});
  }
  return history;
}

TEST(CheckTest, WhatARegisterSaidIsRight) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const CheckResult result = Check(Random(seed, false));
    EXPECT_EQ(result.verdict, Verdict::kLinearizable) << "seed " << seed << ": " << result.why;
  }
}

TEST(CheckTest, AWrongAnswerIsFoundAndShrunk) {
  for (uint64_t seed = 0; seed < (kv::kSanitized ? 10 : 50); ++seed) {
    const KeyHistory history = Random(seed, true);
    // Proving that there is no order may take too long; but the history is never called right.
    ASSERT_NE(Check(history, 100'000).verdict, Verdict::kLinearizable) << "seed " << seed;
  }
  KeyHistory history = {Put(1, 2, 1), Get(3, 4, 1),  Miss(0, 1),    Put(5, 6, 2),
                        Get(7, 8, 2), Get(9, 10, 1), Put(11, 12, 3)};
  const KeyHistory shrunk = Shrink(history);
  EXPECT_EQ(shrunk.size(), 3u);  // both puts, and the get of the old value
  EXPECT_TRUE(Wrong(shrunk));
}

}  // namespace
}  // namespace farlook::history
