// A backup that follows a primary's worker; the test carries the messages of their connection.
#include "server/replication/follower.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/replication/backup.h"
#include "server/replication/group_stream.h"
#include "server/replication/replication_feed.h"
#include "server/session/users.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;

constexpr uint64_t kEpoch = 3, kPrimary = kTestIncarnation, kMe = 77;
constexpr size_t kRegionBytes = 32 << 20;

class FollowerTest : public ::testing::Test {
 protected:
  FollowerTest() {
    stream_.SetMembers({kMe});
    stream_.Expect({kMe});
  }

  // A connection of the backup, and the messages in transit.
  struct Wire {
    rdma::FakePeer near;  // the backup's side
    TestWorker* to = nullptr;
    FakeCall* far = nullptr;
    std::deque<std::string> up, down;
    FakeEndpoint endpoint;
    std::unique_ptr<Follower> follower;
  };

  std::unique_ptr<Wire> Dial(uint64_t me = kMe, uint64_t epoch = kEpoch) {
    return Dial(&t_, {.replica = me, .primary = kTestIncarnation, .epoch = epoch});
  }
  std::unique_ptr<Wire> Dial(TestWorker* to, Follower::Identity me) {
    auto wire = std::make_unique<Wire>();
    Wire* const w = wire.get();
    w->to = to;
    w->endpoint.on_connect = [w](FakeEndpoint* endpoint, absl::string_view) {
      w->near.endpoint = endpoint;
      kv::Hello reader;
      reader.flags = kv::Hello::kReadOnly;
      w->far = w->to->CallSilently(reader);
      return std::make_unique<rdma::FakeConnection>(&w->near, rdma::Capabilities());
    };
    w->follower = std::make_unique<Follower>(&w->endpoint, &backup_, std::move(me));
    EXPECT_TRUE(w->follower->Dial("fake", 1000).ok());
    w->near.on_send = [w](const std::string& message) { w->up.push_back(message); };
    w->far->peer.on_send = [w](const std::string& message) { w->down.push_back(message); };
    to->PollAll();
    w->near.welcome = w->far->welcome;
    w->near.Connected();
    return wire;
  }

  // Puts the primary's worker to sleep.
  void Sleep() {
    t_.PollAll();
    while (!t_.worker().Arm()) t_.PollAll();
    t_.wakes = 0;
  }
  // Like CarryInNoTime(), and also delivers commits.
  void Carry(Wire& wire) {
    CarryInNoTime(wire);
    wire.to->clock.now_ns += ReplicationFeed::kCommitNoticeNs;
    CarryInNoTime(wire);
  }
  // Carries messages both ways until none is left.
  void CarryInNoTime(Wire& wire) {
    for (bool moved = true; moved;) {
      moved = false;
      wire.to->PollAll();
      while (wire.follower->Poll() > 0) moved = true;
      for (std::string& message : std::exchange(wire.up, {})) {
        wire.far->peer.Send(message);
        moved = true;
      }
      wire.to->PollAll();
      for (std::string& message : std::exchange(wire.down, {})) {
        wire.near.Send(message);
        moved = true;
      }
    }
  }

  GroupStream stream_{kEpoch, kPrimary, 1, {}, 1 << 20};
  TestWorker t_{kRegionBytes, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &stream_, /*figures_ms=*/0, &stream_};
  TestWorker b_{kRegionBytes};
  Backup backup_{&b_.table(), &b_.locks(), &b_.clock, ServerTime(), kEpoch, kPrimary};
};

TEST_F(FollowerTest, WhatThePrimaryWritesTheBackupHas) {
  FakeCall* call = t_.Connect();
  auto wire = Dial();
  Carry(*wire);
  EXPECT_TRUE(wire->follower->follows());
  EXPECT_FALSE(t_.Ask(call, MakePut(1, "key", "value")).has_value()) << "the backup has not got it";
  Carry(*wire);
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(b_.ReadKey("key"), "value");
  // Expect: a batch longer than a message arrives in several.
  const std::string value(100'000, 'x');
  EXPECT_FALSE(t_.PutPulled(call, 2, "long", value).has_value());
  for (uint64_t i = 3; i < 10; ++i) t_.Ask(call, MakePut(i, absl::StrCat("key", i), std::string(2000, 'v')));
  Carry(*wire);
  EXPECT_EQ(b_.ReadKey("long"), value);
  EXPECT_EQ(b_.ReadKey("key9"), std::string(2000, 'v'));
  EXPECT_EQ(stream_.committed(), stream_.last());
  EXPECT_EQ(backup_.applied(), stream_.last());
}

// The backup need not wake up for each commit alone.
TEST_F(FollowerTest, WhatIsCommittedIsToldWithTheNextRecordOrSoon) {
  FakeCall* call = t_.Connect();
  auto wire = Dial();
  Carry(*wire);
  EXPECT_FALSE(t_.Ask(call, MakePut(1, "key", "value")).has_value());
  CarryInNoTime(*wire);
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_FALSE(b_.ReadKey("key").has_value());
  EXPECT_FALSE(t_.Ask(call, MakePut(2, "other", "value")).has_value());
  CarryInNoTime(*wire);
  EXPECT_EQ(b_.ReadKey("key"), "value");
  EXPECT_FALSE(b_.ReadKey("other").has_value());
  // Expect: the worker sleeps no longer than until the commit must be sent.
  const int64_t committed_ns = t_.clock.now_ns;
  Sleep();
  EXPECT_EQ(t_.worker().due_ns(), committed_ns + ReplicationFeed::kCommitNoticeNs);
  t_.clock.now_ns = committed_ns + ReplicationFeed::kCommitNoticeNs;
  CarryInNoTime(*wire);
  EXPECT_EQ(b_.ReadKey("other"), "value");
  // Expect: nothing more is sent.
  Sleep();
  t_.clock.now_ns += 10 * ReplicationFeed::kCommitNoticeNs;
  t_.PollAll();
  EXPECT_TRUE(wire->down.empty());
  EXPECT_GT(t_.worker().due_ns(), t_.clock.now_ns);
}

// There may be a million records a second, so no worker is woken for further ones.
TEST_F(FollowerTest, AWorkerThatSleepsIsWokenOnceForWhatItHasToDo) {
  FakeCall* call = t_.Connect();
  // None of this concerns this worker.
  Sleep();
  stream_.Append({.kind = cluster::Record::Kind::kOutcome});
  stream_.SetMembers({});
  EXPECT_EQ(t_.wakes, 0);
  // A client waits for an answer.
  stream_.SetMembers({kMe});
  EXPECT_FALSE(t_.Ask(call, MakePut(1, "key", "value")).has_value());
  Sleep();
  stream_.Append({.kind = cluster::Record::Kind::kOutcome});
  EXPECT_EQ(t_.wakes, 0) << "nothing is committed by that";
  stream_.SetMembers({});
  t_.gate().notifier()->NotifyTurn();
  EXPECT_EQ(t_.wakes, 1);
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  // A write for which no request waits is ended by any worker.
  stream_.SetMembers({kMe});
  const uint64_t hash = t_.table().HashOf("other");
  const CommitGate::Begun begun = t_.gate().Begin(MakePut(1, "other", "value"), hash, {7, 1}, true, nullptr);
  t_.gate().Leave(hash, begun);
  Sleep();
  stream_.SetMembers({});
  EXPECT_EQ(t_.wakes, 1);
  t_.PollAll();
  EXPECT_EQ(t_.ReadKey("other"), "value");
}

TEST_F(FollowerTest, AWorkerThatSleepsIsWokenForItsBackup) {
  stream_.SetMembers({kMe, kMe + 1});
  stream_.Expect({kMe, kMe + 1});
  auto wire = Dial();
  Carry(*wire);
  Sleep();
  stream_.Append({.kind = cluster::Record::Kind::kOutcome});
  stream_.Append({.kind = cluster::Record::Kind::kOutcome});
  EXPECT_EQ(t_.wakes, 1);
  Carry(*wire);
  EXPECT_EQ(backup_.accepted(), 2u);
  EXPECT_EQ(backup_.applied(), 0u);
  Sleep();
  stream_.SetMembers({kMe});
  EXPECT_EQ(t_.wakes, 1) << "it is to hear what is committed";
  Carry(*wire);
  EXPECT_EQ(backup_.applied(), 2u);
}

// Otherwise its client would wait forever.
TEST_F(FollowerTest, AWorkerDoesNotSleepBeforeItHasSeenAll) {
  auto wire = Dial();
  Carry(*wire);
  FakeCall* call = t_.Connect();
  EXPECT_FALSE(t_.Ask(call, MakePut(1, "key", "value")).has_value());
  t_.PollAll();
  stream_.SetMembers({});
  EXPECT_FALSE(t_.worker().Arm()) << "it is committed";
  t_.PollAll();
  EXPECT_TRUE(t_.worker().Arm());
  stream_.Append({.kind = cluster::Record::Kind::kOutcome});
  EXPECT_FALSE(t_.worker().Arm()) << "there is something to send";
  t_.PollAll();
  EXPECT_TRUE(t_.worker().Arm());
}

TEST_F(FollowerTest, ABrokenConnectionIsGoneOnWith) {
  FakeCall* call = t_.Connect();
  auto wire = Dial();
  Carry(*wire);
  for (uint64_t i = 1; i < 10; ++i) {
    t_.Ask(call, MakePut(i, "key", absl::StrCat(i)));
    if (i % 3 == 0) {
      // Messages in transit are lost, or damaged.
      if (i == 6) {
        wire->down.front()[20] ^= 1;
        wire->near.Send(wire->down.front());
        wire->follower->Poll();
        EXPECT_TRUE(absl::IsInvalidArgument(wire->follower->status())) << wire->follower->status();
      }
      wire->far->peer.Break();
      wire->near.Break();
      wire->follower->Poll();
      EXPECT_TRUE(wire->follower->over());
      EXPECT_FALSE(wire->follower->status().ok());
      t_.PollAll();
      wire = Dial();
    }
    Carry(*wire);
    EXPECT_EQ(b_.ReadKey("key"), absl::StrCat(i));
    EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  }
  EXPECT_EQ(t_.table().stats().puts, b_.table().stats().puts);
}

TEST_F(FollowerTest, WhoTakesSlotsHearsHowManyItemsTheyHave) {
  constexpr uint64_t kTaker = 99;
  FakeCall* const taker = t_.Connect(/*read_only=*/true);
  std::string answer;
  taker->peer.on_send = [&answer](const std::string& message) { answer = message; };
  const kv::Follow takes = {
      .incarnation = kTaker, .epoch = kEpoch, .address = "shm:///taker", .move = 5, .taker = "kv.1"};
  taker->peer.Send(takes.Encode());
  t_.PollAll();
  EXPECT_EQ(answer, "") << "its turn has not come";
  ASSERT_TRUE(stream_.Begin(kTaker, 1234).ok());
  t_.PollAll();
  const auto follow = kv::Follow::Decode(answer);
  ASSERT_TRUE(follow.ok()) << follow.status();
  EXPECT_EQ(follow->items, 1234u);
  EXPECT_EQ(follow->move, 5u);
}

TEST_F(FollowerTest, StrangersAndOtherEpochsAreRefused) {
  auto stranger = Dial(kMe + 1);
  Carry(*stranger);
  EXPECT_TRUE(absl::IsPermissionDenied(stranger->follower->status())) << stranger->follower->status();
  auto old = Dial(kMe, kEpoch - 1);
  Carry(*old);
  EXPECT_TRUE(absl::IsFailedPrecondition(old->follower->status())) << old->follower->status();
  // Expect: a server without a group takes it for a client that did not send a Hello.
  TestWorker alone(kRegionBytes);
  FakeCall* call = alone.CallSilently();
  alone.PollAll();
  call->peer.Send(kv::Follow{.incarnation = kMe, .epoch = kEpoch}.Encode());
  alone.PollAll();
  EXPECT_TRUE(call->peer.disconnecting);
}

// A backup that is only behind in epochs learns the present one from the primary, however slow its directory is.
TEST_F(FollowerTest, OneOfAnEarlierEpochIsRefusedWithTheRecord) {
  stream_.SetRecord(12, "the record");
  auto old = Dial(kMe, kEpoch - 1);
  Carry(*old);
  EXPECT_TRUE(absl::IsFailedPrecondition(old->follower->status())) << old->follower->status();
  EXPECT_EQ(old->follower->refused_with().revision, 12u);
  EXPECT_EQ(old->follower->refused_with().record, "the record");
  // Expect: the primary knows that this backup is there.
  EXPECT_EQ(stream_.followers()[kMe].refused, 1u);
  EXPECT_EQ(stream_.followers()[kMe].connection, 0u);
  // Expect: a stranger is shown nothing, and a record that does not fit is left out.
  auto stranger = Dial(kMe + 1);
  Carry(*stranger);
  EXPECT_EQ(stranger->follower->refused_with().revision, 0u);
  stream_.SetRecord(13, std::string(kv::Refusal::kMaxRecordBytes + 1, 'x'));
  auto again = Dial(kMe, kEpoch - 1);
  Carry(*again);
  EXPECT_TRUE(absl::IsFailedPrecondition(again->follower->status())) << again->follower->status();
  EXPECT_EQ(again->follower->refused_with().revision, 0u);
}

// Another process at the primary's address may be the former primary, restarted. Its refusal does not mean that the
// group has given this backup up.
TEST_F(FollowerTest, AnotherProcessIsNotListenedTo) {
  auto other = Dial(&t_, {.replica = kMe, .primary = kTestIncarnation + 1, .epoch = kEpoch});
  Carry(*other);
  EXPECT_TRUE(absl::IsUnavailable(other->follower->status())) << other->follower->status();
  EXPECT_FALSE(other->follower->TakeReceived());
  FakeEndpoint endpoint;
  rdma::FakePeer peer;
  peer.endpoint = &endpoint;
  peer.connected = false;
  endpoint.on_connect = [&](FakeEndpoint*, absl::string_view) {
    return std::make_unique<rdma::FakeConnection>(&peer, rdma::Capabilities());
  };
  Follower turned_away(&endpoint, &backup_, {.replica = kMe, .primary = kTestIncarnation, .epoch = kEpoch});
  ASSERT_TRUE(turned_away.Dial("fake", 1000).ok());
  peer.status = absl::PermissionDeniedError("not a primary");
  peer.Break();
  while (!turned_away.over()) turned_away.Poll();
  EXPECT_TRUE(absl::IsUnavailable(turned_away.status())) << turned_away.status();
  EXPECT_FALSE(turned_away.TakeReceived());
}

// It also answers in the middle of batches, each time.
TEST_F(FollowerTest, APrimaryThatIsAskedAnswers) {
  FakeCall* call = t_.Connect();
  auto wire = Dial();
  Carry(*wire);
  EXPECT_TRUE(wire->follower->TakeReceived());
  EXPECT_FALSE(wire->follower->TakeReceived());
  for (int i = 0; i < 3; ++i) {
    Carry(*wire);
    EXPECT_FALSE(wire->follower->TakeReceived()) << "no message is due";
    wire->follower->Ping(absl::Milliseconds(75));
    Carry(*wire);
    EXPECT_TRUE(wire->follower->TakeReceived());
  }
  EXPECT_FALSE(t_.Ask(call, MakePut(1, "other", "value")).has_value());
  wire->follower->Ping(absl::Milliseconds(75));
  Carry(*wire);
  EXPECT_TRUE(wire->follower->status().ok()) << wire->follower->status();
  EXPECT_EQ(b_.ReadKey("other"), "value");
}

// The incarnation is no secret: the record of the group contains it.
TEST_F(FollowerTest, WhereThereAreUsersOnlyAnOperatorFollowsAndProvesIt) {
  constexpr char kSecret[] = "the group's own secret, of 32 or more characters";
  User group, app;
  group.name = "group";
  app.name = "app";
  group.secret = app.secret = kSecret;
  group.may_write = app.may_write = group.admin = true;
  User local = group;
  local.name = "local";
  local.secret.clear();
  local.uids = {1000};
  Users users(std::make_shared<const UserList>(std::vector<User>{group, app, local}));
  TestWorker t(kRegionBytes, 16, 100, 3, &users, kTestWindow, /*evict=*/false, &stream_, /*figures_ms=*/0, &stream_);
  const auto status_of = [&](const std::string& user, const std::string& secret) {
    auto wire =
        Dial(&t, {.replica = kMe, .primary = kTestIncarnation, .epoch = kEpoch, .user = user, .secret = secret});
    Carry(*wire);
    EXPECT_EQ(wire->follower->follows(), wire->follower->status().ok());
    const absl::Status status = wire->follower->status();
    wire->far->peer.Break();
    t.PollAll();
    return status;
  };
  EXPECT_TRUE(status_of("group", kSecret).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(status_of("", "")));
  EXPECT_TRUE(absl::IsUnauthenticated(status_of("group", "another secret, of 32 characters or more")));
  EXPECT_TRUE(absl::IsPermissionDenied(status_of("app", kSecret))) << "it lacks the role admin";
  // Expect: a Follow without a Hello is refused.
  FakeCall* call = t.CallSilently();
  t.PollAll();
  call->peer.Send(kv::Follow{.incarnation = kMe, .epoch = kEpoch}.Encode());
  t.PollAll();
  EXPECT_TRUE(call->peer.disconnecting);
}

TEST_F(FollowerTest, APrimaryThatDoesNotKnowTheSecretIsNotFollowed) {
  constexpr char kSecret[] = "the group's own secret, of 32 or more characters";
  User group;
  group.name = "group";
  group.secret = kSecret;
  group.admin = true;
  Users users(std::make_shared<const UserList>(std::vector<User>{group}));
  TestWorker t(kRegionBytes, 16, 100, 3, &users, kTestWindow, /*evict=*/false, &stream_, /*figures_ms=*/0, &stream_);
  auto wire =
      Dial(&t, {.replica = kMe, .primary = kTestIncarnation, .epoch = kEpoch, .user = "group", .secret = kSecret});
  for (int i = 0; i < 100 && wire->down.size() < 2; ++i) {
    wire->follower->Poll();
    for (std::string& message : std::exchange(wire->up, {})) wire->far->peer.Send(message);
    t.PollAll();
    if (wire->down.empty()) continue;
    std::string message = wire->down.front();
    wire->down.pop_front();
    if (kv::IsFirstMessage(message, kv::FirstMessage::kWelcome)) {
      auto welcome = kv::Welcome::Decode(message);
      ASSERT_TRUE(welcome.ok());
      welcome->proof[0] ^= 1;
      message = welcome->Encode();
    }
    wire->near.Send(message);
  }
  EXPECT_TRUE(absl::IsUnauthenticated(wire->follower->status())) << wire->follower->status();
  EXPECT_FALSE(wire->follower->follows());
}

TEST_F(FollowerTest, ALaterConnectionEndsTheFormer) {
  FakeCall* call = t_.Connect();
  auto former = Dial();
  Carry(*former);
  ASSERT_TRUE(former->follower->follows());
  auto later = Dial();
  Carry(*later);
  EXPECT_TRUE(later->follower->follows());
  t_.PollAll();
  EXPECT_TRUE(former->far->peer.disconnecting);
  EXPECT_FALSE(later->far->peer.disconnecting);
  t_.Ask(call, MakePut(1, "key", "value"));
  Carry(*later);
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  stream_.Expect({});
  t_.PollAll();
  EXPECT_TRUE(later->far->peer.disconnecting) << "it may not follow any more";
}

TEST_F(FollowerTest, WhoAcceptsWhatWasNotSentIsDropped) {
  FakeCall* call = t_.Connect();
  for (const std::string& nonsense : {std::string(8, '\1'), std::string(7, '\0'), std::string(9, '\0')}) {
    auto wire = Dial();
    Carry(*wire);
    ASSERT_TRUE(wire->follower->follows());
    wire->far->peer.Send(nonsense);
    t_.PollAll();
    EXPECT_TRUE(wire->far->peer.disconnecting);
  }
  EXPECT_FALSE(t_.Ask(call, MakePut(1, "key", "value")).has_value());
  auto wire = Dial();
  Carry(*wire);
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
}

TEST_F(FollowerTest, ASlowBackupMakesNothingPileUp) {
  FakeCall* call = t_.Connect();
  auto wire = Dial();
  Carry(*wire);
  wire->far->peer.send_room = 0;
  for (uint64_t i = 1; i < 10; ++i) t_.Ask(call, MakePut(i, absl::StrCat("key", i), std::string(3000, 'v')));
  EXPECT_LE(t_.worker().stats().kept_bytes.value(), 2 * kv::kMaxMessageBytes);
  wire->far->peer.send_room = SIZE_MAX;
  for (int i = 0; i < 100; ++i) {
    t_.clock.now_ns += 1'000'000;
    Carry(*wire);
  }
  EXPECT_EQ(b_.ReadKey("key9"), std::string(3000, 'v'));
  EXPECT_EQ(stream_.committed(), stream_.last());
}

}  // namespace
}  // namespace farlook::server
