// The data that a reader accepts, in virtual time; tests/sim has random schedules.
#include "kv/read/read_lease.h"

#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"
#include "kv/layout/epoch_word.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kEpoch = 5;
constexpr int64_t kLease = 1'000'000;
constexpr int64_t kBelieved = 990'000;
constexpr EpochWord kOpen = EpochWord::Open(kEpoch);

class ReadLeaseTest : public testing::Test {
 protected:
  uint64_t Round(int64_t p) {
    const uint64_t round = lease_.BeginRound(p);
    for (size_t member = 0; member < 3; ++member) lease_.WordRead(round, member, kOpen);
    return round;
  }

  ReadLease lease_{kEpoch, 3, kLease};
};

TEST_F(ReadLeaseTest, BelievesNothingBeforeAllWordsWereSeen) {
  EXPECT_FALSE(lease_.Believes(0));
  const uint64_t round = lease_.BeginRound(100);
  lease_.WordRead(round, 0, kOpen);
  lease_.WordRead(round, 0, kOpen);  // the same member again does not count as another one
  lease_.WordRead(round, 1, kOpen);
  EXPECT_FALSE(lease_.Believes(100));
  EXPECT_FALSE(lease_.BelievesStrictly(0));
  lease_.WordRead(round, 2, kOpen);
  EXPECT_TRUE(lease_.Believes(100));
  EXPECT_TRUE(lease_.BelievesStrictly(0));
}

// The lease counts from before the READs were posted, however long they took; the hundredth for the clocks is not used.
TEST_F(ReadLeaseTest, EndsOneHundredthEarlyFromBeforeThePosts) {
  Round(7'000);
  EXPECT_TRUE(lease_.Believes(7'000 + kBelieved));
  EXPECT_FALSE(lease_.Believes(7'000 + kBelieved + 1));
}

// A reader that was stopped between its READ and its look at the clock treats the answer as late.
TEST_F(ReadLeaseTest, OneThatWasStoppedBelievesOnlyAfterAnotherRound) {
  Round(0);
  const int64_t late = 60'000'000'000;
  EXPECT_FALSE(lease_.Believes(late));
  const uint64_t round = lease_.BeginRound(late + 1);
  EXPECT_FALSE(lease_.Believes(late));
  for (size_t member = 0; member < 2; ++member) lease_.WordRead(round, member, kOpen);
  EXPECT_FALSE(lease_.Believes(late));
  lease_.WordRead(round, 2, kOpen);
  EXPECT_TRUE(lease_.Believes(late)) << "all were OPEN after it";
}

// Stopped within a round: between p and the posts, or among its completions. The words that it then reads were OPEN
// long after p, which does not extend the lease.
TEST_F(ReadLeaseTest, OneThatWasStoppedWithinARoundHasNoLongerLease) {
  const uint64_t round = lease_.BeginRound(0);
  lease_.WordRead(round, 1, kOpen);
  const int64_t resumed = 10 * kLease;
  lease_.WordRead(round, 0, kOpen);
  lease_.WordRead(round, 2, kOpen);
  EXPECT_FALSE(lease_.Believes(resumed));
}

TEST_F(ReadLeaseTest, WordsOfAnEarlierRoundProveNothingOfTheLater) {
  const uint64_t first = lease_.BeginRound(0);
  lease_.WordRead(first, 0, kOpen);
  lease_.WordRead(first, 1, kOpen);
  const uint64_t second = lease_.BeginRound(2 * kLease);
  lease_.WordRead(first, 2, kOpen);
  EXPECT_FALSE(lease_.Believes(0)) << "the first was given up";
  lease_.WordRead(second, 0, kOpen);
  lease_.WordRead(second, 1, kOpen);
  EXPECT_FALSE(lease_.Believes(2 * kLease)) << "of this member only the first round's word was seen";
  const uint64_t third = lease_.BeginRound(4 * kLease);
  lease_.WordRead(third, 2, kOpen);
  EXPECT_FALSE(lease_.Believes(4 * kLease)) << "of the others only the second round's words were seen";
  lease_.WordRead(third, 0, kOpen);
  lease_.WordRead(third, 1, kOpen);
  EXPECT_TRUE(lease_.Believes(4 * kLease));
}

TEST_F(ReadLeaseTest, ARoundUnderWayLeavesTheLastOnesLease) {
  Round(0);
  lease_.BeginRound(kLease / 3);
  EXPECT_TRUE(lease_.Believes(kBelieved));
  EXPECT_FALSE(lease_.Believes(kBelieved + 1));
}

TEST_F(ReadLeaseTest, StrictNeedsARoundThatBeganAfterTheOperation) {
  Round(0);
  const uint64_t noted = lease_.begun();
  EXPECT_FALSE(lease_.BelievesStrictly(noted)) << "although the lease is not over";
  Round(1);
  EXPECT_TRUE(lease_.BelievesStrictly(noted));
}

TEST_F(ReadLeaseTest, StrictDoesNotTakeARoundThatWasUnderWay) {
  const uint64_t round = lease_.BeginRound(0);
  const uint64_t noted = lease_.begun();
  for (size_t member = 0; member < 3; ++member) lease_.WordRead(round, member, kOpen);
  EXPECT_FALSE(lease_.BelievesStrictly(noted));
}

// A word of any member, in any round, also one that was replaced.
TEST_F(ReadLeaseTest, AnyOtherWordEndsItForGood) {
  for (const EpochWord other : {EpochWord(), EpochWord::Shut(kEpoch), EpochWord::Open(kEpoch - 1),
                                EpochWord::Open(kEpoch + 1), EpochWord::Shut(kEpoch + 1)}) {
    for (size_t member = 0; member < 3; ++member) {
      lease_ = ReadLease(kEpoch, 3, kLease);
      const uint64_t first = Round(0);
      Round(1);
      ASSERT_TRUE(lease_.Believes(1));
      lease_.WordRead(first, member, other);
      EXPECT_TRUE(lease_.over());
      EXPECT_FALSE(lease_.Believes(1));
      Round(2);
      EXPECT_FALSE(lease_.Believes(2));
      EXPECT_FALSE(lease_.BelievesStrictly(0));
    }
  }
}

TEST_F(ReadLeaseTest, OneMemberAlone) {
  ReadLease lease(1, 1, kLease);
  lease.WordRead(lease.BeginRound(0), 0, EpochWord::Open(1));
  EXPECT_TRUE(lease.Believes(kBelieved));
}

}  // namespace
}  // namespace farlook::kv
