// Pulled values, seen from the client's side of the transport: through a worker.

#include "server/executor/pull_queue.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::Condition;
using kv::RequestType;
using rdma::WcStatus;

std::string Value(size_t bytes, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::string value(bytes + 8, '\0');
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = random();
    std::memcpy(value.data() + i, &word, sizeof word);
  }
  value.resize(bytes);
  return value;
}

class PullTest : public ::testing::Test {
 protected:
  const WorkerStats& stats() { return t_.worker().stats(); }
  void Start(FakeCall* call, const kv::Request& request) {
    call->peer.Send(Encode(request));
    t_.PollAll();
  }
  // Puts values until the memory is full, then deletes them. Returns how many fit. Filling again shows a leak: all
  // bytes that the table does not report as used for live items must be free. When it is empty, these are all except
  // the index and the open pages of slabs.
  int PutsThatFit(FakeCall* call, uint64_t number, size_t bytes) {
    const std::string value = Value(bytes);
    int puts = 0;
    for (;; ++puts) {
      auto reply = t_.PutPulled(call, number++, absl::StrCat("fill", puts), value);
      if (!reply || reply->code != Code::kOk) break;
    }
    for (int i = 0; i < puts; ++i) t_.Ask(call, MakeRequest(RequestType::kDelete, number++, absl::StrCat("fill", i)));
    next_number_ = number;
    return puts;
  }

  TestWorker t_;
  uint64_t next_number_ = 1;
};

TEST_F(PullTest, ValuesOfAllLengthsArrive) {
  FakeCall* call = t_.Connect();
  uint64_t number = 0;
  for (size_t bytes : {0, 1, 7, 8, 9, 1023, 1024, 1025, 2048, 5000, 100'000, 3'000'000}) {
    SCOPED_TRACE(bytes);
    const std::string value = Value(bytes);
    auto reply = t_.PutPulled(call, ++number, "key", value);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->code, Code::kOk);
    EXPECT_EQ(t_.ReadKey("key"), value);
  }
  EXPECT_EQ(stats().pulls.value(), number);
  EXPECT_EQ(stats().requests[static_cast<size_t>(RequestType::kPutPulled)].value(), number);
}

TEST_F(PullTest, ReadsKeepToTheLimitsOfTheConnection) {
  FakeCall* call = t_.Connect();  // 1,024 bytes, 2 READs
  const std::string value = Value(5000);
  Start(call, t_.MakePulled(1, "key", value));
  uint64_t at = TestWorker::kValueAddress;
  while (!call->peer.reads.empty()) {
    EXPECT_LE(call->peer.reads.size(), 2u);
    const FakePeer::Read read = call->peer.reads.front();
    EXPECT_EQ(read.remote_address, at);
    EXPECT_EQ(read.rkey, 5u);
    EXPECT_LE(read.bytes, 1024u);
    EXPECT_EQ(t_.ReadKey("key"), std::nullopt);  // Expect: nothing is visible before all has arrived
    at += read.bytes;
    call->peer.CompleteRead(absl::string_view(value).substr(read.remote_address - 64, read.bytes));
    t_.PollAll();
  }
  EXPECT_EQ(at, 64 + value.size());
  EXPECT_EQ(t_.ReadKey("key"), value);
}

TEST_F(PullTest, ReadsMayCompleteInAnyOrder) {
  FakeCall* call = t_.Connect();
  const std::string value = Value(2048);
  Start(call, t_.MakePulled(1, "key", value));
  ASSERT_EQ(call->peer.reads.size(), 2u);
  std::swap(call->peer.reads[0], call->peer.reads[1]);
  TestWorker::ServeReads(call, value);
  t_.PollAll();
  EXPECT_EQ(t_.ReadKey("key"), value);
}

// The first READ completes last. READs behind it are hashed after it, and their number is limited.
TEST_F(PullTest, AReadMayBeLate) {
  FakeCall* call = t_.Connect();
  const std::string value = Value(200 * 1024 + 24);
  Start(call, t_.MakePulled(1, "key", value));
  const FakePeer::Read late = call->peer.reads.front();
  size_t others = 0;
  while (call->peer.reads.size() > 1) {
    std::rotate(call->peer.reads.begin(), call->peer.reads.begin() + 1, call->peer.reads.end());
    const FakePeer::Read& read = call->peer.reads.front();
    ASSERT_NE(read.remote_address, late.remote_address);
    call->peer.CompleteRead(absl::string_view(value).substr(read.remote_address - 64, read.bytes));
    t_.PollAll();
    ++others;
  }
  EXPECT_EQ(others, PullQueue::kMaxAhead - 1);
  EXPECT_EQ(t_.ReadKey("key"), std::nullopt);
  TestWorker::ServeReads(call, value);
  t_.PollAll();
  while (!call->peer.reads.empty()) {
    TestWorker::ServeReads(call, value);
    t_.PollAll();
  }
  EXPECT_EQ(t_.ReadKey("key"), value);
}

// Values arrive while another thread holds the partition's lock, and an arriving value does not hold the lock.
TEST_F(PullTest, TheLockIsNotTakenBeforeAllIsSummed) {
  FakeCall* call = t_.Connect();
  const std::string value = Value(100 * 1024);
  Start(call, t_.MakePulled(1, "key", value));
  kv::PartitionLock* const mutex = t_.locks().of(t_.table().HashOf("key"));
  size_t reads = 0;
  while (!call->peer.reads.empty()) {
    const auto serve = [&] {
      const FakePeer::Read read = call->peer.reads.front();
      call->peer.CompleteRead(absl::string_view(value).substr(read.remote_address - 64, read.bytes));
      t_.PollAll();
    };
    if (++reads == 100) {
      serve();
    } else {
      kv::LockedPartition lock(mutex);  // deadlocks if serving takes the lock
      serve();
    }
  }
  EXPECT_EQ(reads, 100u);
  EXPECT_EQ(t_.ReadKey("key"), value);
}

TEST_F(PullTest, AWrongHashIsABadValue) {
  FakeCall* call = t_.Connect();
  t_.Ask(call, MakePut(1, "key", "old"));
  kv::Request request = t_.MakePulled(2, "key", Value(100));
  request.source.hash ^= 1;
  Start(call, request);
  TestWorker::ServeReads(call, Value(100));
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kBadValue);
  EXPECT_EQ(t_.ReadKey("key"), "old");
  EXPECT_EQ(stats().failed_pulls.value(), 1u);
  EXPECT_FALSE(call->peer.disconnecting);
}

TEST_F(PullTest, ABufferThatChangesMeanwhileIsABadValue) {
  FakeCall* call = t_.Connect();
  const std::string value = Value(2048);
  Start(call, t_.MakePulled(1, "key", value));
  call->peer.CompleteRead(absl::string_view(value).substr(0, 1024));
  call->peer.CompleteRead(Value(1024, 2));
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kBadValue);
  EXPECT_EQ(t_.ReadKey("key"), std::nullopt);
}

TEST_F(PullTest, ARefusedReadIsABadValue) {
  for (WcStatus status : {WcStatus::kRemoteAccess, WcStatus::kLocalError}) {
    FakeCall* call = t_.Connect();
    Start(call, t_.MakePulled(1, "key", Value(5000)));
    ASSERT_EQ(call->peer.reads.size(), 2u);
    call->peer.FailRead(status);
    t_.PollAll();
    EXPECT_FALSE(TestWorker::TakeReply(call)) << "a READ is still posted";
    EXPECT_EQ(call->peer.reads.size(), 1u) << "no more READs for a value that is lost";
    call->peer.CompleteRead(Value(1024));
    t_.PollAll();
    EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kBadValue);
    EXPECT_EQ(t_.Ask(call, t_.MakePulled(1, "key", Value(5000)))->code, Code::kBadValue);
  }
  EXPECT_EQ(t_.ReadKey("key"), std::nullopt);
}

TEST_F(PullTest, TooLargeAndNoMemoryAreAnsweredWithoutARead) {
  FakeCall* call = t_.Connect();
  kv::Request request = t_.MakePulled(1, "key", "");
  request.value_bytes = kv::kDefaultMaxValueBytes + 1;
  EXPECT_EQ(t_.Ask(call, request)->code, Code::kTooLarge);
  request.number = 2;
  request.value_bytes = UINT32_MAX;
  EXPECT_EQ(t_.Ask(call, request)->code, Code::kTooLarge);
  // Expect: the region of 32 MiB holds one value of 16 MiB, not two.
  request.value_bytes = 16 << 20;
  request.number = 3;
  EXPECT_FALSE(t_.Ask(call, request));
  request.number = 4;
  request.key = "other";
  EXPECT_EQ(t_.Ask(call, request)->code, Code::kNoMemory);
}

TEST_F(PullTest, TheConditionIsCheckedWhenTheValueIsThere) {
  FakeCall* call = t_.Connect();
  kv::Request request = t_.MakePulled(1, "key", Value(100));
  request.condition = Condition::kAbsent;
  Start(call, request);
  t_.Ask(t_.Connect(), MakePut(1, "key", "quicker"));
  TestWorker::ServeReads(call, Value(100));
  t_.PollAll();
  auto reply = TestWorker::TakeReply(call);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->code, Code::kExists);
  EXPECT_EQ(t_.ReadKey("key"), "quicker");
}

TEST_F(PullTest, WritesOfOneSessionToOneKeyTakeEffectInOrder) {
  FakeCall* call = t_.Connect();
  const std::string first = Value(100), third = Value(200);
  call->peer.Send(Encode(t_.MakePulled(1, "key", first)));
  call->peer.Send(Encode(MakePut(2, "key", "second")));
  call->peer.Send(Encode(t_.MakePulled(3, "key", third)));
  call->peer.Send(Encode(MakePut(4, "key", "fourth", Condition::kPresent)));
  call->peer.Send(Encode(MakePut(5, "other", "at once")));
  t_.PollAll();
  // Expect: requests for other keys, of other sessions, and those that are no writes do not wait.
  EXPECT_EQ(TestWorker::TakeReply(call)->number, 5u);
  EXPECT_EQ(t_.Ask(call, MakeRequest(kv::RequestType::kGet, 6, "key"))->code, Code::kNotFound);
  FakeCall* another = t_.Connect();
  EXPECT_EQ(t_.Ask(another, MakePut(1, "key", "another's"))->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("key"), "another's");
  EXPECT_EQ(stats().held_writes.value(), 3u);
  TestWorker::ServeReads(call, first);
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->number, 1u);
  EXPECT_EQ(TestWorker::TakeReply(call)->number, 2u);
  EXPECT_EQ(t_.ReadKey("key"), "second");
  EXPECT_TRUE(call->peer.sent.empty());
  TestWorker::ServeReads(call, third);
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->number, 3u);
  EXPECT_EQ(TestWorker::TakeReply(call)->number, 4u);
  EXPECT_EQ(t_.ReadKey("key"), "fourth");
}

TEST_F(PullTest, WhatIsHeldGoesWithItsConnectionAndIsDoneWhenItIsSentAgain) {
  FakeCall* call = t_.Connect();
  const std::string value = Value(100);
  call->peer.Send(Encode(t_.MakePulled(1, "key", value)));
  call->peer.Send(Encode(MakePut(2, "key", "second")));
  t_.PollAll();
  call->peer.Break();
  t_.PollAll();
  EXPECT_EQ(t_.ReadKey("key"), std::nullopt);
  FakeCall* next = t_.Call(TestWorker::HelloAfter(call));
  t_.PollAll();
  ASSERT_EQ(TestWorker::WelcomeOf(next).flags, kv::Welcome::kResumed);
  next->peer.Send(Encode(t_.MakePulled(1, "key", value)));
  next->peer.Send(Encode(MakePut(2, "key", "second")));
  t_.PollAll();
  TestWorker::ServeReads(next, value);
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(next)->number, 1u);
  EXPECT_EQ(TestWorker::TakeReply(next)->number, 2u);
  EXPECT_EQ(t_.ReadKey("key"), "second");
}

TEST_F(PullTest, WhatIsOverIsNotBegun) {
  FakeCall* call = t_.Connect();
  call->peer.read_room = 0;
  const std::string value = Value(100);
  for (uint64_t n = 1; n <= PullQueue::kMaxActive; ++n) {
    call->peer.Send(Encode(t_.MakePulled(n, absl::StrCat("k", n), value)));
  }
  kv::Request request = t_.MakePulled(9, "late", value);
  request.deadline_us = t_.ShownTime() + 1000;
  call->peer.Send(Encode(request));
  t_.PollAll();
  t_.clock.now_ns += 1'000'000;
  call->peer.read_room = SIZE_MAX;
  t_.PollAll();
  // Expect: its deadline has passed at its turn, so its value is not read.
  for (int i = 0; i < 6; ++i) {
    TestWorker::ServeReads(call, value);
    t_.PollAll();
  }
  uint64_t expired = 0;
  while (auto reply = TestWorker::TakeReply(call)) {
    if (reply->code == Code::kExpired) expired = reply->number;
  }
  EXPECT_EQ(expired, 9u);
  EXPECT_EQ(stats().pulled_bytes.value(), PullQueue::kMaxActive * value.size()) << "and not the late one's";
  EXPECT_EQ(t_.ReadKey("late"), std::nullopt);
  // Expect: that is its outcome, also for a request sent again with another deadline.
  request.deadline_us = 0;
  EXPECT_EQ(t_.Ask(call, request)->code, Code::kExpired);
}

TEST_F(PullTest, WhatIsOverIsNotPublished) {
  FakeCall* call = t_.Connect();
  const std::string value = Value(100);
  kv::Request request = t_.MakePulled(1, "key", value);
  request.deadline_us = t_.ShownTime() + 1000;
  Start(call, request);
  t_.clock.now_ns += 1'000'000;
  TestWorker::ServeReads(call, value);
  t_.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kExpired);
  EXPECT_EQ(t_.ReadKey("key"), std::nullopt);
  EXPECT_EQ(t_.PutPulled(call, 2, "key", value)->code, Code::kOk);
}

TEST_F(PullTest, SentTwiceItIsPulledOnce) {
  FakeCall* call = t_.Connect();
  const std::string value = Value(100);
  Start(call, t_.MakePulled(1, "key", value));
  Start(call, t_.MakePulled(1, "key", value));
  EXPECT_EQ(call->peer.reads.size(), 1u);
  TestWorker::ServeReads(call, value);
  t_.PollAll();
  auto first = TestWorker::TakeReply(call);
  ASSERT_TRUE(first);
  EXPECT_FALSE(TestWorker::TakeReply(call));
  EXPECT_EQ(t_.Ask(call, t_.MakePulled(1, "key", value))->bytes, first->bytes);
  EXPECT_EQ(t_.table().stats().puts, 1u);
}

TEST_F(PullTest, AFullWindowOfPullsIsServed) {
  FakeCall* call = t_.Connect();
  const std::string value = Value(3000);
  for (uint64_t n = 1; n <= kTestWindow; ++n) call->peer.Send(Encode(t_.MakePulled(n, absl::StrCat("k", n), value)));
  for (int i = 0; i < 100; ++i) {
    t_.PollAll();
    EXPECT_LE(call->peer.reads.size(), 2u);
    TestWorker::ServeReads(call, value);
  }
  EXPECT_EQ(call->peer.sent.size(), kTestWindow);
  for (uint64_t n = 1; n <= kTestWindow; ++n) EXPECT_EQ(t_.ReadKey(absl::StrCat("k", n)), value);
}

TEST_F(PullTest, AFullSendQueueOnlyDelaysReads) {
  FakeCall* call = t_.Connect();
  call->peer.read_room = 1;
  const std::string value = Value(3000);
  Start(call, t_.MakePulled(1, "key", value));
  ASSERT_EQ(call->peer.reads.size(), 1u);
  TestWorker::ServeReads(call, value);
  t_.PollAll();
  EXPECT_TRUE(call->peer.reads.empty());
  EXPECT_NE(t_.worker().due_ns(), Worker::kNever) << "nothing would wake it";
  call->peer.read_room = SIZE_MAX;
  for (int i = 0; i < 3; ++i) {
    t_.clock.AdvanceMs(1);
    t_.PollAll();
    TestWorker::ServeReads(call, value);
  }
  EXPECT_EQ(t_.ReadKey("key"), value);
}

// A pull of five READs, two posted at a time, is cut after `served` of them. The worker is notified of the
// disconnection at once or late. Then the client resumes and sends the request again.
TEST_F(PullTest, CutAtEveryStageItIsExecutedWhenSentAgain) {
  const std::string value = Value(5000);
  uint64_t key = 0;
  for (bool by_resumption : {false, true}) {
    for (int served = 0; served <= 4; ++served) {
      SCOPED_TRACE(absl::StrCat("served ", served, by_resumption ? ", resumed" : ", broken"));
      const std::string name = absl::StrCat("key", ++key);
      const uint64_t puts = t_.table().stats().puts;
      FakeCall* call = t_.Connect();
      call->peer.hold_disconnected = true;
      Start(call, t_.MakePulled(1, name, value));
      for (int i = 0; i < served; ++i) {
        const FakePeer::Read read = call->peer.reads.front();
        call->peer.CompleteRead(absl::string_view(value).substr(read.remote_address - 64, read.bytes));
        t_.PollAll();
      }
      ASSERT_FALSE(call->peer.reads.empty());
      FakeCall* next = nullptr;
      if (by_resumption) {
        next = t_.Call(TestWorker::HelloAfter(call));
      } else {
        call->peer.Break();
      }
      t_.PollAll();
      EXPECT_EQ(stats().cut_pulls.value(), key - 1) << "its READs may still write";
      call->peer.Release();
      t_.PollAll();
      EXPECT_EQ(stats().cut_pulls.value(), key);
      EXPECT_FALSE(call->peer.destroyed_early);
      if (next == nullptr) {
        next = t_.Call(TestWorker::HelloAfter(call));
        t_.PollAll();
      }
      ASSERT_TRUE(next->accepted);
      EXPECT_EQ(TestWorker::WelcomeOf(next).flags, kv::Welcome::kResumed);
      EXPECT_EQ(t_.table().stats().puts, puts) << "not executed";
      EXPECT_EQ(t_.PutPulled(next, 1, name, value)->code, Code::kOk);
      EXPECT_EQ(t_.table().stats().puts, puts + 1);
      EXPECT_EQ(t_.ReadKey(name), value);
    }
  }
}

TEST_F(PullTest, WholeWhenTheConnectionBreaksItIsExecutedAndRemembered) {
  FakeCall* call = t_.Connect();
  const std::string value = Value(100);
  Start(call, t_.MakePulled(1, "key", value));
  TestWorker::ServeReads(call, value);
  call->peer.Break();
  t_.PollAll();
  FakeCall* next = t_.Call(TestWorker::HelloAfter(call));
  t_.PollAll();
  EXPECT_EQ(t_.Ask(next, t_.MakePulled(1, "key", value))->code, Code::kOk);
  EXPECT_TRUE(next->peer.reads.empty());
  EXPECT_EQ(t_.table().stats().puts, 1u);
}

TEST_F(PullTest, WhatWaitsIsCutToo) {
  FakeCall* call = t_.Connect();
  const std::string value = Value(3000);
  for (uint64_t n = 1; n <= kTestWindow; ++n) call->peer.Send(Encode(t_.MakePulled(n, absl::StrCat("k", n), value)));
  t_.PollAll();
  call->peer.hold_disconnected = true;
  FakeCall* next = t_.Call(TestWorker::HelloAfter(call));
  t_.PollAll();
  // Expect: only the one whose READs are posted is still there.
  EXPECT_EQ(stats().cut_pulls.value(), kTestWindow - 1);
  call->peer.Release();
  t_.PollAll();
  ASSERT_TRUE(next->accepted);
  EXPECT_EQ(stats().cut_pulls.value(), kTestWindow);
  for (uint64_t n = kTestWindow; n >= 1; --n) {
    EXPECT_EQ(t_.PutPulled(next, n, absl::StrCat("k", n), value)->code, Code::kOk) << n;
  }
}

TEST_F(PullTest, ALostReadEndsTheConnection) {
  FakeCall* call = t_.Connect();
  Start(call, t_.MakePulled(1, "key", Value(100)));
  call->peer.FailRead(WcStatus::kRetryExceeded);
  t_.PollAll();
  EXPECT_TRUE(call->peer.disconnected);
  FakeCall* next = t_.Call(TestWorker::HelloAfter(call));
  t_.PollAll();
  EXPECT_EQ(t_.PutPulled(next, 1, "key", Value(100))->code, Code::kOk);
}

TEST_F(PullTest, NothingLeaksHoweverItEnds) {
  t_.max_read_bytes = 256 << 10;
  FakeCall* call = t_.Connect();
  const size_t kBytes = 3'000'000;
  const int fit = PutsThatFit(call, 1, kBytes);
  ASSERT_GT(fit, 3);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const uint64_t number = next_number_;
    kv::Request request = t_.MakePulled(number, "key", Value(kBytes));
    if (round % 4 == 3) request.source.hash ^= 1;
    Start(call, request);
    switch (round % 4) {
      case 0:
        call->peer.Break();
        t_.PollAll();
        call = t_.Call(TestWorker::HelloAfter(call));
        t_.PollAll();
        break;
      case 1:
        call->peer.FailRead(WcStatus::kRemoteAccess);
        t_.PollAll();
        TestWorker::ServeReads(call, Value(kBytes));
        t_.PollAll();
        EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kBadValue);
        next_number_ = number + 1;
        break;
      case 2: {
        FakeCall* next = t_.Call(TestWorker::HelloAfter(call));
        t_.PollAll();
        call = next;
        break;
      }
      case 3:
        for (size_t i = 0; i <= kBytes / t_.max_read_bytes; ++i) {
          TestWorker::ServeReads(call, Value(kBytes));
          t_.PollAll();
        }
        EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kBadValue);
        next_number_ = number + 1;
        break;
    }
  }
  EXPECT_EQ(PutsThatFit(call, next_number_, kBytes), fit);
}

}  // namespace
}  // namespace farlook::server
