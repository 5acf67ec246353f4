#include "server/backup_watch.h"

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace farlook::server {
namespace {

using Look = BackupWatch::Look;

class BackupWatchTest : public ::testing::Test {
 protected:
  // Looks each 10 ms for so long, while `look` says what is seen. For how long it was well.
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

TEST_F(BackupWatchTest, OneThatIsGoneHasHalfASecondToComeBack) {
  EXPECT_EQ(Watch(absl::Seconds(20), [](absl::Duration) { return Look{}; }), BackupWatch::kGone);
  EXPECT_EQ(why_, "it is not connected");
  watch_ = {};
  Watch(absl::Milliseconds(400), [](absl::Duration) { return Look{}; });
  Watch(absl::Milliseconds(20), [](absl::Duration) { return Look{.is_connected = true}; });
  Watch(absl::Milliseconds(400), [](absl::Duration) { return Look{}; });
  EXPECT_EQ(why_, "");
}

// It is never gone for long, and accepts nothing.
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
  // Expect: not one that waits for its turn to be filled.
  watch_ = {};
  Watch(absl::Seconds(20), [](absl::Duration) { return Look{.is_connected = true, .waits = true, .last = 8}; });
  EXPECT_EQ(why_, "");
}

// It accepts a record a second, and there are ten.
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
}

}  // namespace
}  // namespace farlook::server
