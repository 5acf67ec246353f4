// Tests that a group's primary keeps bounded memory while its members do not commit, or too few are in sync.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "server/replication/commit_gate.h"
#include "server/replication/serving.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

// A stream whose records the members accept when the test says so.
class StalledStream final : public RecordStream {
 public:
  uint64_t Append(absl::Span<const cluster::Record> appended, Growth /*growth*/) override {
    return records += appended.size();
  }
  uint64_t committed() const override { return accepted; }

  uint64_t records = 0;
  uint64_t accepted = 0;
};

class WorkerGroupTest : public ::testing::Test {
 protected:
  static constexpr int kRepeats = 2000;

  WorkerGroupTest() {
    serving_.Announce({.primary = "shm:///a", .members = "shm:///a", .epoch = 3, .lease_us = 1000, .cluster = "kv"});
    serving_.Set(true);
  }

  void AcceptAll() {
    stream_.accepted = stream_.records;
    t_.gate().notifier()->NotifyTurn();
    t_.PollAll();
  }
  void SetTakesWrites(bool takes) {
    serving_.SetTakesWrites(takes);
    t_.gate().notifier()->NotifyTurn();
    t_.PollAll();
  }
  void Send(FakeCall* call, const kv::Request& request) {
    call->peer.Send(Encode(request));
    t_.PollAll();
  }
  static int TakeAll(FakeCall* call) {
    int messages;
    return static_cast<int>(TakeReplies(call, &messages).size());
  }
  uint64_t kept_bytes() { return t_.worker().stats().kept_bytes.value(); }

  Serving serving_;
  StalledStream stream_;
  TestWorker t_{
      32 << 20, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &stream_, 0, nullptr, [this](Shared* shared) {
        shared->serving = &serving_;
      }};
};

TEST_F(WorkerGroupTest, AWithheldReplyIsKeptOnceHoweverOftenItIsAskedFor) {
  FakeCall* const call = t_.Connect();
  Send(call, MakePut(1, "key", "value"));
  AcceptAll();
  ASSERT_EQ(TakeAll(call), 1);
  SetTakesWrites(false);
  for (int i = 0; i < kRepeats; ++i) Send(call, MakePut(1, "key", "value"));
  // Expect: no acknowledgement, and one reply kept, which the figures count.
  EXPECT_EQ(TakeAll(call), 0);
  EXPECT_GT(kept_bytes(), 0u);
  EXPECT_LT(kept_bytes(), 1000u);
  SetTakesWrites(true);
  EXPECT_EQ(TakeAll(call), 1);
  EXPECT_EQ(kept_bytes(), 0u);
  // Expect: the same again the next time.
  SetTakesWrites(false);
  Send(call, MakePut(1, "key", "value"));
  EXPECT_EQ(TakeAll(call), 0);
  SetTakesWrites(true);
  EXPECT_EQ(TakeAll(call), 1);
}

TEST_F(WorkerGroupTest, WithheldRepliesOfAConnectionThatEndsAreGivenBack) {
  FakeCall* const call = t_.Connect();
  Send(call, MakePut(1, "key", "value"));
  AcceptAll();
  SetTakesWrites(false);
  Send(call, MakePut(1, "key", "value"));
  EXPECT_GT(kept_bytes(), 0u);
  call->peer.Break();
  t_.PollAll();
  EXPECT_EQ(kept_bytes(), 0u);
  SetTakesWrites(true);
}

TEST_F(WorkerGroupTest, AReadThatWaitsForTheGroupIsKeptOnceHoweverOftenItIsAskedFor) {
  FakeCall* const call = t_.Connect();
  Send(call, MakeRequest(RequestType::kGet, 1, "absent"));
  AcceptAll();
  ASSERT_EQ(TakeAll(call), 1);
  for (int i = 0; i < kRepeats; ++i) Send(call, MakeRequest(RequestType::kGet, 1, "absent"));
  EXPECT_EQ(TakeAll(call), 0);
  EXPECT_GT(kept_bytes(), 0u);
  EXPECT_LT(kept_bytes(), 1000u);
  AcceptAll();
  EXPECT_EQ(TakeAll(call), 1);
  EXPECT_EQ(kept_bytes(), 0u);
  // Expect: the client can send it again.
  Send(call, MakeRequest(RequestType::kGet, 1, "absent"));
  AcceptAll();
  EXPECT_EQ(TakeAll(call), 1);
}

TEST_F(WorkerGroupTest, AConnectionThatEndsGivesBackWhatWaitsForTheGroup) {
  FakeCall* const call = t_.Connect();
  Send(call, MakePut(1, "key", "value"));
  EXPECT_GT(kept_bytes(), 0u);
  const kv::Hello hello = TestWorker::HelloAfter(call);
  call->peer.Break();
  t_.PollAll();
  EXPECT_EQ(kept_bytes(), 0u);
  // Expect: if the next connection sends it again, the reply goes there.
  FakeCall* const next = t_.Call(hello);
  t_.PollAll();
  Send(next, MakePut(1, "key", "value"));
  EXPECT_GT(kept_bytes(), 0u);
  AcceptAll();
  EXPECT_EQ(TakeAll(next), 1);
  EXPECT_EQ(kept_bytes(), 0u);
}

TEST_F(WorkerGroupTest, ReadsOfSessionsThatHaveEndedDoNotWaitForTheGroup) {
  t_.Connect();  // stays, so that what is unfinished keeps the worker from draining
  for (int i = 0; i < 10; ++i) {
    FakeCall* const call = t_.Connect(/*read_only=*/true);
    Send(call, MakeRequest(RequestType::kGet, 1, absl::StrCat("key", i)));
    call->peer.Break();
    t_.PollAll();
  }
  t_.worker().BeginDrain(t_.clock.now_ns + 1'000'000'000'000);
  for (int i = 0; i < 100 && !t_.worker().drained(); ++i) {
    t_.clock.AdvanceMs(10);
    t_.PollAll();
  }
  EXPECT_TRUE(t_.worker().drained());
}

}  // namespace
}  // namespace farlook::server
