// Sessions: begin, resumption and end, and which connections are dropped.
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kv/wire/fields.h"
#include "server/worker/worker_testing.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::Condition;
using kv::RequestType;

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
  // Expect: the old connection is disconnected, and nothing of it is executed. The new one waits for it, however long.
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
  EXPECT_EQ(t_.quota.taken(), 1);
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
  // Expect: the client that they impersonate is not disturbed.
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
  EXPECT_EQ(t_.quota.taken(), 0);
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

TEST(WorkerLimitsTest, AClientThatLeavesSessionsBehindKeepsNoWriterOutAndEvictsItsOwn) {
  TestWorker t(32 << 20, /*max_kept=*/4);
  const auto connect_as = [&t](int64_t pid, uint32_t uid, const kv::Hello& hello) {
    FakeCall* const call = t.CallSilently(hello);
    call->credentials = rdma::PeerCredentials{.pid = pid, .uid = uid, .gids = {}};
    call->first = hello.Encode();
    t.PollAll();
    return call;
  };
  FakeCall* const victim = connect_as(1, 1000, {});
  t.Ask(victim, MakePut(1, "k", "v"));
  victim->peer.Break();
  t.PollAll();
  for (int i = 0; i < 100; ++i) {
    FakeCall* const call = connect_as(2, 1001, {});
    ASSERT_TRUE(TestWorker::Welcome(call)) << i;
    t.Ask(call, MakePut(1, "l", "v"));
    call->peer.Break();
    t.PollAll();
  }
  EXPECT_EQ(t.worker().stats().kept_sessions.value(), 4u);
  FakeCall* const next = connect_as(1, 1000, TestWorker::HelloAfter(victim));
  EXPECT_EQ(TestWorker::WelcomeOf(next).flags, kv::Welcome::kResumed);
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

// A flood of silent connections, on a server without --users.
TEST(WorkerLimitsTest, SilentConnectionsMakeRoomForThoseThatCome) {
  TestWorker t(32 << 20, 16, /*max_clients=*/4);
  std::vector<FakeCall*> silent;
  for (int i = 0; i < 4; ++i) {
    silent.push_back(t.CallSilently());
    t.PollAll();
    ASSERT_TRUE(silent.back()->accepted);
  }
  // Expect: they keep their places at first; then each makes room for a new one, the oldest first.
  EXPECT_EQ(TestWorker::RejectOf(t.Connect()).code, kv::RefusalCode::kFull);
  t.clock.AdvanceMs(5);
  for (size_t i = 0; i < 4; ++i) {
    FakeCall* const call = t.Connect();
    ASSERT_TRUE(call->accepted) << i;
    EXPECT_TRUE(TestWorker::Welcome(call)) << i;
    EXPECT_TRUE(silent[i]->peer.disconnected) << i;
  }
  EXPECT_EQ(t.quota.taken(), 4);
  EXPECT_EQ(t.worker().stats().silent_drops.value(), 4u);
  // Expect: a welcome client keeps its place.
  t.clock.AdvanceMs(1000);
  EXPECT_EQ(TestWorker::RejectOf(t.Connect()).code, kv::RefusalCode::kFull);
}

TEST(WorkerLimitsTest, AFullServerLetsProbesInEachForAMoment) {
  TestWorker t(32 << 20, 16, /*max_clients=*/1);
  FakeCall* const client = t.Connect();
  std::vector<FakeCall*> probes;
  for (size_t i = 0; i < ConnectionQuota::kForProbes; ++i) {
    probes.push_back(t.CallAsOperator());
    t.PollAll();
    ASSERT_TRUE(TestWorker::Welcome(probes.back()));
    EXPECT_EQ(t.Ask(probes.back(), MakeRequest(kv::RequestType::kPing, 1))->code, Code::kOk);
    EXPECT_EQ(t.Ask(probes.back(), MakePut(2, "k", "v"))->code, Code::kReadOnly);
  }
  FakeCall* const early = t.CallAsOperator();
  t.PollAll();
  EXPECT_EQ(TestWorker::RejectOf(early).code, kv::RefusalCode::kFull);
  // Expect: a probe that stays does not block other probes.
  for (int i = 0; i < 10; ++i) {
    t.clock.AdvanceMs(50);
    FakeCall* const probe = t.CallAsOperator();
    t.PollAll();
    ASSERT_TRUE(TestWorker::Welcome(probe)) << i;
    EXPECT_TRUE(probes.front()->peer.disconnected);
    probes.erase(probes.begin());
    probes.push_back(probe);
  }
  EXPECT_EQ(t.quota.taken(), 1);
  EXPECT_FALSE(client->peer.disconnecting);
  EXPECT_EQ(t.worker().stats().dropped.value(), 0u);
  // Expect: a probe that disconnects leaves its place to the next.
  probes.front()->peer.Break();
  t.PollAll();
  FakeCall* const next = t.CallAsOperator();
  t.PollAll();
  EXPECT_TRUE(TestWorker::Welcome(next));
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
  EXPECT_EQ(t_.quota.taken(), 1) << "it counts as a client";
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
  EXPECT_EQ(t_.quota.taken(), 1);
}

TEST_F(WorkerTest, AServerThatStoodStillDropsNobodyWhoSpokeMeanwhile) {
  FakeCall* other = Connect();
  FakeCall* late = t_.CallSilently();
  t_.PollAll();
  // The process is suspended within a request; the Hello arrives before it continues.
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
  EXPECT_EQ(t_.quota.taken(), 0);
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
  EXPECT_EQ(t_.quota.taken(), 0);
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
  kv::RequestOptions create;
  create.create = true;
  char options[kv::RequestOptions::kMaxBytes];
  for (kv::Request request :
       {MakePut(1, "key", "value"), t.MakePulled(1, "key", "value"), MakeRequest(RequestType::kDelete, 1, "key"),
        MakeRequest(RequestType::kTouch, 1, "key")}) {
    request.options = {options, create.Encode(options)};
    bad.emplace_back("an option of another request", Encode(request));
  }
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
    // Expect: requests before it are executed, those after it are not.
    EXPECT_EQ(t_.ReadKey("before"), what);
    EXPECT_EQ(t_.ReadKey("after"), std::nullopt);
    EXPECT_TRUE(bad->peer.disconnected);
    t_.clock.now_ns += 700'000'000'000;  // its session need not be kept any more
    ++number;
    ASSERT_EQ(t_.Ask(good, MakePut(number, "good", "v"))->code, Code::kOk);
    EXPECT_EQ(stats().dropped.value(), number);
  }
}

}  // namespace
}  // namespace farlook::server
