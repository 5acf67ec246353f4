#include "server/replication/group_stream.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kv/wire/handshake.h"

namespace farlook::server {
namespace {

constexpr uint64_t kEpoch = 1, kPrimary = 3, kBackup = 77;

// Opens a new connection that follows from the first record.
absl::StatusOr<FeedId> Follow(GroupStream* stream) {
  stream->Expect({kBackup});
  return stream->Admit({.incarnation = kBackup, .epoch = kEpoch, .accepted = 0});
}

TEST(GroupStreamTest, BeforeItsMembersAreSaidNothingIsCommitted) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 1 << 20);
  EXPECT_EQ(stream.Append({.key = "k"}), 1u);
  EXPECT_EQ(stream.committed(), 0u);
  const auto feed = Follow(&stream);
  ASSERT_TRUE(feed.ok()) << feed.status();
  ASSERT_TRUE(stream.Accepted(*feed, {1}).ok());
  EXPECT_EQ(stream.committed(), 0u) << "there may be another member";
  stream.SetMembers({kBackup});
  EXPECT_EQ(stream.committed(), 1u);
}

// A lone primary fills its first backup: all records are committed at once, and only the backup's acceptances make
// room.
TEST(GroupStreamTest, RoomThatAJoinerMakesIsToldThoughNothingIsCommittedByIt) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 400);
  const CommitNotifier& notifier = *stream.notifier();
  stream.SetMembers({});
  const auto feed = Follow(&stream);
  ASSERT_TRUE(feed.ok()) << feed.status();
  const std::string value(100, 'v');
  uint64_t last = 0;
  while (const uint64_t sequence = stream.Append({.key = "k", .value = value})) last = sequence;
  ASSERT_GT(last, 0u);
  EXPECT_EQ(stream.committed(), last);
  const uint64_t turn = notifier.turn();
  ASSERT_TRUE(stream.Accepted(*feed, {1}).ok());
  EXPECT_EQ(notifier.turn(), turn + 1);
  ASSERT_TRUE(stream.Accepted(*feed, {2}).ok());
  EXPECT_EQ(notifier.turn(), turn + 1) << "no worker waits";
  // Expect: forgetting a backup also makes room.
  while (stream.Append({.key = "k", .value = value}) != 0) continue;
  stream.Expect({});
  EXPECT_EQ(notifier.turn(), turn + 2);
  EXPECT_NE(stream.Append({.key = "k", .value = value}), 0u);
}

// The copying thread waits for room instead of polling.
TEST(GroupStreamTest, RoomThatIsAwaitedIsToldOnce) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 1 << 20);
  int notified = 0;
  stream.OnNews([&notified] { ++notified; });
  stream.SetMembers({});
  const auto feed = Follow(&stream);
  ASSERT_TRUE(feed.ok()) << feed.status();
  EXPECT_EQ(notified, 1) << "it has connected";
  notified = 0;
  const std::string value(100, 'v');
  for (int i = 0; i < 10; ++i) stream.Append({.key = "k", .value = value});
  const size_t full = stream.kept_bytes();
  EXPECT_FALSE(stream.AwaitRoom(full)) << "there is";
  EXPECT_TRUE(stream.AwaitRoom(full / 2));
  ASSERT_TRUE(stream.Accepted(*feed, {4}).ok());
  EXPECT_EQ(notified, 0);
  ASSERT_TRUE(stream.Accepted(*feed, {5}).ok());
  EXPECT_EQ(notified, 1);
  ASSERT_TRUE(stream.Accepted(*feed, {6}).ok());
  EXPECT_EQ(notified, 1);
}

// The primary removes it at once. Until the record has changed, its acceptance is required as before.
TEST(GroupStreamTest, OneThatLeavesIsToldOnceAndStillCounts) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 1 << 20);
  int notified = 0;
  stream.SetMembers({kBackup});
  const auto feed = Follow(&stream);
  ASSERT_TRUE(feed.ok()) << feed.status();
  stream.OnNews([&notified] { ++notified; });
  const uint64_t heard = stream.followers().at(kBackup).heard;
  ASSERT_TRUE(stream.Accepted(*feed, {.silence_ms = 75}).ok());
  EXPECT_EQ(notified, 0);
  EXPECT_EQ(stream.followers().at(kBackup).heard, heard + 1);
  EXPECT_EQ(stream.followers().at(kBackup).silence_ms, 75u);
  EXPECT_FALSE(stream.followers().at(kBackup).leaves);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(stream.Accepted(*feed, {.leaves = true, .silence_ms = 75}).ok());
  EXPECT_EQ(notified, 1);
  EXPECT_TRUE(stream.followers().at(kBackup).leaves);
  ASSERT_TRUE(stream.Accepted(*feed, {.leaves = true}).ok());
  EXPECT_EQ(stream.followers().at(kBackup).silence_ms, 75u) << "what it said before";
  EXPECT_EQ(stream.Append({.key = "k"}), 1u);
  EXPECT_EQ(stream.committed(), 0u) << "it is still a member";
  ASSERT_TRUE(stream.Accepted(*feed, {.accepted = 1, .leaves = true}).ok());
  EXPECT_EQ(stream.committed(), 1u);
  // Expect: the end of its connection is told, too, and another connection begins anew.
  stream.Gone(*feed);
  EXPECT_EQ(notified, 2);
  ASSERT_TRUE(stream.Admit({.incarnation = kBackup, .epoch = kEpoch, .accepted = 1}).ok());
  EXPECT_EQ(notified, 3);
  EXPECT_FALSE(stream.followers().at(kBackup).leaves);
}

// A joiner whose connection breaks joins again, and begins again. A member whose acceptances count cannot.
TEST(GroupStreamTest, AMemberCannotJoinAgain) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 1 << 20);
  stream.SetMembers({});
  const kv::Follow joins = {.incarnation = kBackup, .epoch = kEpoch, .accepted = 0, .address = "shm:///b"};
  const auto first = stream.Admit(joins);
  ASSERT_TRUE(first.ok()) << first.status();
  // Expect: it receives nothing before its turn.
  EXPECT_EQ(stream.Append({.key = "k"}), 1u);
  EXPECT_FALSE(stream.StartOf(*first)->has_value());
  EXPECT_FALSE(stream.NextBatch(*first, 1000, 0, true)->has_value());
  EXPECT_EQ(*stream.Begin(kBackup), 1u);
  EXPECT_EQ((*stream.StartOf(*first))->after, 1u);
  EXPECT_FALSE(stream.Begin(kBackup).ok());
  const auto again = stream.Admit(joins);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(stream.followers().at(kBackup).waits) << "who fills it sees that it begins again";
  EXPECT_TRUE(absl::IsAborted(stream.StartOf(*first).status()));
  EXPECT_EQ(*stream.Begin(kBackup), 1u);
  stream.SetMembers({kBackup});
  EXPECT_EQ(stream.Append({.key = "k"}), 2u);
  EXPECT_TRUE(absl::IsFailedPrecondition(stream.Admit(joins).status()));
  EXPECT_EQ(stream.committed(), 1u) << "it has not accepted the second one";
  kv::Follow goes_on = joins;
  goes_on.address.clear();
  goes_on.accepted = 1;
  EXPECT_TRUE(stream.Admit(goes_on).ok());
}

// Records that were kept only for it are dropped; those of others stay.
TEST(GroupStreamTest, OneThatIsForgottenPinsNothing) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 400);
  stream.SetMembers({});
  const auto other = stream.Admit({.incarnation = kBackup + 1, .epoch = kEpoch, .address = "shm:///c"});
  const auto feed = stream.Admit({.incarnation = kBackup, .epoch = kEpoch, .address = "shm:///b"});
  ASSERT_TRUE(other.ok() && feed.ok());
  ASSERT_TRUE(stream.Begin(kBackup).ok() && stream.Begin(kBackup + 1).ok());
  uint64_t last = 0;
  while (const uint64_t sequence = stream.Append({.key = "k", .value = "value"})) last = sequence;
  ASSERT_TRUE(stream.Accepted(*other, {last}).ok());
  EXPECT_EQ(stream.Append({.key = "k"}), 0u);
  stream.Gone(*feed);
  EXPECT_EQ(stream.Append({.key = "k"}), 0u) << "it may come again";
  stream.Forget(kBackup);
  EXPECT_NE(stream.Append({.key = "k"}), 0u);
  EXPECT_EQ(stream.followers().size(), 1u);
  EXPECT_TRUE(stream.NextBatch(*other, 1000, 0, true).ok());
}

// A backup that is forgotten while it connects is not admitted afterwards.
TEST(GroupStreamTest, WhoIsForgottenStaysSo) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 1 << 20);
  stream.SetMembers({kBackup});
  std::atomic<bool> over{false};
  std::thread comes([&] {
    while (!over.load()) (void)stream.Admit({.incarnation = kBackup, .epoch = kEpoch, .accepted = 0});
  });
  for (int i = 0; i < 2000; ++i) {
    stream.Expect({kBackup});
    stream.Expect({});
    ASSERT_TRUE(stream.followers().empty());
    ASSERT_NE(stream.Append({.key = "k", .value = std::string(1000, 'v')}), 0u) << "it is kept for nobody";
    stream.SetMembers({});
  }
  over = true;
  comes.join();
}

}  // namespace
}  // namespace farlook::server
