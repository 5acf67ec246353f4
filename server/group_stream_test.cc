#include "server/group_stream.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kv/handshake.h"

namespace farlook::server {
namespace {

constexpr uint64_t kEpoch = 1, kPrimary = 3, kBackup = 77;

// Over a connection of its own, from the first record on.
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
  ASSERT_TRUE(stream.Accepted(*feed, 1).ok());
  EXPECT_EQ(stream.committed(), 0u) << "there may be another member";
  stream.SetMembers({kBackup});
  EXPECT_EQ(stream.committed(), 1u);
}

// A lone primary fills its first backup: all is committed at once, and who waits for room waits for the backup.
TEST(GroupStreamTest, RoomThatAJoinerMakesIsToldThoughNothingIsCommittedByIt) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 400);
  int advanced = 0;
  stream.OnAdvanced([&advanced] { ++advanced; });
  stream.SetMembers({});
  const auto feed = Follow(&stream);
  ASSERT_TRUE(feed.ok()) << feed.status();
  const std::string value(100, 'v');
  uint64_t last = 0;
  while (const uint64_t sequence = stream.Append({.key = "k", .value = value})) last = sequence;
  ASSERT_GT(last, 0u);
  EXPECT_EQ(stream.committed(), last);
  advanced = 0;
  ASSERT_TRUE(stream.Accepted(*feed, 1).ok());
  EXPECT_EQ(advanced, 1);
  ASSERT_TRUE(stream.Accepted(*feed, 2).ok());
  EXPECT_EQ(advanced, 1) << "nobody waits";
  // Expect: so does one that is forgotten.
  while (stream.Append({.key = "k", .value = value}) != 0) continue;
  stream.Expect({});
  EXPECT_EQ(advanced, 2);
  EXPECT_NE(stream.Append({.key = "k", .value = value}), 0u);
}

// Who copies waits for it, and not for the time to pass.
TEST(GroupStreamTest, RoomThatIsAwaitedIsToldOnce) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 1 << 20);
  int told = 0;
  stream.OnRoom([&told] { ++told; });
  stream.SetMembers({});
  const auto feed = Follow(&stream);
  ASSERT_TRUE(feed.ok()) << feed.status();
  const std::string value(100, 'v');
  for (int i = 0; i < 10; ++i) stream.Append({.key = "k", .value = value});
  const size_t full = stream.kept_bytes();
  EXPECT_FALSE(stream.AwaitRoom(full)) << "there is";
  EXPECT_TRUE(stream.AwaitRoom(full / 2));
  ASSERT_TRUE(stream.Accepted(*feed, 4).ok());
  EXPECT_EQ(told, 0);
  ASSERT_TRUE(stream.Accepted(*feed, 5).ok());
  EXPECT_EQ(told, 1);
  ASSERT_TRUE(stream.Accepted(*feed, 6).ok());
  EXPECT_EQ(told, 1);
}

// One that joins and whose connection breaks joins again, and begins again; but not where its acceptances count.
TEST(GroupStreamTest, AMemberCannotJoinAgain) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 1 << 20);
  stream.SetMembers({});
  const kv::Follow joins = {.incarnation = kBackup, .epoch = kEpoch, .accepted = 0, .address = "shm:///b"};
  const auto first = stream.Admit(joins);
  ASSERT_TRUE(first.ok()) << first.status();
  // Expect: until its turn comes it hears nothing.
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

// What was kept for it makes room; others stay.
TEST(GroupStreamTest, OneThatIsForgottenPinsNothing) {
  GroupStream stream(kEpoch, kPrimary, 1, {}, 400);
  stream.SetMembers({});
  const auto other = stream.Admit({.incarnation = kBackup + 1, .epoch = kEpoch, .address = "shm:///c"});
  const auto feed = stream.Admit({.incarnation = kBackup, .epoch = kEpoch, .address = "shm:///b"});
  ASSERT_TRUE(other.ok() && feed.ok());
  ASSERT_TRUE(stream.Begin(kBackup).ok() && stream.Begin(kBackup + 1).ok());
  uint64_t last = 0;
  while (const uint64_t sequence = stream.Append({.key = "k", .value = "value"})) last = sequence;
  ASSERT_TRUE(stream.Accepted(*other, last).ok());
  EXPECT_EQ(stream.Append({.key = "k"}), 0u);
  stream.Gone(*feed);
  EXPECT_EQ(stream.Append({.key = "k"}), 0u) << "it may come again";
  stream.Forget(kBackup);
  EXPECT_NE(stream.Append({.key = "k"}), 0u);
  EXPECT_EQ(stream.followers().size(), 1u);
  EXPECT_TRUE(stream.NextBatch(*other, 1000, 0, true).ok());
}

// Who is forgotten while it connects is not let in afterwards.
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
