// Fairness: no client costs the others more than its share of a worker, nor keeps more of its memory than its limit.
// Measured in looks, turns and bytes, not in time.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/time_share.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

constexpr uint32_t kWindow = 1024;
// Bytes that one Poll() may receive beyond Shared::max_kept_bytes.
constexpr size_t kMostKept = (128 << 10) + 64 * (4096 + 100);

class WorkerFairTest : public ::testing::Test {
 protected:
  const WorkerStats& stats() { return t_.worker().stats(); }
  // Sends a put of a well-behaved client, and expects that the next Poll() answers it.
  void ExpectServedAtOnce(FakeCall* honest) {
    honest->peer.Send(Encode(MakePut(++honest_number_, "honest", "v")));
    t_.worker().Poll();
    auto reply = TestWorker::TakeReply(honest);
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->number, honest_number_);
  }
  // Returns clients whose send queues are full, each with a waiting answer. The worker sleeps.
  std::vector<FakeCall*> FiftyStuck() {
    std::vector<FakeCall*> stuck;
    for (int i = 0; i < 50; ++i) {
      stuck.push_back(t_.Connect());
      stuck.back()->peer.send_room = 0;
      stuck.back()->peer.Send(Encode(MakePut(1, "k", "v")));
    }
    t_.PollAll();
    while (!t_.worker().Arm()) t_.worker().Poll();
    return stuck;
  }

  TestWorker t_{64 << 20, /*max_kept=*/1000, /*max_clients=*/1000, /*number=*/3, /*users=*/nullptr, kWindow};
  uint64_t honest_number_ = 0;
};

TEST_F(WorkerFairTest, WhoTakesNoRepliesIsNotListenedToBeyondABound) {
  FakeCall* call = t_.Connect();
  const std::string value(3900, 'v');
  t_.Ask(call, MakePut(1, "k", value));
  call->peer.send_room = 0;
  for (uint64_t n = 2; n <= kWindow; ++n) call->peer.Send(Encode(MakeRequest(RequestType::kGet, n, "k")));
  t_.PollAll();
  EXPECT_LE(stats().kept_bytes.value(), kMostKept);
  EXPECT_GT(stats().kept_bytes.value(), 0u);
  EXPECT_EQ(stats().paused_connections.value(), 1u);
  EXPECT_FALSE(call->peer.receiving);
  // Expect: when it reads again, it receives all answers in order.
  for (uint64_t n = 2; n <= kWindow; ++n) {
    if (call->peer.sent.empty()) {
      call->peer.send_room = 7;
      t_.clock.AdvanceMs(1);
      t_.PollAll();
      EXPECT_LE(stats().kept_bytes.value(), kMostKept);
    }
    auto reply = TestWorker::TakeReply(call);
    ASSERT_TRUE(reply.has_value());
    ASSERT_EQ(reply->number, n);
    EXPECT_EQ(reply->payload.size(), value.size());
  }
  EXPECT_EQ(stats().kept_bytes.value(), 0u);
  EXPECT_EQ(stats().paused_connections.value(), 0u);
  EXPECT_TRUE(call->peer.receiving);
}

TEST_F(WorkerFairTest, WritesThatWaitAreBoundedToo) {
  FakeCall* call = t_.Connect();
  call->peer.Send(Encode(t_.MakePulled(1, "k", std::string(5000, 'v'))));
  // The writes wait for the value, which is not read yet.
  const std::string value(3900, 'v');
  for (uint64_t n = 2; n <= kWindow; ++n) call->peer.Send(Encode(MakePut(n, "k", value)));
  t_.PollAll();
  EXPECT_GT(stats().held_writes.value(), 1u);
  EXPECT_LE(stats().kept_bytes.value(), kMostKept);
  EXPECT_EQ(stats().paused_connections.value(), 1u);
  for (int i = 0; i < 10; ++i) {
    TestWorker::ServeReads(call, std::string(5000, 'v'));
    t_.PollAll();
  }
  EXPECT_EQ(call->peer.sent.size(), kWindow);
  EXPECT_EQ(stats().kept_bytes.value(), 0u);
  EXPECT_TRUE(call->peer.receiving);
}

TEST_F(WorkerFairTest, WhatIsKeptGoesWithItsClient) {
  for (const bool breaks : {false, true}) {
    FakeCall* call = t_.Connect();
    const std::string value(3900, 'v');
    t_.Ask(call, MakePut(1, "k", value));
    call->peer.send_room = 0;
    for (uint64_t n = 2; n <= kWindow; ++n) call->peer.Send(Encode(MakeRequest(RequestType::kGet, n, "k")));
    t_.PollAll();
    ASSERT_EQ(stats().paused_connections.value(), 1u);
    if (breaks) {
      call->peer.Break();
    } else {
      t_.Call(TestWorker::HelloAfter(call));  // replaces it
    }
    t_.PollAll();
    EXPECT_EQ(stats().kept_bytes.value(), 0u);
    EXPECT_EQ(stats().paused_connections.value(), 0u);
  }
}

TEST_F(WorkerFairTest, FullSendQueuesAreNotLookedAtByEachPoll) {
  constexpr size_t kStuck = 200, kPolls = 2000;
  FakeCall* honest = t_.Connect();
  std::vector<FakeCall*> stuck;
  for (size_t i = 0; i < kStuck; ++i) {
    stuck.push_back(t_.Connect());
    stuck.back()->peer.send_room = 0;
    stuck.back()->peer.Send(Encode(MakePut(1, "k", "v")));
  }
  t_.PollAll();
  const uint64_t before = stats().looks_at_stuck.value();
  for (size_t i = 0; i < kPolls; ++i) {
    const uint64_t looks = stats().looks_at_stuck.value();
    ExpectServedAtOnce(honest);
    ASSERT_LE(stats().looks_at_stuck.value() - looks, Outbox::kLooks);
    t_.clock.now_ns += 1000;
  }
  // Expect: at most eight looks at each in 2 ms, and not two thousand.
  EXPECT_LE(stats().looks_at_stuck.value() - before, 8 * kStuck);
  // Expect: no connection is forgotten.
  for (FakeCall* call : stuck) call->peer.send_room = SIZE_MAX;
  for (int i = 0; i < 3000; ++i) {
    t_.worker().Poll();
    t_.clock.now_ns += 1000;
  }
  for (FakeCall* call : stuck) EXPECT_EQ(call->peer.sent.size(), 1u);
}

// Free space in any send queue may have ended a sleep; the transport does not say in which.
TEST_F(WorkerFairTest, AfterASleepAllAreLookedAtBeforeTheNext) {
  const std::vector<FakeCall*> stuck = FiftyStuck();
  stuck[40]->peer.send_room = SIZE_MAX;
  for (int i = 0; i < 20; ++i) {
    t_.worker().Poll();
    if (t_.worker().Arm()) break;
  }
  EXPECT_EQ(stuck[40]->peer.sent.size(), 1u);
}

// Regression: due looks at connections that had closed kept the worker from ever sleeping again.
TEST_F(WorkerFairTest, WhoEndsWithAFullSendQueueDoesNotKeepTheWorkerAwake) {
  const std::vector<FakeCall*> stuck = FiftyStuck();
  for (FakeCall* call : stuck) call->peer.Break();
  bool slept = false;
  for (int i = 0; i < 200 && !slept; ++i) {
    t_.worker().Poll();
    slept = t_.worker().Arm();
  }
  EXPECT_EQ(stats().connections.value(), 0u);
  EXPECT_TRUE(slept);
}

class PullTurnsTest : public WorkerFairTest {
 protected:
  static constexpr size_t kValueBytes = 1 << 20;
  PullTurnsTest() {
    t_.local = true;
    t_.max_read_bytes = 1 << 30;
  }
  const std::string value_ = std::string(kValueBytes, 'v');
};

TEST_F(PullTurnsTest, OthersAreServedBetweenTurnsOfBytes) {
  FakeCall* honest = t_.Connect();
  std::vector<FakeCall*> greedy;
  for (int i = 0; i < 4; ++i) greedy.push_back(t_.Connect());
  for (uint64_t n = 1; n <= 4; ++n) {
    for (FakeCall* call : greedy) call->peer.Send(Encode(t_.MakePulled(n, absl::StrCat("k", n), value_)));
  }
  t_.worker().Poll();
  std::vector<uint64_t> bytes(greedy.size());
  uint64_t all = 0;
  for (size_t polls = 0; all < greedy.size() * 4 * kValueBytes; ++polls) {
    ASSERT_LT(polls, 2 * greedy.size() * 4 * kValueBytes / PullQueue::kShortTurnBytes);
    uint64_t now = 0;
    for (size_t i = 0; i < greedy.size(); ++i) {
      for (const FakePeer::Read& read : greedy[i]->peer.reads) {
        bytes[i] += read.bytes;
        now += read.bytes;
      }
      TestWorker::ServeReads(greedy[i], value_);
    }
    all += now;
    // Expect: READs, which this thread would copy, of one turn. The turn is short since another client has requests.
    // All connections get the same.
    ASSERT_LE(now, polls == 0 ? PullQueue::kTurnBytes : PullQueue::kShortTurnBytes);
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    ASSERT_LE(*most - *least, PullQueue::kTurnBytes);
    ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
    ASSERT_LE(stats().longest_shared_turn_bytes.value(), 2 * PullQueue::kShortTurnBytes);
    t_.clock.now_ns += RequestHandler::kOthersNs / 2;
  }
  t_.PollAll();
  for (FakeCall* call : greedy) EXPECT_EQ(call->peer.sent.size(), 4u);
  EXPECT_EQ(t_.ReadKey("k3"), value_);
}

TEST_F(PullTurnsTest, WhoIsAloneHasLongTurnsAndShortOnesWhileOthersHaveRequests) {
  FakeCall* honest = t_.Connect();
  FakeCall* greedy = t_.Connect();
  ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
  greedy->peer.Send(Encode(t_.MakePulled(1, "k", value_)));
  uint64_t turns = 0, reads = 0;
  const auto turn = [&] {
    ++turns;
    t_.worker().Poll();
    const uint64_t bytes = greedy->peer.reads.empty() ? 0 : greedy->peer.reads.front().bytes;
    reads += bytes;
    TestWorker::ServeReads(greedy, value_);
    return bytes;
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(turn(), PullQueue::kShortTurnBytes);
  // Expect: at most a short turn's hashing and copying happens between two looks at requests.
  EXPECT_EQ(stats().longest_turn_bytes.value(), 2 * PullQueue::kShortTurnBytes);
  t_.clock.now_ns += RequestHandler::kOthersNs;
  EXPECT_EQ(turn(), PullQueue::kTurnBytes) << "nobody else is there";
  EXPECT_EQ(turn(), PullQueue::kTurnBytes);
  EXPECT_EQ(stats().longest_turn_bytes.value(), 2 * PullQueue::kTurnBytes);
  EXPECT_EQ(stats().longest_shared_turn_bytes.value(), 2 * PullQueue::kShortTurnBytes);
  ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
  EXPECT_EQ(greedy->peer.reads.front().bytes, PullQueue::kShortTurnBytes) << "at once";
  while (reads < kValueBytes) ASSERT_GT(turn(), 0u);
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(greedy)->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("k"), value_);
}

// A device copies by itself, and much may arrive at once: it is hashed in turns all the same.
TEST_F(WorkerFairTest, WhatADeviceBringsAtOnceIsSummedUpInTurns) {
  t_.max_read_bytes = 64 << 10;
  constexpr size_t kBytes = 128 << 10;  // two READs
  const std::string value(kBytes, 'v');
  FakeCall* honest = t_.Connect();
  std::vector<FakeCall*> greedy;
  for (int i = 0; i < 8; ++i) greedy.push_back(t_.Connect());
  for (FakeCall* call : greedy)
    call->peer.Send(Encode(t_.MakePulled(1, absl::StrCat("k", call->peer.sent.size()), value)));
  t_.PollAll();
  for (FakeCall* call : greedy) TestWorker::ServeReads(call, value);
  // Expect: a megabyte that has arrived is not hashed in one turn.
  for (size_t polls = 0; polls < 8 * kBytes / PullQueue::kShortTurnBytes; ++polls) {
    ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
    ASSERT_LE(stats().longest_turn_bytes.value(), PullQueue::kShortTurnBytes);
  }
  t_.PollAll();
  for (FakeCall* call : greedy) EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
}

TEST_F(PullTurnsTest, AValueThatChangedIsRefusedWhicheverTurnSawIt) {
  FakeCall* call = t_.Connect();
  for (uint64_t n = 1; n <= 17; ++n) {
    std::string changed = value_;
    if (n <= 16) changed[n * (kValueBytes / 16) - 1] = 'x';
    call->peer.Send(Encode(t_.MakePulled(n, "k", value_)));
    for (int i = 0; i < 50; ++i) {
      t_.PollAll();
      TestWorker::ServeReads(call, changed);
    }
    EXPECT_EQ(TestWorker::TakeReply(call)->code, n <= 16 ? Code::kBadValue : Code::kOk) << n;
  }
}

TEST_F(WorkerFairTest, OneArrivalIsLetInBetweenTwoLooks) {
  FakeCall* honest = t_.Connect();
  const uint64_t accepted = stats().accepted.value();
  for (int i = 0; i < 40; ++i) t_.Call(kv::Hello{});
  EXPECT_EQ(t_.worker().waiting(), 40u);
  for (uint64_t n = 1; n <= 40; ++n) {
    ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
    EXPECT_EQ(stats().accepted.value(), accepted + n);
  }
  EXPECT_EQ(t_.worker().waiting(), 0u);
}

// Each of three actions advances the clock by a step: admitting a client, greeting it, and cleaning up after it.
TEST_F(WorkerFairTest, WhoComesAndGoesGetsAShareOfTheTimeWhileOthersHaveRequests) {
  constexpr int64_t kStepNs = 20'000;
  constexpr uint64_t kClients = 100;
  FakeCall* honest = t_.Connect();
  const uint64_t accepted = stats().accepted.value();
  t_.clock.step_ns = kStepNs;
  for (const bool leave : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
    const int64_t start_ns = t_.clock.now_ns;
    const uint64_t before = stats().accepted.value();
    std::deque<FakeCall*> calls;
    for (uint64_t i = 0; i < kClients; ++i) calls.push_back(t_.Call(kv::Hello{}));
    uint64_t gone = 0;
    while (stats().accepted.value() < before + kClients || gone < (leave ? kClients : 0)) {
      ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
      if (leave && !calls.empty() && TestWorker::Welcome(calls.front())) {
        calls.front()->peer.Break();
        calls.pop_front();
        ++gone;
      }
      ASSERT_LT(t_.clock.now_ns - start_ns, 1'000'000'000) << "all are let in";
    }
    const auto work_ns = static_cast<int64_t>(kClients - 1) * (leave ? 3 : 2) * kStepNs;
    EXPECT_GE(t_.clock.now_ns - start_ns, TimeShare::kParts * work_ns) << leave;
  }
  // Expect: no client waits if no other one needs the time.
  t_.clock.step_ns = 0;
  t_.clock.now_ns += RequestHandler::kOthersNs;
  t_.PollAll();
  t_.clock.step_ns = kStepNs;
  for (int i = 0; i < 40; ++i) t_.Call(kv::Hello{});
  for (size_t waiting = 40; waiting > 0; --waiting) {
    EXPECT_EQ(t_.worker().waiting(), waiting);
    t_.worker().Poll();
  }
  EXPECT_EQ(stats().accepted.value(), accepted + 2 * kClients + 40);
}

// This holds however short each action is. A request takes some steps of the clock here, as it would at a microsecond.
TEST_F(WorkerFairTest, OfAHundredRequestsLessThanOneMeetsWhoComesOrGoes) {
  constexpr uint64_t kClients = 20, kThings = 3;  // admitting, greeting, cleaning up
  FakeCall* honest = t_.Connect();
  t_.clock.step_ns = 300;
  std::deque<FakeCall*> calls;
  for (uint64_t i = 0; i < kClients; ++i) calls.push_back(t_.Call(kv::Hello{}));
  ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
  const int64_t start_ns = t_.clock.now_ns;
  uint64_t requests = 0;
  while (!calls.empty()) {
    ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
    ++requests;
    if (!TestWorker::Welcome(calls.front())) continue;
    calls.front()->peer.Break();
    calls.pop_front();
    ASSERT_LT(requests, 1000 * kThings * kClients) << "all are let in";
  }
  EXPECT_LE((t_.clock.now_ns - start_ns) / static_cast<int64_t>(requests), 2000) << "else this shows nothing";
  EXPECT_GE(requests, 100 * kThings * (kClients - 1));
}

// A worker that sleeps while clients wait for their share is due in time.
TEST_F(WorkerFairTest, WhoWaitsForItsShareIsLetInThoughNothingElseHappens) {
  FakeCall* honest = t_.Connect();
  t_.clock.step_ns = 100'000;
  ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
  t_.Call(kv::Hello{});
  t_.worker().Poll();
  for (int i = 0; i < 3; ++i) t_.worker().Poll();
  ASSERT_NO_FATAL_FAILURE(ExpectServedAtOnce(honest));
  t_.clock.step_ns = 0;
  t_.Call(kv::Hello{});
  while (t_.worker().Poll() > 0) {
  }
  ASSERT_EQ(t_.worker().waiting(), 1u);
  EXPECT_TRUE(t_.worker().Arm()) << "it need not look before";
  ASSERT_LT(t_.worker().due_ns(), Worker::kNever);
  t_.clock.now_ns = t_.worker().due_ns();
  t_.worker().Poll();
  EXPECT_EQ(t_.worker().waiting(), 0u);
}

TEST_F(WorkerFairTest, WhoStoppedWithinAnAtomicIsLookedAtAFewAtATime) {
  std::vector<FakeCall*> stopped;
  for (uint64_t i = 0; i < 100; ++i) {
    FakeCall* call = t_.Connect();
    t_.Ask(call, MakeRequest(RequestType::kCounterCreate, 1, absl::StrCat("c", i)));
    call->peer.quiescent = false;
    call->peer.Break();
    stopped.push_back(call);
  }
  t_.PollAll();
  EXPECT_EQ(t_.quota.taken(), 100);
  const auto looks = [&stopped] {
    size_t sum = 0;
    for (const FakeCall* call : stopped) sum += call->peer.quiescent_looks;
    return sum;
  };
  for (int ms = 0; ms < 5000; ++ms) {
    const size_t before = looks();
    t_.clock.AdvanceMs(1);
    t_.worker().Poll();
    ASSERT_LE(looks() - before, 8u);
  }
  // Expect: each of them is counted, and disappears when it has left the atomic.
  for (FakeCall* call : stopped) call->peer.quiescent = true;
  for (int ms = 0; ms < 6000; ++ms) {
    t_.clock.AdvanceMs(1);
    t_.worker().Poll();
  }
  EXPECT_EQ(t_.quota.taken(), 0);
}

TEST(WorkerKeptSessionsTest, WhoOnlyReadsTakesNoRoomFromWhoWrote) {
  TestWorker t(32 << 20, /*max_kept=*/1);
  FakeCall* writer = t.Connect();
  t.Ask(writer, MakePut(1, "k", "v"));
  writer->peer.Break();
  t.PollAll();
  for (int i = 0; i < 600; ++i) {
    FakeCall* reader = t.Connect(/*read_only=*/true);
    ASSERT_TRUE(TestWorker::Welcome(reader));
    t.Ask(reader, MakeRequest(RequestType::kGet, 1, "k"));
    reader->peer.Break();
    t.PollAll();
  }
  EXPECT_EQ(t.worker().stats().kept_sessions.value(), 1u);
  FakeCall* again = t.Call(TestWorker::HelloAfter(writer));
  t.PollAll();
  EXPECT_NE(TestWorker::WelcomeOf(again).flags & kv::Welcome::kResumed, 0u);
  EXPECT_EQ(t.Ask(again, MakePut(1, "k", "v"))->code, Code::kOk);
  EXPECT_EQ(t.table().stats().puts, 1u);
}

}  // namespace
}  // namespace farlook::server
