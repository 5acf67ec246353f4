// Requests, replies, sleeping and stopping.
#include "server/worker/worker.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "kv/wire/fields.h"
#include "server/worker/worker_testing.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::Condition;
using kv::RequestType;

// --- Requests ---

TEST_F(WorkerTest, WelcomesAClient) {
  FakeCall* call = Connect();
  ASSERT_TRUE(call->accepted);
  const kv::Welcome welcome = TestWorker::WelcomeOf(call);
  EXPECT_EQ(welcome.flags, 0u);
  EXPECT_EQ(SessionTable::OwnerOf(welcome.session), 3);
  EXPECT_EQ(welcome.epoch, 1u);
  EXPECT_EQ(TestWorker::AcceptOf(call).incarnation, kTestIncarnation);
  EXPECT_EQ(welcome.window, kTestWindow);
  EXPECT_EQ(TestWorker::AcceptOf(call).table.rkey, 11u);
  EXPECT_EQ(call->rkeys, (std::vector<uint32_t>{11, 12}));
  EXPECT_EQ(t_.worker().load(), 1);
  EXPECT_EQ(t_.quota.taken(), 1);
}

TEST_F(WorkerTest, TheRangeIsThatOfTheListener) {
  FakeCall* call = Resume(kv::Hello{}, 1);
  EXPECT_EQ(TestWorker::AcceptOf(call).table.rkey, 22u);
  EXPECT_EQ(TestWorker::AcceptOf(call).table.address, 4096u);
  EXPECT_EQ(call->peer.endpoint, &t_.endpoints[1]);
}

TEST_F(WorkerTest, PutsGetsAndDeletes) {
  FakeCall* call = Connect();
  auto put = t_.Ask(call, MakePut(1, "key", "value"));
  ASSERT_TRUE(put);
  EXPECT_EQ(put->code, Code::kOk);
  EXPECT_EQ(put->number, 1u);
  EXPECT_FALSE(put->slot.empty());
  EXPECT_EQ(t_.ReadKey("key"), "value");

  auto get = t_.Ask(call, MakeRequest(RequestType::kGet, 2, "key"));
  ASSERT_TRUE(get);
  EXPECT_EQ(get->payload, "value");
  EXPECT_EQ(get->version, put->version);
  EXPECT_EQ(get->slot, put->slot);

  auto deleted = t_.Ask(call, MakeRequest(RequestType::kDelete, 3, "key"));
  ASSERT_TRUE(deleted);
  EXPECT_EQ(deleted->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("key"), std::nullopt);
  EXPECT_EQ(t_.Ask(call, MakeRequest(RequestType::kGet, 4, "key"))->code, Code::kNotFound);
}

TEST_F(WorkerTest, ConditionsReachTheTable) {
  FakeCall* call = Connect();
  EXPECT_EQ(t_.Ask(call, MakePut(1, "k", "1", Condition::kPresent))->code, Code::kNotFound);
  auto first = t_.Ask(call, MakePut(2, "k", "1", Condition::kAbsent));
  EXPECT_EQ(first->code, Code::kOk);
  EXPECT_EQ(t_.Ask(call, MakePut(3, "k", "2", Condition::kAbsent))->code, Code::kExists);
  EXPECT_EQ(t_.Ask(call, MakePut(4, "k", "2", Condition::kVersion, first->version + 1))->code, Code::kVersionMismatch);
  EXPECT_EQ(t_.Ask(call, MakePut(5, "k", "3", Condition::kVersion, first->version))->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("k"), "3");
}

TEST_F(WorkerTest, PingAndStatAreAnswered) {
  FakeCall* call = Connect();
  EXPECT_EQ(t_.Ask(call, MakeRequest(RequestType::kPing, 1))->code, Code::kOk);
  EXPECT_EQ(t_.Ask(call, MakeRequest(RequestType::kStat, 2, "x"))->payload, "uptime 1\nx");
  t_.stat_text = std::string(kv::kMaxReplyPayloadBytes - 1, 'x') + "\nmore 1\n";
  const auto first = t_.Ask(call, MakeRequest(RequestType::kStat, 3));
  EXPECT_EQ(first->payload.size(), kv::kMaxReplyPayloadBytes);
  EXPECT_EQ(first->version, 1u) << "lines that follow";
  EXPECT_EQ(t_.Ask(call, MakeRequest(RequestType::kStat, 4, "@1"))->payload, "more 1\n");
}

TEST_F(WorkerTest, AValueTooLongForAReplyIsNamedByItsPlace) {
  FakeCall* call = Connect();
  uint64_t number = 0;
  for (size_t bytes : {kv::kMaxReplyPayloadBytes, kv::kMaxReplyPayloadBytes + 1}) {
    const std::string value(bytes, 'v');
    ASSERT_EQ(t_.PutPulled(call, ++number, "long", value)->code, Code::kOk);
    auto get = t_.Ask(call, MakeRequest(RequestType::kGet, ++number, "long"));
    ASSERT_TRUE(get);
    EXPECT_EQ(get->code, Code::kOk);
    EXPECT_EQ(get->payload, bytes <= kv::kMaxReplyPayloadBytes ? value : "");
    EXPECT_FALSE(get->slot.empty());
  }
}

TEST_F(WorkerTest, AReadOnlyClientChangesNothing) {
  FakeCall* writer = Connect();
  t_.Ask(writer, MakePut(1, "k", "v"));
  FakeCall* call = Connect(/*read_only=*/true);
  EXPECT_EQ(TestWorker::WelcomeOf(call).flags, kv::Welcome::kReadOnly);
  EXPECT_EQ(t_.Ask(call, MakePut(1, "k", "w"))->code, Code::kReadOnly);
  EXPECT_EQ(t_.Ask(call, MakeRequest(RequestType::kDelete, 2, "k"))->code, Code::kReadOnly);
  EXPECT_EQ(t_.Ask(call, t_.MakePulled(3, "k", "w"))->code, Code::kReadOnly);
  EXPECT_TRUE(call->peer.reads.empty());
  EXPECT_EQ(t_.Ask(call, MakeRequest(RequestType::kGet, 4, "k"))->payload, "v");
  // Expect: a refusal is an answer like any other, the same when the request is sent again.
  EXPECT_EQ(t_.Ask(call, MakePut(1, "k", "w"))->code, Code::kReadOnly);
}

TEST_F(WorkerTest, ABatchIsAnsweredWithOneRing) {
  FakeCall* call = Connect();
  const int rings = call->peer.rings;
  for (uint64_t n = 1; n <= kTestWindow; ++n) call->peer.Send(Encode(MakePut(n, absl::StrCat("k", n), "v")));
  EXPECT_EQ(t_.worker().Poll(), kTestWindow);
  EXPECT_EQ(call->peer.sent.size(), kTestWindow);
  EXPECT_EQ(call->peer.rings, rings + 1);
  EXPECT_EQ(t_.worker().Poll(), 0u);
}

TEST_F(WorkerTest, RepliesToMessagesThatCameTogetherAreRungWhenAllArePosted) {
  FakeCall* const one = Connect();
  FakeCall* const other = Connect();
  std::string order;
  for (FakeCall* call : {one, other}) {
    call->peer.on_send = [&order](const std::string&) { order += "send "; };
    call->peer.on_ring = [&order] { order += "ring "; };
  }
  one->peer.Send(Encode(MakePut(1, "a", "v")));
  other->peer.Send(Encode(MakePut(1, "b", "v")));
  one->peer.Send(Encode(MakePut(2, "c", "v")));
  EXPECT_EQ(t_.worker().Poll(), 3u);
  EXPECT_EQ(order, "send send send ring ring ");
}

TEST_F(WorkerTest, TheReplyToAMessageThatCameAloneIsRungWhereItIsPosted) {
  FakeCall* call = Connect();
  const int rings = call->peer.rings;
  const int with_ring = call->peer.sends_with_ring;
  ASSERT_EQ(t_.Ask(call, MakePut(1, "k", "v"))->code, Code::kOk);
  EXPECT_EQ(call->peer.sends_with_ring, with_ring + 1);
  EXPECT_EQ(call->peer.rings, rings + 1) << "once";
  // Expect: an answer from a turn of its own, as for a pulled value, is rung at the end of the turn.
  ASSERT_EQ(t_.PutPulled(call, 2, "long", std::string(5000, 'v'))->code, Code::kOk);
  EXPECT_EQ(call->peer.sends_with_ring, with_ring + 1);
}

TEST_F(WorkerTest, CountsWhatItDid) {
  FakeCall* call = Connect();
  t_.Ask(call, MakePut(1, "k", "v"));
  t_.Ask(call, MakePut(1, "k", "v"));
  t_.Ask(call, MakeRequest(RequestType::kGet, 2, "nokey"));
  EXPECT_EQ(stats().requests[static_cast<size_t>(RequestType::kPut)].value(), 2u);
  EXPECT_EQ(stats().resent_requests.value(), 1u);
  EXPECT_EQ(stats().replies[static_cast<size_t>(Code::kOk)].value(), 2u);
  EXPECT_EQ(stats().replies[static_cast<size_t>(Code::kNotFound)].value(), 1u);
  EXPECT_EQ(stats().connections.value(), 1u);
  EXPECT_EQ(stats().sessions.value(), 1u);
}

// --- Exactly once ---

TEST_F(WorkerTest, ARequestSentTwiceTakesEffectOnce) {
  FakeCall* call = Connect();
  auto first = t_.Ask(call, MakePut(1, "k", "v"));
  t_.Ask(call, MakePut(2, "k", "w"));
  auto again = t_.Ask(call, MakePut(1, "k", "v"));
  EXPECT_EQ(again->bytes, first->bytes);
  EXPECT_EQ(t_.ReadKey("k"), "w");
  EXPECT_EQ(t_.table().stats().puts, 2u);
}

TEST_F(WorkerTest, ADeleteSentTwiceFindsTheKeyBothTimes) {
  FakeCall* call = Connect();
  t_.Ask(call, MakePut(1, "k", "v"));
  auto first = t_.Ask(call, MakeRequest(RequestType::kDelete, 2, "k"));
  auto again = t_.Ask(call, MakeRequest(RequestType::kDelete, 2, "k"));
  EXPECT_EQ(first->code, Code::kOk);
  EXPECT_EQ(again->bytes, first->bytes);
}

TEST_F(WorkerTest, BelowTheWindowTheOutcomeIsUnknown) {
  FakeCall* call = Connect();
  for (uint64_t n = 1; n <= kTestWindow + 1; ++n) t_.Ask(call, MakePut(n, "k", absl::StrCat(n)));
  auto reply = t_.Ask(call, MakePut(1, "k", "1"));
  EXPECT_EQ(reply->code, Code::kOutcomeUnknown);
  EXPECT_EQ(reply->number, 1u);
  EXPECT_EQ(t_.ReadKey("k"), absl::StrCat(kTestWindow + 1));
  EXPECT_FALSE(call->peer.disconnecting);
}

TEST_F(WorkerTest, BeyondTheWindowTheConnectionIsDropped) {
  FakeCall* good = Connect();
  FakeCall* bad = Connect();
  EXPECT_FALSE(t_.Ask(bad, MakePut(kTestWindow + 1, "k", "v")));
  EXPECT_TRUE(bad->peer.disconnected);
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
  EXPECT_EQ(stats().dropped.value(), 1u);
  EXPECT_EQ(t_.Ask(good, MakePut(1, "k", "v"))->code, Code::kOk);
}

TEST_F(WorkerTest, ANumberUsedForTwoThingsDropsTheConnection) {
  FakeCall* call = Connect();
  t_.Ask(call, MakeRequest(RequestType::kPing, 1));
  EXPECT_FALSE(t_.Ask(call, MakePut(1, "k", "v")));
  EXPECT_TRUE(call->peer.disconnected);
}

// --- Deadlines and options ---

TEST_F(WorkerTest, WhatIsOverIsNotDoneAndNeverWillBe) {
  FakeCall* call = Connect();
  kv::Request put = MakePut(1, "k", "v");
  put.deadline_us = t_.ShownTime();
  auto reply = t_.Ask(call, put);
  EXPECT_EQ(reply->code, Code::kExpired);
  EXPECT_EQ(reply->time_us, t_.ShownTime());
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
  put.deadline_us = 0;
  EXPECT_EQ(t_.Ask(call, put)->code, Code::kExpired) << "its outcome";
  // Expect: a request that was executed in time is answered as such, however late it is sent again.
  put = MakePut(2, "k", "v");
  put.deadline_us = t_.ShownTime() + 1;
  EXPECT_EQ(t_.Ask(call, put)->code, Code::kOk);
  put.deadline_us = kv::Request::kLongOver;
  EXPECT_EQ(t_.Ask(call, put)->code, Code::kOk);
  EXPECT_EQ(t_.table().stats().puts, 1u);
  put = MakePut(3, "k", "w");
  put.deadline_us = UINT64_MAX;
  EXPECT_EQ(t_.Ask(call, put)->code, Code::kOk) << "in the far future";
}

TEST_F(WorkerTest, AnOptionThatMustBeKnownIsAnsweredAndNotExecuted) {
  FakeCall* call = Connect();
  std::string options;
  kv::AppendField(kv::kCriticalTag | 99, "soon", &options);
  kv::Request put = MakePut(1, "k", "v");
  put.options = options;
  EXPECT_EQ(t_.Ask(call, put)->code, Code::kUnsupported);
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
  options.clear();
  kv::AppendField(99, "soon", &options);
  put = MakePut(2, "k", "v");
  put.options = options;
  EXPECT_EQ(t_.Ask(call, put)->code, Code::kOk);
}

// --- Send queue full ---

TEST_F(WorkerTest, RepliesThatDoNotFitAreSentLaterInOrder) {
  FakeCall* call = Connect();
  call->peer.send_room = 2;
  for (uint64_t n = 1; n <= 6; ++n) call->peer.Send(Encode(MakePut(n, "k", "v")));
  t_.PollAll();
  EXPECT_EQ(call->peer.sent.size(), 2u);
  EXPECT_NE(t_.worker().due_ns(), Worker::kNever);
  call->peer.send_room = 3;
  t_.clock.AdvanceMs(1);
  t_.PollAll();
  EXPECT_EQ(call->peer.sent.size(), 5u);
  // Expect: a reply posted when there is room again does not overtake.
  call->peer.send_room = SIZE_MAX;
  call->peer.Send(Encode(MakePut(7, "k", "v")));
  t_.PollAll();
  t_.clock.AdvanceMs(1);
  t_.PollAll();
  for (uint64_t n = 1; n <= 7; ++n) EXPECT_EQ(TestWorker::TakeReply(call)->number, n);
  EXPECT_EQ(t_.worker().due_ns(), Worker::kNever);
}

TEST_F(WorkerTest, LooksLessAndLessOftenAtASendQueueThatStaysFull) {
  FakeCall* call = Connect();
  call->peer.send_room = 0;
  t_.Ask(call, MakePut(1, "k", "v"));
  int64_t last = 0;
  for (int i = 0; i < 30; ++i) {
    t_.worker().Poll();
    const int64_t pause = t_.worker().due_ns() - t_.clock.now_ns;
    EXPECT_GE(pause, last);
    EXPECT_LE(pause, 20'000'000);
    last = pause;
  }
  EXPECT_EQ(last, 20'000'000);
}

TEST_F(WorkerTest, WhoTakesNoRepliesAndAsksForMoreIsDropped) {
  FakeCall* call = Connect();
  call->peer.send_room = 0;
  for (uint32_t i = 0; i < kTestWindow; ++i) call->peer.Send(Encode(MakePut(1, "k", "v")));
  t_.PollAll();
  EXPECT_FALSE(call->peer.disconnecting);
  call->peer.Send(Encode(MakePut(1, "k", "v")));
  t_.PollAll();
  EXPECT_TRUE(call->peer.disconnected);
  EXPECT_EQ(t_.worker().due_ns(), Worker::kNever);
}

TEST_F(WorkerTest, QueuedRepliesGoWithTheirConnectionAndAreRemembered) {
  FakeCall* call = Connect();
  call->peer.send_room = 0;
  t_.Ask(call, MakePut(1, "k", "v"));
  FakeCall* next = Resume(TestWorker::HelloAfter(call));
  ASSERT_TRUE(next->accepted);
  EXPECT_EQ(t_.Ask(next, MakePut(1, "k", "v"))->code, Code::kOk);
  EXPECT_EQ(t_.table().stats().puts, 1u);
}

TEST_F(WorkerTest, AnAnsweredRequestAndTheEndMayComeInOneBatch) {
  FakeCall* call = Connect();
  call->peer.Send(Encode(MakePut(1, "k", "v")));
  call->peer.Break();
  t_.PollAll();
  EXPECT_EQ(call->peer.connection, nullptr);
  EXPECT_EQ(t_.ReadKey("k"), "v");
}

// --- Sleeping and stopping ---

TEST_F(WorkerTest, SleepsOnlyWhenThereIsNothingToDo) {
  FakeCall* call = Connect();
  EXPECT_TRUE(t_.worker().Arm());
  call->peer.Send(Encode(MakePut(1, "k", "v")));
  EXPECT_FALSE(t_.worker().Arm());
  t_.PollAll();
  EXPECT_TRUE(t_.worker().Arm());
  EXPECT_EQ(t_.worker().due_ns(), Worker::kNever);
  const int wakes = t_.wakes;
  t_.Call(kv::Hello{});
  EXPECT_EQ(t_.wakes, wakes + 1);
  EXPECT_FALSE(t_.worker().Arm());
  t_.PollAll();
  EXPECT_GT(t_.endpoints[1].arms, 0);
}

TEST(WorkerSlowTest, APutThatWaitsForItsValuePastTheLimitIsSlow) {
  TestWorker t(32 << 20, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, nullptr, 0, nullptr,
               [](Shared* shared) { shared->slow_ns = 50'000'000; });
  const WorkerStats& stats = t.worker().stats();
  const std::string value(2000, 'v');
  FakeCall* call = t.Connect();
  EXPECT_EQ(t.Ask(call, MakePut(1, "k", "v"))->code, Code::kOk);
  EXPECT_EQ(t.PutPulled(call, 2, "k", value)->code, Code::kOk);
  EXPECT_EQ(stats.slow_requests.value(), 0u);
  call->peer.Send(Encode(t.MakePulled(3, "k", value)));
  t.PollAll();
  ASSERT_FALSE(call->peer.reads.empty());
  t.clock.now_ns += 50'000'000;
  for (int i = 0; i < 3; ++i) {
    TestWorker::ServeReads(call, value);
    t.PollAll();
  }
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(stats.slow_requests.value(), 1u);
  EXPECT_EQ(t.Ask(call, MakePut(4, "k", "v"))->code, Code::kOk);
  EXPECT_EQ(stats.slow_requests.value(), 1u);
}

TEST_F(WorkerTest, DrainAnswersWhatHasArrivedThenDisconnects) {
  FakeCall* call = Connect();
  call->peer.Send(Encode(MakePut(1, "k", "v")));
  t_.worker().BeginDrain(1'000'000'000);
  FakeCall* late = t_.Call(kv::Hello{});
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(TestWorker::RejectOf(late).code, kv::RefusalCode::kShuttingDown);
  EXPECT_EQ(TestWorker::RejectOf(late).text, kShuttingDownReason);
  // Expect: it was idle once, so later writes are refused, and remembered as refused.
  EXPECT_EQ(t_.Ask(call, MakePut(2, "k", "w"))->code, Code::kShuttingDown);
  EXPECT_EQ(t_.Ask(call, MakeRequest(RequestType::kGet, 3, "k"))->payload, "v");
  EXPECT_FALSE(t_.worker().drained());
  EXPECT_LE(t_.worker().due_ns(), t_.clock.now_ns + 1'000'000);
  t_.clock.now_ns += 100'000'000;
  t_.PollAll();
  EXPECT_TRUE(call->peer.disconnected);
  EXPECT_TRUE(t_.worker().drained());
  EXPECT_EQ(t_.worker().load(), 0);
}

TEST_F(WorkerTest, DrainEndsAtItsDeadline) {
  FakeCall* call = Connect();
  call->peer.send_room = 0;
  call->peer.Send(Encode(MakePut(1, "k", "v")));
  t_.PollAll();
  t_.worker().BeginDrain(1'000'000'000);
  t_.clock.now_ns = 999'999'999;
  t_.PollAll();
  EXPECT_FALSE(call->peer.disconnecting);
  t_.clock.now_ns = 1'000'000'001;
  t_.PollAll();
  EXPECT_TRUE(t_.worker().drained());
}

TEST_F(WorkerTest, WhoWaitsToBeLetInWhenTheTimeIsOverHearsWhy) {
  std::vector<FakeCall*> late;
  for (int i = 0; i < 5; ++i) late.push_back(t_.CallSilently());
  t_.worker().BeginDrain(t_.clock.now_ns);
  while (!t_.worker().drained()) t_.worker().Poll();
  EXPECT_GT(t_.worker().waiting(), 0u);
  t_.worker().TurnAwayTheRest();
  EXPECT_EQ(t_.worker().waiting(), 0u);
  for (FakeCall* call : late) EXPECT_EQ(TestWorker::RejectOf(call).code, kv::RefusalCode::kShuttingDown);
  EXPECT_EQ(t_.worker().load(), 0);
}

TEST_F(WorkerTest, DrainOfNobodyIsImmediate) {
  t_.worker().BeginDrain(1'000'000'000);
  t_.PollAll();
  EXPECT_TRUE(t_.worker().drained());
}

}  // namespace
}  // namespace farlook::server
