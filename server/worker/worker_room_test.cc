// Writes that wait for room: a worker executes other requests in between.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/executor/room_turns.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

class WorkerRoomTest : public ::testing::Test {
 protected:
  const WorkerStats& stats() { return t_.worker().stats(); }
  void NeedSteps(uint64_t n) { t_.table().PretendToMakeRoom(n); }
  // Sends without waiting for the answer.
  void Send(FakeCall* call, const kv::Request& request) {
    call->peer.Send(Encode(request));
    t_.worker().Poll();
  }

  TestWorker t_;
};

TEST_F(WorkerRoomTest, APutWaitsAndIsAnswered) {
  FakeCall* call = t_.Connect();
  NeedSteps(5);
  Send(call, MakePut(1, "k", "v"));
  EXPECT_EQ(TestWorker::TakeReply(call), std::nullopt);
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
  EXPECT_EQ(stats().waiting_for_room.value(), 1u);
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("k"), "v");
  EXPECT_EQ(stats().waits_for_room.value(), 1u);
  EXPECT_EQ(stats().room_steps.value(), 5u);
  EXPECT_EQ(stats().waiting_for_room.value(), 0u);
}

TEST_F(WorkerRoomTest, OthersAreServedInBetween) {
  FakeCall* call = t_.Connect();
  FakeCall* other = t_.Connect();
  t_.Ask(other, MakePut(1, "o", "v"));
  NeedSteps(100);
  Send(call, MakePut(1, "k", "v"));
  for (uint64_t n = 2; n < 10; ++n) {
    Send(other, MakeRequest(RequestType::kGet, n, "o"));
    EXPECT_EQ(TestWorker::TakeReply(other)->payload, "v");
  }
  EXPECT_EQ(TestWorker::TakeReply(call), std::nullopt);
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
}

TEST_F(WorkerRoomTest, WritesOfASessionToOneKeyKeepTheirOrder) {
  FakeCall* call = t_.Connect();
  NeedSteps(3);
  call->peer.Send(Encode(MakePut(1, "k", "first")));
  call->peer.Send(Encode(MakePut(2, "k", "second")));
  call->peer.Send(Encode(MakeRequest(RequestType::kDelete, 3, "k")));
  call->peer.Send(Encode(MakePut(4, "k", "last", kv::Condition::kAbsent)));
  const std::string pulled(2000, 'p');
  call->peer.Send(Encode(t_.MakePulled(5, "k", pulled)));
  t_.PollAll();
  TestWorker::ServeReads(call, pulled);
  t_.PollAll();
  TestWorker::ServeReads(call, pulled);
  t_.PollAll();
  for (uint64_t n = 1; n <= 5; ++n) {
    const auto reply = TestWorker::TakeReply(call);
    ASSERT_TRUE(reply) << n;
    EXPECT_EQ(reply->number, n);
    EXPECT_EQ(reply->code, Code::kOk);
  }
  EXPECT_EQ(t_.ReadKey("k"), pulled);
  EXPECT_EQ(stats().held_writes.value(), 4u);
}

TEST_F(WorkerRoomTest, APulledValueWaitsBeforeItIsReadAndBeforeItIsPublished) {
  FakeCall* call = t_.Connect();
  const std::string value(3000, 'v');
  NeedSteps(4);
  Send(call, t_.MakePulled(1, "k", value));
  EXPECT_TRUE(call->peer.reads.empty());
  t_.PollAll();
  EXPECT_FALSE(call->peer.reads.empty());
  for (int i = 0; i < 3; ++i) {
    NeedSteps(4);
    TestWorker::ServeReads(call, value);
    t_.PollAll();
  }
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("k"), value);
  EXPECT_EQ(stats().waits_for_room.value(), 1u);
  EXPECT_GE(stats().room_steps.value(), 8u);
}

TEST_F(WorkerRoomTest, ItIsNotLostWhenItsConnectionGoes) {
  for (const bool pulled : {false, true}) {
    FakeCall* call = t_.Connect();
    const std::string value(pulled ? 500 : 5, 'v');
    const kv::Request put = pulled ? t_.MakePulled(1, "k", value) : MakePut(1, "k", value);
    NeedSteps(1'000);
    Send(call, put);
    Send(call, MakePut(2, "k", "later"));
    call->peer.Break();
    t_.PollAll();
    EXPECT_EQ(stats().waiting_for_room.value(), 0u);
    NeedSteps(0);
    EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
    // Expect: if it is sent again over the next connection, it is executed once.
    FakeCall* next = t_.Call(TestWorker::HelloAfter(call));
    t_.PollAll();
    ASSERT_TRUE(TestWorker::Welcome(next));
    Send(next, put);
    t_.PollAll();
    TestWorker::ServeReads(next, value);
    t_.PollAll();
    EXPECT_EQ(TestWorker::TakeReply(next)->code, Code::kOk);
    EXPECT_EQ(t_.ReadKey("k"), value);
    t_.Ask(next, MakeRequest(RequestType::kDelete, 2 + 1, "k"));
  }
}

// A pulled value that has arrived and waits for room in the index is cut, not refused.
TEST_F(WorkerRoomTest, AValueThatArrivedIsSentAgainWhenItsConnectionGoes) {
  FakeCall* call = t_.Connect();
  const std::string value(500, 'v');
  Send(call, t_.MakePulled(1, "k", value));
  t_.PollAll();
  NeedSteps(1'000);
  TestWorker::ServeReads(call, value);
  t_.worker().Poll();
  call->peer.Break();
  t_.PollAll();
  NeedSteps(0);
  FakeCall* next = t_.Call(TestWorker::HelloAfter(call));
  t_.PollAll();
  EXPECT_EQ(t_.PutPulled(next, 1, "k", value)->code, Code::kOk);
  EXPECT_EQ(stats().cut_pulls.value(), 1u);
}

TEST_F(WorkerRoomTest, TheDeadlineBoundsTheWait) {
  for (const bool pulled : {false, true}) {
    FakeCall* call = t_.Connect();
    kv::Request put = pulled ? t_.MakePulled(1, "k", "v") : MakePut(1, "k", "v");
    put.deadline_us = t_.ShownTime() + 5'000;
    NeedSteps(1'000'000);
    Send(call, put);
    for (int i = 0; i < 100; ++i) t_.worker().Poll();
    EXPECT_EQ(TestWorker::TakeReply(call), std::nullopt);
    t_.clock.now_ns += 6'000'000;
    t_.PollAll();
    EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kExpired);
    EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
  }
}

TEST_F(WorkerRoomTest, WithoutADeadlineTheWaitHasABoundToo) {
  for (const bool pulled : {false, true}) {
    FakeCall* call = t_.Connect();
    NeedSteps(1'000'000);
    Send(call, pulled ? t_.MakePulled(1, "k", "v") : MakePut(1, "k", "v"));
    for (int i = 0; i < 100; ++i) t_.worker().Poll();
    t_.clock.now_ns += kLongestRoomWaitNs;
    t_.PollAll();
    EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kNoMemory);
    EXPECT_GE(stats().longest_room_wait_us.value(), uint64_t{kLongestRoomWaitNs / 1000});
  }
}

TEST_F(WorkerRoomTest, AServerThatStopsRefusesWhatStillWaits) {
  FakeCall* call = t_.Connect();
  NeedSteps(1'000'000);
  Send(call, MakePut(1, "k", "v"));
  t_.worker().BeginDrain(t_.clock.now_ns + 1'000'000'000);
  for (int i = 0; i < 200 && !t_.worker().drained(); ++i) {
    t_.clock.now_ns += 1'000'000;
    t_.worker().Poll();
  }
  EXPECT_TRUE(t_.worker().drained());
  const auto reply = TestWorker::TakeReply(call);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->code, Code::kShuttingDown);
}

TEST_F(WorkerRoomTest, ManyWaitingClientsTakeTurns) {
  std::vector<FakeCall*> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(t_.Connect());
  FakeCall* other = t_.Connect();
  NeedSteps(1'000'000);
  for (FakeCall* call : calls) {
    for (uint64_t n = 1; n <= kTestWindow; ++n) call->peer.Send(Encode(MakePut(n, absl::StrCat("k", n), "v")));
  }
  // Expect: each batch of requests is followed by one step at most.
  const uint64_t before = stats().room_steps.value();
  t_.worker().Poll();
  t_.worker().Poll();
  EXPECT_LE(stats().room_steps.value(), before + 2);
  Send(other, MakeRequest(RequestType::kPing, 1));
  EXPECT_EQ(TestWorker::TakeReply(other)->code, Code::kOk);
  NeedSteps(0);
  t_.PollAll();
  for (FakeCall* call : calls) {
    for (uint64_t n = 1; n <= kTestWindow; ++n) EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  }
}

TEST_F(WorkerRoomTest, ACounterWaitsForItsItem) {
  FakeCall* call = t_.Connect();
  NeedSteps(3);
  Send(call, MakeRequest(RequestType::kCounterCreate, 1, "c"));
  EXPECT_EQ(TestWorker::TakeReply(call), std::nullopt);
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(t_.counters().stats().counters, 1u);
}

}  // namespace
}  // namespace farlook::server
