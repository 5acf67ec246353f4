#include "server/worker.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kv/fields.h"
#include "server/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::Condition;
using kv::RequestType;

class WorkerTest : public ::testing::Test {
 protected:
  void TearDown() override {
    // Expect: every connection that went was let go in two phases.
    for (FakeCall* call : watched_) EXPECT_FALSE(call->peer.destroyed_early);
  }
  FakeCall* Connect(bool read_only = false) {
    watched_.push_back(t_.Connect(read_only));
    return watched_.back();
  }
  FakeCall* Resume(const kv::Hello& hello, int port = 0) {
    watched_.push_back(t_.Call(hello, port));
    t_.PollAll();
    return watched_.back();
  }
  const WorkerStats& stats() { return t_.worker().stats(); }

  TestWorker t_;
  std::vector<FakeCall*> watched_;
};

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
  EXPECT_EQ(t_.clients.load(), 1);
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
  t_.stat_text = std::string(100'000, 'x');
  EXPECT_EQ(t_.Ask(call, MakeRequest(RequestType::kStat, 3))->payload.size(), kv::kMaxReplyPayloadBytes);
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
  // Expect: a refusal is an answer like any other, the same when asked again.
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

// --- Resumption ---

TEST_F(WorkerTest, AResumedSessionAnswersFromMemory) {
  FakeCall* call = Connect();
  auto first = t_.Ask(call, MakePut(1, "k", "v"));
  call->peer.Break();
  t_.PollAll();
  EXPECT_EQ(stats().connections.value(), 0u);
  EXPECT_EQ(stats().kept_sessions.value(), 1u);
  EXPECT_EQ(t_.worker().load(), 0);

  FakeCall* next = Resume(TestWorker::HelloAfter(call));
  const kv::Welcome welcome = TestWorker::WelcomeOf(next);
  EXPECT_EQ(welcome.flags, kv::Welcome::kResumed);
  EXPECT_EQ(welcome.session, TestWorker::WelcomeOf(call).session);
  EXPECT_EQ(welcome.epoch, 2u);
  EXPECT_EQ(t_.Ask(next, MakePut(1, "k", "v"))->bytes, first->bytes);
  EXPECT_EQ(t_.table().stats().puts, 1u);
  EXPECT_EQ(stats().kept_sessions.value(), 0u);
}

TEST_F(WorkerTest, ResumptionDiscardsWhatTheOldConnectionHadQueued) {
  FakeCall* old = Connect();
  old->peer.hold_disconnected = true;
  FakeCall* next = t_.CallSilently(TestWorker::HelloAfter(old));
  t_.PollAll();
  next->peer.Send(TestWorker::HelloAfter(old).Encode());
  old->peer.Send(Encode(MakePut(1, "k", "old")));
  t_.PollAll();
  // Expect: the old one is told to go, nothing of it is executed, and the new one waits for it, however long.
  EXPECT_TRUE(old->peer.disconnecting);
  t_.clock.now_ns += 10 * kTestHelloNs;
  t_.PollAll();
  EXPECT_FALSE(TestWorker::Welcome(next));
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
  old->peer.Release();
  t_.PollAll();
  EXPECT_TRUE(old->peer.disconnected);
  EXPECT_EQ(old->peer.connection, nullptr);
  ASSERT_TRUE(TestWorker::Welcome(next));
  EXPECT_EQ(TestWorker::WelcomeOf(next).flags, kv::Welcome::kResumed);
  EXPECT_EQ(t_.Ask(next, MakePut(1, "k", "v"))->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("k"), "v");
  EXPECT_EQ(t_.table().stats().puts, 1u);
  EXPECT_EQ(t_.clients.load(), 1);
}

TEST_F(WorkerTest, TheLatestOfSeveralResumptionsWins) {
  FakeCall* old = Connect();
  old->peer.hold_disconnected = true;
  FakeCall* second = t_.Call(TestWorker::HelloAfter(old));
  t_.PollAll();
  FakeCall* third = t_.Call(TestWorker::HelloAfter(old));
  t_.PollAll();
  EXPECT_TRUE(second->peer.disconnected);
  EXPECT_FALSE(TestWorker::Welcome(second));
  old->peer.Release();
  t_.PollAll();
  EXPECT_TRUE(TestWorker::Welcome(third));
  EXPECT_EQ(t_.worker().load(), 1);
}

TEST_F(WorkerTest, ASessionMovesToAnotherListener) {
  FakeCall* call = Connect();
  t_.Ask(call, MakePut(1, "k", "v"));
  FakeCall* next = Resume(TestWorker::HelloAfter(call, 1), 1);
  EXPECT_EQ(TestWorker::WelcomeOf(next).flags, kv::Welcome::kResumed);
  EXPECT_EQ(TestWorker::AcceptOf(next).table.rkey, 22u);
  EXPECT_EQ(t_.Ask(next, MakePut(2, "k", "w"))->code, Code::kOk);
}

TEST_F(WorkerTest, AStrangerGetsASessionOfItsOwn) {
  FakeCall* call = Connect();
  t_.Ask(call, MakePut(1, "k", "v"));
  for (int what = 0; what < 4; ++what) {
    kv::Hello hello = TestWorker::HelloAfter(call);
    if (what == 0) hello.epoch += 1;
    if (what == 1) hello.incarnation += 1;
    if (what == 2) hello.flags = kv::Hello::kReadOnly;
    if (what == 3) hello.session += 1;  // of another worker
    FakeCall* stranger = Resume(hello);
    ASSERT_TRUE(stranger->accepted) << what;
    EXPECT_EQ(TestWorker::WelcomeOf(stranger).flags & kv::Welcome::kResumed, 0u) << what;
    EXPECT_NE(TestWorker::WelcomeOf(stranger).session, TestWorker::WelcomeOf(call).session);
  }
  EXPECT_EQ(stats().refused_resumptions.value(), 4u);
  // Expect: the client they wanted to be is not disturbed.
  EXPECT_FALSE(call->peer.disconnecting);
  EXPECT_EQ(t_.Ask(call, MakePut(2, "k", "w"))->code, Code::kOk);
}

TEST_F(WorkerTest, AReadOnlySessionIsNotResumedForWriting) {
  FakeCall* call = Connect(/*read_only=*/true);
  kv::Hello hello = TestWorker::HelloAfter(call);
  hello.flags = 0;
  FakeCall* next = Resume(hello);
  EXPECT_EQ(TestWorker::WelcomeOf(next).flags, 0u);
  EXPECT_NE(TestWorker::WelcomeOf(next).session, TestWorker::WelcomeOf(call).session);
}

TEST_F(WorkerTest, AnAcceptThatFailsKeepsTheSession) {
  FakeCall* call = Connect();
  auto first = t_.Ask(call, MakePut(1, "k", "v"));
  call->peer.Break();
  t_.PollAll();
  FakeCall* gone = t_.Call(TestWorker::HelloAfter(call));
  gone->accept_status = absl::UnavailableError("the client is gone");
  t_.PollAll();
  EXPECT_EQ(t_.worker().load(), 0);
  EXPECT_EQ(t_.clients.load(), 0);
  FakeCall* next = Resume(TestWorker::HelloAfter(call));
  EXPECT_EQ(TestWorker::WelcomeOf(next).flags, kv::Welcome::kResumed);
  EXPECT_EQ(t_.Ask(next, MakePut(1, "k", "v"))->bytes, first->bytes);
}

TEST_F(WorkerTest, AnAcceptThatFailsLeavesNoNewSession) {
  FakeCall* gone = t_.Call(kv::Hello{});
  gone->accept_status = absl::UnavailableError("the client is gone");
  t_.PollAll();
  EXPECT_EQ(stats().sessions.value(), 0u);
}

TEST(WorkerLimitsTest, WithManyKeptSessionsNobodyNewMayWrite) {
  TestWorker t(32 << 20, /*max_kept=*/1);
  FakeCall* first = t.Connect();
  FakeCall* second = t.Connect();
  t.Ask(first, MakePut(1, "k", "v"));
  t.Ask(second, MakePut(1, "l", "v"));
  first->peer.Break();
  second->peer.Break();
  t.PollAll();
  // Expect: neither was evicted for the other. Who is new is told when it may come, and goes; who only reads may stay.
  FakeCall* stranger = t.Connect();
  EXPECT_EQ(TestWorker::RefusalOf(stranger).code, kv::RefusalCode::kFull);
  EXPECT_NE(TestWorker::RefusalOf(stranger).text.find("--max_kept_sessions"), std::string::npos);
  EXPECT_EQ(TestWorker::RefusalOf(stranger).retry_after_ms, 600'000u);
  EXPECT_FALSE(stranger->peer.disconnecting) << "before it could read why";
  t.clock.now_ns += 100'000'000;
  t.PollAll();
  EXPECT_TRUE(stranger->peer.disconnected);
  EXPECT_TRUE(TestWorker::Welcome(t.Connect(/*read_only=*/true)));
  FakeCall* next = t.Call(TestWorker::HelloAfter(first));
  t.PollAll();
  EXPECT_EQ(TestWorker::WelcomeOf(next).flags, kv::Welcome::kResumed);
  t.clock.now_ns += 600'000'000'000;
  EXPECT_TRUE(TestWorker::Welcome(t.Connect()));
}

TEST(WorkerLimitsTest, AResumptionInPlaceNeedsNoRoomForKeptSessions) {
  TestWorker t(32 << 20, /*max_kept=*/0, /*max_clients=*/1);
  FakeCall* first = t.Connect();
  t.Ask(first, MakePut(1, "k", "v"));
  FakeCall* next = t.Call(TestWorker::HelloAfter(first));
  t.PollAll();
  ASSERT_TRUE(next->accepted);
  EXPECT_EQ(TestWorker::WelcomeOf(next).flags, kv::Welcome::kResumed);
}

TEST(WorkerLimitsTest, TooManyClientsAreToldWhatToDo) {
  TestWorker t(32 << 20, 16, /*max_clients=*/2);
  t.Connect();
  FakeCall* second = t.Connect();
  FakeCall* third = t.Connect();
  EXPECT_EQ(TestWorker::RejectOf(third).code, kv::RefusalCode::kFull);
  EXPECT_NE(TestWorker::RejectOf(third).text.find("--max_clients"), std::string::npos);
  EXPECT_EQ(t.worker().load(), 2);
  second->peer.Break();
  t.PollAll();
  EXPECT_TRUE(t.Connect()->accepted);
}

// --- The first message ---

TEST_F(WorkerTest, WhoSaysNoHelloInTimeIsDropped) {
  FakeCall* silent = t_.CallSilently();
  t_.PollAll();
  ASSERT_TRUE(silent->accepted);
  EXPECT_EQ(t_.clients.load(), 1) << "it counts as a client";
  EXPECT_EQ(stats().sessions.value(), 0u);
  EXPECT_EQ(t_.worker().due_ns(), t_.clock.now_ns + kTestHelloNs);
  t_.clock.now_ns += kTestHelloNs - 1;
  t_.PollAll();
  EXPECT_FALSE(silent->peer.disconnecting);
  FakeCall* other = Connect();
  t_.clock.now_ns += 1;
  t_.PollAll();
  EXPECT_TRUE(silent->peer.disconnected);
  EXPECT_FALSE(other->peer.disconnecting);
  EXPECT_EQ(stats().silent_drops.value(), 1u);
  EXPECT_EQ(t_.worker().due_ns(), Worker::kNever);
  EXPECT_EQ(t_.clients.load(), 1);
}

TEST_F(WorkerTest, AServerThatStoodStillDropsNobodyWhoSpokeMeanwhile) {
  FakeCall* other = Connect();
  FakeCall* late = t_.CallSilently();
  t_.PollAll();
  // The process is stopped within a request; the Hello comes before it goes on.
  t_.on_stat = [&] {
    t_.clock.now_ns += kTestHelloNs;
    late->peer.Send(kv::Hello().Encode());
  };
  t_.Ask(other, MakeRequest(RequestType::kStat, 1));
  EXPECT_FALSE(late->peer.disconnecting);
  EXPECT_TRUE(t_.Welcome(late));
  EXPECT_EQ(stats().silent_drops.value(), 0u);
}

TEST_F(WorkerTest, WhoSpeaksBeforeItsHelloIsDropped) {
  for (const std::string& message : {Encode(MakePut(1, "k", "v")), std::string("x"), kv::Welcome().Encode(),
                                     Encode(MakeRequest(RequestType::kPing, 1))}) {
    FakeCall* rude = t_.CallSilently();
    t_.PollAll();
    rude->peer.Send(message);
    rude->peer.Send(kv::Hello().Encode());
    t_.PollAll();
    EXPECT_TRUE(rude->peer.disconnected);
    EXPECT_TRUE(rude->peer.first.empty());
  }
  EXPECT_EQ(stats().dropped.value(), 4u);
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
}

TEST_F(WorkerTest, AHelloThatCannotBeIsRefusedWithACodeAndTimeToReadIt) {
  std::string critical = kv::Hello().Encode();
  kv::AppendField(kv::kCriticalTag | 77, "new", &critical);
  critical[4] = static_cast<char>(critical.size());
  std::string later = kv::Hello().Encode();
  later[1] = 9;
  const std::pair<std::string, kv::RefusalCode> hellos[] = {
      {kv::Hello().Encode() + "x", kv::RefusalCode::kMalformed},
      {std::string("\x90", 1), kv::RefusalCode::kMalformed},
      {critical, kv::RefusalCode::kVersion},
      {later, kv::RefusalCode::kVersion},
  };
  for (const auto& [hello, code] : hellos) {
    FakeCall* call = t_.CallSilently();
    t_.PollAll();
    call->peer.Send(hello);
    call->peer.Send(kv::Hello().Encode());
    t_.PollAll();
    EXPECT_EQ(TestWorker::RefusalOf(call).code, code);
    EXPECT_TRUE(call->peer.sent.empty());
    EXPECT_FALSE(call->peer.disconnecting);
    t_.clock.now_ns += 200'000'000;
    t_.PollAll();
    EXPECT_TRUE(call->peer.disconnected);
  }
  EXPECT_EQ(stats().refused.value(), 4u);
  EXPECT_EQ(stats().silent_drops.value(), 0u);
  EXPECT_EQ(t_.clients.load(), 0);
}

TEST_F(WorkerTest, WhoWaitsForItsOldConnectionMayBeGoneFirst) {
  FakeCall* old = Connect();
  old->peer.hold_disconnected = true;
  FakeCall* next = t_.Call(TestWorker::HelloAfter(old));
  t_.PollAll();
  next->peer.Send(Encode(MakePut(1, "k", "v")));  // before it is welcome
  t_.PollAll();
  EXPECT_TRUE(next->peer.disconnected);
  old->peer.Release();
  t_.PollAll();
  EXPECT_EQ(t_.clients.load(), 0);
  EXPECT_EQ(t_.worker().load(), 0);
}

// --- Goodbye ---

TEST_F(WorkerTest, ASessionThatSaidGoodbyeIsForgotten) {
  FakeCall* call = Connect();
  t_.Ask(call, MakePut(1, "k", "v"));
  EXPECT_FALSE(t_.Ask(call, MakeRequest(RequestType::kGoodbye, 0))) << "has no reply";
  EXPECT_EQ(stats().sessions.value(), 1u);
  call->peer.Break();
  t_.PollAll();
  EXPECT_EQ(stats().sessions.value(), 0u);
  EXPECT_EQ(stats().kept_sessions.value(), 0u);
}

TEST_F(WorkerTest, AfterTheGoodbyeThereIsNothingToSay) {
  FakeCall* call = Connect();
  t_.Ask(call, MakeRequest(RequestType::kGoodbye, 0));
  EXPECT_FALSE(t_.Ask(call, MakePut(1, "k", "v")));
  EXPECT_TRUE(call->peer.disconnected);
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
}

TEST_F(WorkerTest, WhatWasBiddenGoodbyeIsNotGoneOnWith) {
  FakeCall* call = Connect();
  t_.Ask(call, MakePut(1, "k", "v"));
  t_.Ask(call, MakeRequest(RequestType::kGoodbye, 0));
  FakeCall* next = Resume(TestWorker::HelloAfter(call));
  EXPECT_EQ(TestWorker::WelcomeOf(next).flags, 0u);
  EXPECT_NE(TestWorker::WelcomeOf(next).session, TestWorker::WelcomeOf(call).session);
}

TEST_F(WorkerTest, ManyThatOnlyReadLeaveNothing) {
  for (int i = 0; i < 500; ++i) {
    FakeCall* call = t_.Connect();
    t_.Ask(call, MakeRequest(RequestType::kGet, 1, "k"));
    call->peer.Break();
    t_.PollAll();
  }
  EXPECT_EQ(stats().sessions.value(), 0u);
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
  // Expect: one that was done in time is answered so, however late it is asked for again.
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
  kv::AppendField(kv::kCriticalTag | 5, "soon", &options);
  kv::Request put = MakePut(1, "k", "v");
  put.options = options;
  EXPECT_EQ(t_.Ask(call, put)->code, Code::kUnsupported);
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
  options.clear();
  kv::AppendField(5, "soon", &options);
  put = MakePut(2, "k", "v");
  put.options = options;
  EXPECT_EQ(t_.Ask(call, put)->code, Code::kOk);
}

// --- Malformed messages ---

std::vector<std::pair<const char*, std::string>> MalformedMessages(TestWorker& t) {
  std::vector<std::pair<const char*, std::string>> bad;
  const auto change = [](std::string message, size_t at, char to) {
    message[at] = to;
    return message;
  };
  const std::string put = Encode(MakePut(1, "key", "value"));
  const std::string pulled = Encode(t.MakePulled(1, "key", "value"));
  const std::string get = Encode(MakeRequest(RequestType::kGet, 1, "key"));
  const std::string ping = Encode(MakeRequest(RequestType::kPing, 1));
  bad.emplace_back("one byte", std::string(1, '\0'));
  bad.emplace_back("header cut short", put.substr(0, kv::Request::kHeaderBytes - 1));
  bad.emplace_back("zeros", std::string(kv::Request::kHeaderBytes, '\0'));
  bad.emplace_back("type 0", change(put, 0, 0));
  bad.emplace_back("type 7", change(put, 0, 7));
  bad.emplace_back("type 255", change(put, 0, '\xff'));
  bad.emplace_back("unknown condition", change(put, 1, 4));
  bad.emplace_back("key longer than the message", change(put, 2, '\xf0'));
  bad.emplace_back("key above the limit", change(put, 3, '\xf0'));
  bad.emplace_back("empty key, put", Encode(MakePut(1, "", "value")));
  bad.emplace_back("empty key, get", Encode(MakeRequest(RequestType::kGet, 1)));
  bad.emplace_back("value shorter than said", put.substr(0, put.size() - 1));
  bad.emplace_back("value longer than said", put + "x");
  bad.emplace_back("number 0", Encode(MakePut(0, "key", "value")));
  for (size_t i = 36; i < 40; ++i) bad.emplace_back("reserved bytes", change(put, i, 1));
  bad.emplace_back("source cut short", pulled.substr(0, pulled.size() - 1));
  bad.emplace_back("source missing", pulled.substr(0, kv::Request::kHeaderBytes + 3));
  bad.emplace_back("bytes after the source", pulled + "x");
  bad.emplace_back("padding not zero", change(pulled, kv::Request::kHeaderBytes + 3, 1));
  bad.emplace_back("source not aligned", change(pulled, kv::Request::kHeaderBytes + 8, 1));
  bad.emplace_back("value of a get", get + "x");
  bad.emplace_back("value length of a get", change(get, 4, 1));
  bad.emplace_back("condition of a ping", change(ping, 1, 1));
  bad.emplace_back("options longer than the message", change(put, 33, 1));
  bad.emplace_back("another hello", kv::Hello().Encode());
  bad.emplace_back("a welcome", std::string(1, '\x91') + std::string(7, '\0'));
  bad.emplace_back("text", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n                ");
  bad.emplace_back("longest, of ones", std::string(kv::kMaxMessageBytes, '\xff'));
  return bad;
}

TEST_F(WorkerTest, MalformedMessagesDropTheirSenderOnly) {
  FakeCall* good = Connect();
  uint64_t number = 0;
  for (const auto& [what, message] : MalformedMessages(t_)) {
    SCOPED_TRACE(what);
    FakeCall* bad = Connect();
    bad->peer.Send(Encode(MakePut(1, "before", what)));
    bad->peer.Send(message);
    bad->peer.Send(Encode(MakePut(2, "after", "x")));
    t_.PollAll();
    // Expect: what came before is done, what came after is not.
    EXPECT_EQ(t_.ReadKey("before"), what);
    EXPECT_EQ(t_.ReadKey("after"), std::nullopt);
    EXPECT_TRUE(bad->peer.disconnected);
    t_.clock.now_ns += 700'000'000'000;  // what was kept of it need not be kept any more
    ++number;
    ASSERT_EQ(t_.Ask(good, MakePut(number, "good", "v"))->code, Code::kOk);
    EXPECT_EQ(stats().dropped.value(), number);
  }
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
  t_.PollAll();
  EXPECT_EQ(call->peer.sent.size(), 5u);
  // Expect: one that comes when there is room again does not overtake.
  call->peer.send_room = SIZE_MAX;
  call->peer.Send(Encode(MakePut(7, "k", "v")));
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

TEST_F(WorkerTest, DrainAnswersWhatHasArrivedThenDisconnects) {
  FakeCall* call = Connect();
  call->peer.Send(Encode(MakePut(1, "k", "v")));
  t_.worker().BeginDrain(1'000'000'000);
  FakeCall* late = t_.Call(kv::Hello{});
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(TestWorker::RejectOf(late).code, kv::RefusalCode::kShuttingDown);
  EXPECT_EQ(TestWorker::RejectOf(late).text, kShuttingDownReason);
  // Expect: now idle once, so what comes is refused, and remembered as refused.
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

TEST_F(WorkerTest, DrainOfNobodyIsImmediate) {
  t_.worker().BeginDrain(1'000'000'000);
  t_.PollAll();
  EXPECT_TRUE(t_.worker().drained());
}

}  // namespace
}  // namespace farlook::server
