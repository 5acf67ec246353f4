// A primary, a member and a joiner in one thread.
#include "server/replication/snapshot_sender.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cluster/batch_testing.h"
#include "gtest/gtest.h"
#include "server/replication/backup.h"
#include "server/replication/group_stream.h"
#include "server/replication/replication_feed.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;
using Progress = SnapshotSender::Progress;

constexpr uint64_t kEpoch = 1, kPrimary = kTestIncarnation, kJoiner = 78;
constexpr size_t kRegionBytes = 32 << 20;

// A replica that follows the primary.
struct Follower {
  Follower(uint64_t number, uint64_t accepted)
      : id(number), backup(&t.table(), &t.locks(), &t.clock, ServerTime(), kEpoch, kPrimary, accepted) {}
  // Takes a batch, if there is one.
  bool Take(GroupStream* stream, size_t most_bytes = 2000) {
    const std::string batch = cluster::BytesOf(*stream->NextBatch(feed, most_bytes, t.ShownTime(), true));
    if (batch.empty()) return false;
    const absl::Status taken = backup.Take(batch);
    EXPECT_TRUE(taken.ok()) << taken;
    EXPECT_TRUE(stream->Accepted(feed, {backup.accepted()}).ok());
    return true;
  }

  void Follow(GroupStream* stream) {
    const auto admitted = stream->Admit({.incarnation = id, .epoch = kEpoch, .accepted = backup.accepted()});
    ASSERT_TRUE(admitted.ok()) << admitted.status();
    feed = *admitted;
  }
  // Like the function above, for an empty replica.
  void Join(GroupStream* stream) {
    const auto admitted = stream->Admit({.incarnation = id, .epoch = kEpoch, .address = "fake://joiner"});
    ASSERT_TRUE(admitted.ok()) << admitted.status();
    feed = *admitted;
    ASSERT_EQ(*stream->Begin(id), backup.accepted());
  }

  // Makes it the primary, without members.
  void Succeed() {
    ASSERT_TRUE(backup.Promote().ok());
    next.Lead(kEpoch + 1, id, backup.accepted() + 1);
    next.SetMembers({});
    t.worker().Restore(kPrimary, backup.outcomes());
  }

  const uint64_t id;
  GroupStream next{1 << 20};
  TestWorker t{kRegionBytes, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &next};
  Backup backup;
  FeedId feed;
};

class SnapshotSenderTest : public ::testing::Test {
 protected:
  SnapshotSenderTest() {
    stream_.SetMembers({member_.id});
    stream_.Expect({member_.id, kJoiner});
    member_.Follow(&stream_);
  }

  void CatchUp() {
    t_.PollAll();
    while (member_.Take(&stream_)) t_.PollAll();
  }
  uint64_t Send(FakeCall* call, kv::Request request) {
    request.number = ++numbers_[call];
    call->peer.Send(Encode(request));
    t_.PollAll();
    return request.number;
  }
  TestReply Do(FakeCall* call, const kv::Request& request) {
    Send(call, request);
    CatchUp();
    return *TestWorker::TakeReply(call);
  }
  void Join() {
    joiner_ = std::make_unique<Follower>(kJoiner, stream_.last());
    joiner_->Join(&stream_);
    refill_ = std::make_unique<SnapshotSender>(&t_.table(), &t_.locks(), &t_.gate(), stream_.last());
  }
  void FinishRefill() {
    for (int i = 0; i < 100'000 && refill_->Step(100) != Progress::kDone; ++i) {
      CatchUp();
      while (joiner_->Take(&stream_)) continue;
    }
    CatchUp();
    while (joiner_->Take(&stream_)) continue;
    ASSERT_EQ(refill_->Step(1), Progress::kDone);
    EXPECT_GE(joiner_->backup.accepted(), refill_->last());
  }
  // Expects the sender to wait for a write under way whose record the joiner does not receive.
  void ExpectToWait() {
    Progress progress = Progress::kMore;
    for (int i = 0; i < 1000; ++i) progress = refill_->Step(100);
    EXPECT_EQ(progress, Progress::kWaits);
    EXPECT_EQ(refill_->copies(), 0u);
  }
  static std::map<std::string, std::string> ItemsOf(TestWorker& t) {
    std::map<std::string, std::string> items;
    for (int partition = 0; partition < t.table().partitions(); ++partition) {
      kv::WalkPlace place;
      while (t.table().Walk(partition, &place, 100, [&items](uint64_t, const kv::ItemView& item) {
        items[std::string(item.key)] =
            absl::StrCat(item.version, " ", item.expiry_ms, " ", static_cast<int>(item.kind), " ", item.value);
      })) {
      }
    }
    return items;
  }

  GroupStream stream_{kEpoch, kPrimary, 1, {}, 20'000};
  TestWorker t_{kRegionBytes, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &stream_};
  Follower member_{77, 0};
  std::unique_ptr<Follower> joiner_;
  std::unique_ptr<SnapshotSender> refill_;
  std::map<FakeCall*, uint64_t> numbers_;
};

TEST_F(SnapshotSenderTest, AJoinerGetsWhatWasThere) {
  FakeCall* call = t_.Connect();
  for (int i = 0; i < 3000; ++i) Do(call, MakePut(0, absl::StrCat("key", i), std::string(i % 100, 'v')));
  Join();
  FinishRefill();
  const auto items = ItemsOf(t_);
  EXPECT_EQ(items.size(), 3000u);
  EXPECT_EQ(refill_->copies(), 3000u);
  EXPECT_EQ(ItemsOf(joiner_->t), items);
  EXPECT_EQ(ItemsOf(member_.t), items);
  EXPECT_EQ(joiner_->t.table().stats().used_bytes, t_.table().stats().used_bytes);
}

// A few buckets of long values exceed what the stream keeps at once. During writes there is always a record that is not
// accepted. Otherwise a joiner may have accepted all, and then a record of any length has room.
TEST(RefillOfLongValuesTest, KeepsNoMoreThanTheStreamMay) {
  constexpr size_t kMost = 150'000;  // one value, but not two
  for (const size_t always_kept : {kMost / 8, size_t{0}}) {
    SCOPED_TRACE(always_kept);
    GroupStream stream(kEpoch, kPrimary, 1, {}, kMost);
    TestWorker t(kRegionBytes, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &stream);
    stream.SetMembers({});
    for (int i = 0; i < 40; ++i) {
      const std::string key = absl::StrCat("key", i), value(100'000, static_cast<char>('a' + i % 26));
      ASSERT_EQ(t.table().Put(t.table().HashOf(key), key, value, kv::Condition::kAlways, 0, 0).code, Code::kOk);
    }
    Follower joiner(kJoiner, stream.last());
    joiner.Join(&stream);
    SnapshotSender refill(&t.table(), &t.locks(), &t.gate(), stream.last());
    Progress progress = Progress::kMore;
    for (int i = 0; i < 1000 && progress != Progress::kDone; ++i) {
      progress = refill.Step(4);
      ASSERT_LE(stream.kept_bytes(), kMost);
      while (stream.kept_bytes() > always_kept && joiner.Take(&stream, 100)) continue;
    }
    while (joiner.Take(&stream, 100)) continue;
    ASSERT_EQ(refill.Step(1), Progress::kDone);
    EXPECT_EQ(refill.copies(), 40u);
    EXPECT_EQ(joiner.t.table().stats().keys, 40u);
    EXPECT_EQ(joiner.t.table().stats().value_bytes, t.table().stats().value_bytes);
  }
}

// During the walk there are splits and merges, members lag, and the stream is full at times.
TEST_F(SnapshotSenderTest, WritesGoOnMeanwhileAndTablesAreEqualInTheEnd) {
  int waits = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<FakeCall*> calls = {t_.Connect(), t_.Connect(), t_.Connect()};
    const auto write = [&] {
      FakeCall* call = calls[random() % calls.size()];
      if ((numbers_[call] + 1) % (kTestWindow / 2) == 0) {
        CatchUp();
        if (joiner_ != nullptr) joiner_->Take(&stream_, 20'000);
        CatchUp();
        while (TestWorker::TakeReply(call).has_value()) continue;
      }
      const std::string key = absl::StrCat("key", random() % 3 == 0 ? random() % 3 : random() % 4000);
      const std::string value(random() % 200, static_cast<char>('a' + random() % 26));
      kv::Request request = MakePut(0, key, value);
      if (const uint64_t kind = random() % 12; kind < 3) {
        request = MakeRequest(RequestType::kDelete, 0, key);
      } else if (kind == 3) {
        request = MakeRequest(RequestType::kTouch, 0, key);
      } else if (kind < 6) {
        request = MakeRequest(kind == 4 ? RequestType::kCounterCreate : RequestType::kCounterAdd, 0, key);
        request.operands.operand = 1;
      }
      if (kv::MayHaveTtl(request.type) && random() % 4 == 0) request = WithTtl(request, 1 + random() % 3000);
      if (random() % 50 == 0) t_.clock.AdvanceMs(1);
      Send(call, request);
    };
    for (int i = 0; i < 3000; ++i) write();
    Join();
    for (bool done = false; !done;) {
      if (random() % 4 == 0) write();
      if (random() % 2 == 0) member_.Take(&stream_, random() % 3000);
      if (random() % 2 == 0) joiner_->Take(&stream_, random() % 3000);
      t_.PollAll();
      const Progress progress = refill_->Step(random() % 20);
      waits += progress == Progress::kWaits ? 1 : 0;
      done = progress == Progress::kDone;
    }
    for (int i = 0; i < 100; ++i) {
      CatchUp();
      joiner_->Take(&stream_, 20'000);
    }
    const auto items = ItemsOf(t_);
    EXPECT_GT(items.size(), 500u);
    ASSERT_EQ(ItemsOf(joiner_->t), items) << "seed " << seed;
    ASSERT_EQ(ItemsOf(member_.t), items) << "seed " << seed;
    stream_.Expect({member_.id});
    stream_.Expect({member_.id, kJoiner});
    for (FakeCall* call : calls) call->peer.Break();
    t_.PollAll();
    joiner_.reset();
  }
  EXPECT_GT(waits, 0);
}

TEST_F(SnapshotSenderTest, AKeyWhoseWriteIsUnderWayIsCopiedAfterIt) {
  FakeCall* call = t_.Connect();
  Do(call, MakePut(0, "key", "old"));
  Send(call, MakePut(0, "key", "new"));
  Join();
  ExpectToWait();
  const uint64_t turn = t_.gate().notifier()->turn();
  CatchUp();
  EXPECT_NE(t_.gate().notifier()->turn(), turn);
  FinishRefill();
  EXPECT_EQ(refill_->copies(), 1u);
  EXPECT_EQ(ItemsOf(joiner_->t), ItemsOf(t_));
}

// A walk over items does not meet it.
TEST_F(SnapshotSenderTest, AKeyThatIsNotThereYetIsCopiedAfterItsWrite) {
  FakeCall* call = t_.Connect();
  Send(call, MakePut(0, "key", "new"));
  Join();
  ExpectToWait();
  FinishRefill();
  EXPECT_GE(refill_->copies(), 1u);
  EXPECT_EQ(ItemsOf(joiner_->t), ItemsOf(t_));
}

// A client may still hold the version of a deleted item, and send it in a condition.
TEST_F(SnapshotSenderTest, TheNextPrimaryUsesNoVersionAgain) {
  FakeCall* call = t_.Connect();
  uint64_t last = 0;
  for (int i = 0; i < 50; ++i) last = Do(call, MakePut(0, "key", "value")).version;
  Do(call, MakeRequest(RequestType::kDelete, 0, "key"));
  Join();
  FinishRefill();
  joiner_->Succeed();
  FakeCall* next = joiner_->t.Connect();
  EXPECT_GT(joiner_->t.Ask(next, MakePut(1, "key", "value"))->version, last);
}

TEST_F(SnapshotSenderTest, AKeyOfWhoseWriteTheJoinerHearsNeedsNoCopy) {
  FakeCall* call = t_.Connect();
  Do(call, MakePut(0, "key", "old"));
  Join();
  Send(call, MakePut(0, "key", "new"));
  while (refill_->Step(100) == Progress::kMore) continue;
  EXPECT_EQ(refill_->Step(1), Progress::kDone);
  EXPECT_EQ(refill_->copies(), 0u);
  FinishRefill();
  EXPECT_EQ(ItemsOf(joiner_->t), ItemsOf(t_));
}

// The record of a touch contains the expiry, but not the item.
TEST_F(SnapshotSenderTest, AKeyThatIsTouchedMeanwhileIsCopiedAfterThat) {
  FakeCall* call = t_.Connect();
  Do(call, WithTtl(MakePut(0, "key", "value"), 5000));
  Join();
  Send(call, WithTtl(MakeRequest(RequestType::kTouch, 0, "key"), 90'000));
  for (int i = 0; i < 1000; ++i) refill_->Step(100);
  EXPECT_EQ(refill_->copies(), 0u);
  FinishRefill();
  EXPECT_EQ(refill_->copies(), 1u);
  EXPECT_EQ(ItemsOf(joiner_->t), ItemsOf(t_));
  EXPECT_EQ(ItemsOf(member_.t), ItemsOf(t_));
}

TEST_F(SnapshotSenderTest, CountersAndExpiriesAreCopied) {
  FakeCall* call = t_.Connect();
  kv::Request create = WithTtl(MakeRequest(RequestType::kCounterCreate, 0, "counter"), 5000);
  create.operands.operand = 17;
  Do(call, create);
  Do(call, WithTtl(MakePut(0, "key", "value"), 7000));
  Join();
  FinishRefill();
  EXPECT_EQ(ItemsOf(joiner_->t), ItemsOf(t_));
  joiner_->Succeed();
  FakeCall* next = joiner_->t.Connect();
  EXPECT_EQ(joiner_->t.Ask(next, MakeRequest(RequestType::kCounterRead, 1, "counter"))->counter.value, 17);
}

TEST_F(SnapshotSenderTest, AJoinerKnowsWhatClientsWereTold) {
  FakeCall* call = t_.Connect();
  const kv::Hello hello = TestWorker::HelloAfter(call);
  const TestReply first = Do(call, MakePut(0, "key", "v", kv::Condition::kAbsent));
  EXPECT_EQ(Do(call, MakePut(0, "key", "w", kv::Condition::kAbsent)).code, Code::kExists);
  Do(call, MakeRequest(RequestType::kGet, 0, "key"));
  Send(call, MakePut(0, "other", "v", kv::Condition::kAbsent));
  Join();
  OutcomesToReport rest;
  EXPECT_FALSE(t_.worker().AppendReplies(stream_.last(), &rest)) << "one that the joiner does not hear of is open";
  const uint64_t from = stream_.last();
  CatchUp();
  ASSERT_TRUE(t_.worker().AppendReplies(from, &rest));
  FinishRefill();

  joiner_->Succeed();
  FakeCall* next = joiner_->t.Call(hello);
  joiner_->t.PollAll();
  const TestReply again = *joiner_->t.Ask(next, MakePut(1, "key", "v", kv::Condition::kAbsent));
  EXPECT_EQ(again.code, Code::kOk);
  EXPECT_EQ(again.version, first.version);
  EXPECT_EQ(joiner_->t.Ask(next, MakePut(2, "key", "w", kv::Condition::kAbsent))->code, Code::kExists);
  EXPECT_EQ(joiner_->t.Ask(next, MakePut(4, "other", "v", kv::Condition::kAbsent))->code, Code::kOk);
}

// Otherwise a client that reconnects would find a table that does not know its session, and execute its open writes
// again.
TEST_F(SnapshotSenderTest, AJoinerKnowsWhichSessionsAreLost) {
  TestWorker none(kRegionBytes, /*max_kept=*/0, 100, 3, nullptr, kTestWindow, /*evict=*/false, &stream_);
  FakeCall* call = none.Connect();
  const kv::Hello hello = TestWorker::HelloAfter(call);
  call->peer.Send(Encode(MakePut(1, "key", "v")));
  none.PollAll();
  while (member_.Take(&stream_)) continue;
  none.gate().notifier()->NotifyTurn();
  none.PollAll();
  ASSERT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  call->peer.Break();
  none.PollAll();
  Join();
  OutcomesToReport rest;
  ASSERT_TRUE(none.worker().AppendReplies(stream_.last(), &rest));
  while (member_.Take(&stream_) || joiner_->Take(&stream_)) continue;
  joiner_->Succeed();
  FakeCall* next = joiner_->t.Call(hello);
  joiner_->t.PollAll();
  EXPECT_EQ(TestWorker::WelcomeOf(next).flags & kv::Welcome::kResumed, 0u);
}

TEST_F(SnapshotSenderTest, WhatClientsWereToldIsToldInSteps) {
  std::vector<FakeCall*> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(t_.Connect());
  for (int i = 0; i < 100; ++i) {
    for (FakeCall* call : calls) Do(call, MakePut(0, absl::StrCat("key", i), "v"));
  }
  Join();
  // Expect: a stream with room for few records is enough.
  Do(calls[0], MakePut(0, "long", std::string(3000, 'v')));
  for (int i = 0; i < 4; ++i) Send(calls[0], MakePut(0, absl::StrCat("long", i), std::string(3500, 'v')));
  CatchUp();
  const uint64_t before = stream_.last();
  OutcomesToReport rest;
  int steps = 1;
  for (; !t_.worker().AppendReplies(0, &rest); ++steps) {
    ASSERT_LT(steps, 1000);
    CatchUp();
    while (joiner_->Take(&stream_, 100)) continue;
  }
  CatchUp();
  while (joiner_->Take(&stream_)) continue;
  EXPECT_EQ(joiner_->backup.outcomes().sessions().size(), 10u);
  EXPECT_EQ(joiner_->backup.outcomes().size(), 10 * kTestWindow);
  EXPECT_GT(steps, 1);
  EXPECT_EQ(stream_.last() - before, 10 * (kTestWindow + 1)) << "each once, and whose they are";
}

}  // namespace
}  // namespace farlook::server
