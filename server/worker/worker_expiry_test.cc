// Requests with a ttl, and the sweep, in a worker whose clock the test advances.
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/wire/message.h"
#include "server/executor/sweep.h"
#include "server/replication/group_stream.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

constexpr int64_t kMsNs = 1'000'000;

class WorkerExpiryTest : public testing::Test {
 protected:
  kv::Request With(kv::Request request, const kv::RequestOptions& options) {
    options_.resize(kv::RequestOptions::kMaxBytes);
    options_.resize(options.Encode(options_.data()));
    request.options = options_;
    return request;
  }
  Code Do(const kv::Request& request) { return t_.Ask(call_, request)->code; }
  Code Get(absl::string_view key) { return Do(MakeRequest(RequestType::kGet, ++number_, key)); }
  Code Put(absl::string_view key, uint64_t ttl_ms) { return Do(WithTtl(MakePut(++number_, key, "v"), ttl_ms)); }
  Code Touch(absl::string_view key, uint64_t ttl_ms) {
    return Do(WithTtl(MakeRequest(RequestType::kTouch, ++number_, key), ttl_ms));
  }
  // Returns when the item expires, in milliseconds of the server's clock; -1: it is absent.
  int64_t ExpiryOf(absl::string_view key) {
    const auto reply = t_.Ask(call_, MakeRequest(RequestType::kTtl, ++number_, key));
    kv::TtlResult result;
    if (reply->code != Code::kOk || !kv::TtlResult::Decode(reply->payload, &result)) return -1;
    return static_cast<int64_t>(result.expires_ms);
  }
  void Pass(int64_t ms) { t_.clock.now_ns += ms * kMsNs; }
  int64_t NowMs() const { return static_cast<int64_t>(t_.ShownTime() / 1000); }

  TestWorker t_;
  FakeCall* call_ = t_.Connect();
  uint64_t number_ = 0;
  std::string options_;
};

TEST_F(WorkerExpiryTest, APutWithATtlIsThereUntilThen) {
  EXPECT_EQ(Put("k", 20), Code::kOk);
  EXPECT_GE(ExpiryOf("k"), NowMs() + 20);
  EXPECT_LE(ExpiryOf("k"), NowMs() + 21);
  Pass(19);
  EXPECT_EQ(Get("k"), Code::kOk);
  Pass(2);
  EXPECT_EQ(Get("k"), Code::kNotFound);
  EXPECT_EQ(ExpiryOf("k"), -1);
  EXPECT_EQ(Touch("k", 100), Code::kNotFound);
  // Expect: conditions find it absent.
  EXPECT_EQ(Do(MakePut(++number_, "k", "w", kv::Condition::kPresent)), Code::kNotFound);
  EXPECT_EQ(Do(MakePut(++number_, "k", "w", kv::Condition::kAbsent)), Code::kOk);
  EXPECT_EQ(ExpiryOf("k"), 0) << "a put without a ttl is for ever";
}

TEST_F(WorkerExpiryTest, TouchPersistAndKeepTtl) {
  EXPECT_EQ(Put("k", 20), Code::kOk);
  EXPECT_EQ(Touch("k", 500), Code::kOk);
  Pass(300);
  const int64_t expiry_ms = ExpiryOf("k");
  kv::RequestOptions keep;
  keep.keep_ttl = true;
  EXPECT_EQ(Do(With(MakePut(++number_, "k", "w"), keep)), Code::kOk);
  EXPECT_EQ(ExpiryOf("k"), expiry_ms);
  EXPECT_EQ(Do(MakeRequest(RequestType::kTouch, ++number_, "k")), Code::kOk) << "persist";
  EXPECT_EQ(ExpiryOf("k"), 0);
  Pass(1'000'000);
  EXPECT_EQ(Get("k"), Code::kOk);
  EXPECT_EQ(Do(With(MakePut(++number_, "new", "w"), keep)), Code::kOk);
  EXPECT_EQ(ExpiryOf("new"), 0);
}

TEST_F(WorkerExpiryTest, AGetAndTouchIsDoneOnceAndTellsTheValue) {
  EXPECT_EQ(Put("k", 20), Code::kOk);
  const kv::Request touch = WithTtl(MakeRequest(RequestType::kGetAndTouch, ++number_, "k"), 1'000);
  auto reply = t_.Ask(call_, touch);
  EXPECT_EQ(reply->code, Code::kOk);
  EXPECT_EQ(reply->payload, "v");
  const int64_t expiry_ms = ExpiryOf("k");
  EXPECT_GE(expiry_ms, NowMs() + 1'000);
  // Expect: a request that is sent again is answered from memory, without the value, and touches nothing.
  Pass(500);
  const uint64_t version = reply->version;
  reply = t_.Ask(call_, WithTtl(touch, 1'000));
  EXPECT_EQ(reply->code, Code::kOk);
  EXPECT_EQ(reply->payload, "");
  EXPECT_EQ(reply->version, version);
  EXPECT_FALSE(reply->slot.empty());
  EXPECT_EQ(ExpiryOf("k"), expiry_ms);
}

TEST_F(WorkerExpiryTest, ATouchSentAgainIsNotDoneAgain) {
  EXPECT_EQ(Put("k", 20), Code::kOk);
  const uint64_t number = ++number_;
  EXPECT_EQ(Do(WithTtl(MakeRequest(RequestType::kTouch, number, "k"), 1'000)), Code::kOk);
  EXPECT_EQ(Do(MakeRequest(RequestType::kTouch, ++number_, "k")), Code::kOk) << "persist";
  EXPECT_EQ(Do(WithTtl(MakeRequest(RequestType::kTouch, number, "k"), 1'000)), Code::kOk);
  EXPECT_EQ(ExpiryOf("k"), 0);
}

TEST_F(WorkerExpiryTest, TheTtlOfAPulledValueBeginsWhenItIsThere) {
  const std::string value(5'000, 'v');
  kv::Request request = WithTtl(t_.MakePulled(++number_, "k", value), 100);
  call_->peer.Send(Encode(request));
  t_.PollAll();
  Pass(90);
  for (int i = 0; i < 10; ++i) {
    TestWorker::ServeReads(call_, value);
    t_.PollAll();
  }
  EXPECT_EQ(TestWorker::TakeReply(call_)->code, Code::kOk);
  EXPECT_GE(ExpiryOf("k"), NowMs() + 100);
}

TEST_F(WorkerExpiryTest, TheSweepFreesWhatNobodyAsksFor) {
  for (int i = 0; i < 200; ++i) EXPECT_EQ(Put(absl::StrCat("k", i), static_cast<uint64_t>(100 + i)), Code::kOk);
  EXPECT_EQ(Do(MakePut(++number_, "stays", "v")), Code::kOk);
  t_.PollAll();
  // Expect: a sleeping worker is due when the first item is, and not before.
  const int64_t first_due_ns = t_.worker().due_ns();
  ASSERT_NE(first_due_ns, Worker::kNever);
  EXPECT_GE(first_due_ns, t_.clock.now_ns + 99 * kMsNs);
  EXPECT_LE(first_due_ns, t_.clock.now_ns + (101 + 256) * kMsNs);
  EXPECT_EQ(t_.table().stats().keys, 201u);
  for (int i = 0; i < 2'000 && t_.table().stats().keys > 1; ++i) {
    Pass(1);
    t_.PollAll();
  }
  EXPECT_EQ(t_.table().stats().keys, 1u);
  EXPECT_EQ(t_.table().stats().expired_items, 200u);
  EXPECT_LE(NowMs(), 300 + 256 + 200) << "soon after the last has expired";
  for (int i = 0; i < 10; ++i) {
    Pass(256);
    t_.PollAll();
  }
  EXPECT_EQ(t_.worker().due_ns(), Worker::kNever) << "nothing is due any more";
}

// The share is a hundredth of a busy worker's time, in few pieces, and half of it when the sweep is late.
TEST_F(WorkerExpiryTest, TheSweepOfABusyWorkerTakesItsShareInFewPieces) {
  constexpr uint64_t kItems = 10'000;
  for (uint64_t i = 0; i < kItems; ++i) EXPECT_EQ(Put(absl::StrCat("k", i), 100), Code::kOk);
  Pass(100 + 256);  // all ticks have ended
  Sweep sweep(t_.shared(), /*times=*/nullptr);
  sweep.Noted();
  t_.clock.step_ns = 5'000;  // twice for each hold of a lock
  for (const int64_t share : {Sweep::kBusyShare, Sweep::kLateShare}) {
    SCOPED_TRACE(share);
    const int64_t start_ns = t_.clock.now_ns;
    int64_t spent_ns = 0;
    int pauses = 0;
    bool paused = true;
    while (t_.table().stats().expired_items < kItems && (share == Sweep::kLateShare || pauses < 3)) {
      const int64_t now_ns = t_.clock.now_ns;
      if (sweep.Poll(now_ns, /*idle=*/false)) {
        if (std::exchange(paused, false)) {
          EXPECT_GE(now_ns - start_ns, (share - 1) * spent_ns);
        }
        spent_ns += t_.clock.now_ns - now_ns;
        EXPECT_LE(t_.clock.now_ns - now_ns, Sweep::kStepNs + 2 * t_.clock.step_ns) << "messages wait no longer";
        continue;
      }
      if (!std::exchange(paused, true)) ++pauses;
      t_.clock.now_ns += kMsNs / 10;
    }
    EXPECT_LE(pauses, spent_ns / Sweep::kBurstNs);
    if (share == Sweep::kLateShare) {
      EXPECT_LE(t_.clock.now_ns - start_ns, 3 * spent_ns + 2 * kMsNs);
    }
    Pass(1'000);
  }
  EXPECT_EQ(t_.table().stats().expired_items, kItems);
}

// The machine may be suspended during a step; that time is no work.
TEST_F(WorkerExpiryTest, AStepThatWasInterruptedIsNotPaidForAHundredTimes) {
  for (uint64_t i = 0; i < 1'000; ++i) EXPECT_EQ(Put(absl::StrCat("k", i), 100), Code::kOk);
  Pass(100 + 256);
  Sweep sweep(t_.shared(), /*times=*/nullptr);
  sweep.Noted();
  t_.clock.step_ns = 60'000'000;
  ASSERT_TRUE(sweep.Poll(t_.clock.now_ns, /*idle=*/false));
  t_.clock.step_ns = 0;
  EXPECT_TRUE(sweep.Poll(t_.clock.now_ns + Sweep::kBusyShare * Sweep::kBurstNs, /*idle=*/false));
}

TEST_F(WorkerExpiryTest, AnIdleWorkerSweepsWithoutAPause) {
  constexpr uint64_t kItems = 10'000;
  for (uint64_t i = 0; i < kItems; ++i) EXPECT_EQ(Put(absl::StrCat("k", i), 100), Code::kOk);
  Pass(1'000);
  t_.clock.step_ns = 5'000;  // so that it would be more than a burst
  const int64_t start_ns = t_.clock.now_ns;
  t_.PollAll();
  EXPECT_EQ(t_.table().stats().expired_items, kItems);
  EXPECT_GT(t_.clock.now_ns - start_ns, 2 * Sweep::kBurstNs);
  EXPECT_LT(t_.clock.now_ns - start_ns, Sweep::kBusyShare * Sweep::kBurstNs);
}

// A worker that falls behind since it serves clients wakes the others, which sweep although they wrote nothing.
TEST_F(WorkerExpiryTest, AnIdleWorkerHelpsABusyOne) {
  for (uint64_t i = 0; i < 10'000; ++i) EXPECT_EQ(Put(absl::StrCat("k", i), 100), Code::kOk);
  Pass(100 + 256);
  Shared shared = t_.shared();
  shared.workers = 2;
  Sweep busy(shared, /*times=*/nullptr);
  busy.Noted();
  t_.clock.step_ns = 50'000;
  t_.wakes = 0;
  for (int i = 0; i < 1'000 && busy.Poll(t_.clock.now_ns, /*idle=*/false); ++i) {
  }
  EXPECT_GT(t_.wakes, 0);
  t_.clock.step_ns = 0;
  Worker idle(shared, SessionOptions(), [] {});
  ASSERT_LT(t_.table().stats().expired_items, 10'000u);
  for (int i = 0; i < 10'000 && t_.table().stats().expired_items < 10'000; ++i) {
    if (idle.Poll() == 0) {
      ASSERT_FALSE(idle.Arm());
    }
  }
  EXPECT_EQ(t_.table().stats().expired_items, 10'000u);
}

// Memory that is full of expired items is no reason to refuse a write: short, pulled, or of a counter.
TEST(WorkerFullTest, NoWriteIsRefusedForWhatHasExpired) {
  const std::string value(500, 'v');  // many more short ones fit: a minute under sanitizers
  for (const bool in_group : {false, true}) {
    SCOPED_TRACE(in_group);
    GroupStream stream(/*epoch=*/1, kTestIncarnation, /*self=*/1, {}, /*most_kept=*/1 << 20);
    TestWorker t(16 << 20, 16, 100, 3, /*users=*/nullptr, kTestWindow, /*evict=*/false, in_group ? &stream : nullptr);
    stream.SetMembers({});
    FakeCall* call = t.Connect();
    uint64_t number = 0;
    int filled = 0;
    while (t.Ask(call, WithTtl(MakePut(++number, absl::StrCat("old", filled), value), 60'000))->code == Code::kOk) {
      ++filled;
    }
    ASSERT_GT(filled, 15'000);
    t.clock.now_ns += 60'001 * kMsNs;  // the tick has not ended, and there was no time to sweep
    for (int i = 0; i < filled / 2; ++i) {
      ASSERT_EQ(t.Ask(call, MakePut(++number, absl::StrCat("new", i), value))->code, Code::kOk) << i;
    }
    ASSERT_EQ(t.PutPulled(call, ++number, "pulled", std::string(100'000, 'p'))->code, Code::kOk);
    ASSERT_EQ(t.Ask(call, MakeRequest(RequestType::kCounterCreate, ++number, "counter"))->code, Code::kOk);
    EXPECT_GE(t.table().stats().expired_items, static_cast<uint64_t>(filled / 2));
  }
}

TEST_F(WorkerExpiryTest, ACounterLivesUntilItIsSwept) {
  call_ = t_.Call({}, /*port=*/1);  // on this port clients know no cells, so they are sent no notices
  t_.PollAll();
  kv::Request create = MakeRequest(RequestType::kCounterCreate, ++number_, "c");
  create.operands.operand = 5;
  EXPECT_EQ(Do(WithTtl(create, 50)), Code::kOk);
  EXPECT_EQ(Do(MakeRequest(RequestType::kCounterRead, ++number_, "c")), Code::kOk);
  EXPECT_EQ(t_.counters().stats().counters, 1u);
  // Expect: a touch postpones its expiry.
  EXPECT_EQ(Touch("c", 2'000), Code::kOk);
  Pass(1'000);
  t_.PollAll();
  EXPECT_EQ(Do(MakeRequest(RequestType::kCounterRead, ++number_, "c")), Code::kOk);
  for (int i = 0; i < 20; ++i) {
    Pass(100);
    t_.PollAll();
  }
  EXPECT_EQ(t_.counters().stats().counters, 0u);
  EXPECT_EQ(Do(MakeRequest(RequestType::kCounterRead, ++number_, "c")), Code::kNotFound);
  EXPECT_EQ(Put("c", 100), Code::kOk) << "a value may have its key";
}

}  // namespace
}  // namespace farlook::server
