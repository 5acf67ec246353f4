#include "server/replication/backup_watch.h"

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace farlook::server {
namespace {

using Look = BackupWatch::Look;

class BackupWatchTest : public ::testing::Test {
 protected:
  // Calls See() every 10 ms for `most`; `look` returns the state. Returns how long the backup was not given up.
  template <typename Function>
  absl::Duration Watch(absl::Duration most, Function look) {
    const absl::Time begin = now_;
    while (now_ - begin < most) {
      why_ = watch_.See(look(now_ - begin), now_);
      if (!why_.empty()) break;
      now_ += absl::Milliseconds(10);
    }
    return now_ - begin;
  }

  BackupWatch watch_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
  absl::string_view why_;
};

TEST_F(BackupWatchTest, OneThatKeepsUpStays) {
  uint64_t last = 10;
  Watch(absl::Seconds(20),
        [&](absl::Duration) { return Look{.is_connected = true, .accepted = last++, .last = last}; });
  EXPECT_EQ(why_, "");
  Watch(absl::Seconds(20), [&](absl::Duration) { return Look{.is_connected = true, .accepted = last, .last = last}; });
  EXPECT_EQ(why_, "") << "nothing is written";
}

TEST_F(BackupWatchTest, TellsForHowLongItIsBehind) {
  Watch(absl::Seconds(1), [](absl::Duration) { return Look{.is_connected = true, .accepted = 7, .last = 7}; });
  EXPECT_EQ(watch_.behind(), absl::ZeroDuration());
  // Expect: the time counts from the moment when it last had all records, although it accepts more and more.
  uint64_t accepted = 7;
  Watch(absl::Seconds(2), [&](absl::Duration since) {
    accepted += since % absl::Milliseconds(500) == absl::ZeroDuration() ? 1 : 0;
    return Look{.is_connected = true, .accepted = accepted, .last = 100};
  });
  EXPECT_EQ(watch_.behind(), absl::Milliseconds(1990));
  Watch(absl::Milliseconds(10),
        [](absl::Duration) { return Look{.is_connected = true, .accepted = 100, .last = 100}; });
  EXPECT_EQ(watch_.behind(), absl::ZeroDuration());
}

TEST_F(BackupWatchTest, OneThatIsGoneHasHalfASecondToComeBack) {
  EXPECT_EQ(Watch(absl::Seconds(20), [](absl::Duration) { return Look{}; }), BackupWatch::kGone);
  EXPECT_EQ(why_, "it is not connected");
  watch_ = {};
  Watch(absl::Milliseconds(400), [](absl::Duration) { return Look{}; });
  Watch(absl::Milliseconds(20), [](absl::Duration) { return Look{.is_connected = true}; });
  Watch(absl::Milliseconds(400), [](absl::Duration) { return Look{}; });
  EXPECT_EQ(why_, "");
}

// Clients wait for each member. So none is waited for that certainly does not come back.
TEST_F(BackupWatchTest, OneThatLeavesOrHasEndedIsGivenUpAtOnce) {
  EXPECT_EQ(Watch(absl::Seconds(20), [](absl::Duration) { return Look{.is_connected = true, .leaves = true}; }),
            absl::ZeroDuration());
  EXPECT_EQ(why_, BackupWatch::kLeaves);
  watch_ = {};
  EXPECT_EQ(Watch(absl::Seconds(20), [](absl::Duration) { return Look{.has_ended = true}; }), absl::ZeroDuration());
  EXPECT_EQ(why_, "its process has ended");
  // Expect: what was found out before it connected again does not count.
  watch_ = {};
  Watch(absl::Seconds(20), [](absl::Duration) { return Look{.is_connected = true, .has_ended = true}; });
  EXPECT_EQ(why_, "");
}

// It is connected, and a write may be under way or not.
TEST_F(BackupWatchTest, OneThatIsSilentIsGivenUpAfterTheSuspicion) {
  constexpr absl::Duration kPatience = absl::Milliseconds(300);
  uint64_t heard = 0;
  const auto speaks = [&](absl::Duration since) {
    heard += since % absl::Milliseconds(70) == absl::ZeroDuration() ? 1 : 0;
    return Look{.is_connected = true, .heard = heard, .patience = kPatience, .accepted = 7, .last = 7};
  };
  Watch(absl::Seconds(20), speaks);
  EXPECT_EQ(why_, "");
  const auto silent = [&](absl::Duration) {
    return Look{.is_connected = true, .heard = heard, .patience = kPatience, .accepted = 7, .last = 7};
  };
  ++heard;
  EXPECT_EQ(Watch(absl::Seconds(20), silent), kPatience);
  EXPECT_EQ(why_, "it is silent");
  // Expect: one that sends nothing at intervals, as a joiner, is not given up for that.
  watch_ = {};
  Watch(absl::Seconds(20), [](absl::Duration) { return Look{.is_connected = true, .accepted = 7, .last = 7}; });
  EXPECT_EQ(why_, "");
}

// Its directory is slow: it connects again and again, and is refused, as it follows an earlier epoch.
TEST_F(BackupWatchTest, OneThatIsOnlyBehindInEpochsIsNotGone) {
  uint64_t refused = 0;
  Watch(absl::Seconds(20), [&](absl::Duration) { return Look{.refused = ++refused, .accepted = 7, .last = 7}; });
  EXPECT_EQ(why_, "");
  // Expect: writes do not wait for it for longer than for another one that accepts nothing.
  const auto behind = [&](absl::Duration) { return Look{.refused = ++refused, .accepted = 7, .last = 8}; };
  EXPECT_LE(Watch(absl::Seconds(20), behind), BackupWatch::kStandstill);
  EXPECT_EQ(why_, "it accepts nothing");
}

// It is never disconnected for long, and accepts nothing.
TEST_F(BackupWatchTest, OneThatComesAndGoesIsGivenUp) {
  const auto flap = [](absl::Duration since) {
    return Look{.is_connected = since % absl::Milliseconds(600) < absl::Milliseconds(200), .accepted = 7, .last = 8};
  };
  EXPECT_LE(Watch(absl::Seconds(20), flap), BackupWatch::kStandstill);
  EXPECT_EQ(why_, "it accepts nothing");
}

TEST_F(BackupWatchTest, OneThatStandsStillIsGivenUp) {
  Watch(absl::Seconds(1), [](absl::Duration) { return Look{.is_connected = true, .accepted = 7, .last = 7}; });
  EXPECT_EQ(
      Watch(absl::Seconds(20), [](absl::Duration) { return Look{.is_connected = true, .accepted = 7, .last = 8}; }),
      BackupWatch::kStandstill - absl::Milliseconds(10));
  EXPECT_EQ(why_, "it accepts nothing");
  // Expect: a joiner that waits to be filled is not given up.
  watch_ = {};
  Watch(absl::Seconds(20), [](absl::Duration) { return Look{.is_connected = true, .waits = true, .last = 8}; });
  EXPECT_EQ(why_, "");
}

// It accepts one record a second; ten are appended.
TEST_F(BackupWatchTest, OneThatIsSlowIsGivenUpUnlessItIsFilled) {
  const auto slow = [](bool may_be_slow) {
    return [may_be_slow](absl::Duration since) {
      const auto seconds = static_cast<uint64_t>(absl::ToInt64Seconds(since));
      return Look{.is_connected = true, .accepted = seconds, .last = 100 + 10 * seconds, .may_be_slow = may_be_slow};
    };
  };
  EXPECT_LE(Watch(absl::Seconds(60), slow(false)), BackupWatch::kSlow + absl::Milliseconds(10));
  EXPECT_EQ(why_, "it is too slow");
  watch_ = {};
  Watch(absl::Seconds(60), slow(true));
  EXPECT_EQ(why_, "");
}

TEST_F(BackupWatchTest, APrimaryThatStoodStillBlamesNobody) {
  Watch(absl::Seconds(1), [](absl::Duration) { return Look{.is_connected = true, .accepted = 7, .last = 9}; });
  now_ += absl::Seconds(60);
  EXPECT_EQ(watch_.See({.is_connected = true, .accepted = 7, .last = 9}, now_), "");
  now_ += absl::Seconds(60);
  EXPECT_EQ(watch_.See({.is_connected = false, .accepted = 7, .last = 9}, now_), "");
  // Expect: nor if its patience is no longer than what counts of a pause.
  watch_ = {};
  const Look silent = {.is_connected = true, .patience = BackupWatch::kMostOfALook, .accepted = 7, .last = 7};
  EXPECT_EQ(watch_.See(silent, now_), "");
  EXPECT_EQ(watch_.See(silent, now_ + absl::Seconds(60)), "");
}

}  // namespace
}  // namespace farlook::server
