// A worker of a cluster's group answers requests for a key of another group with kMoved. They leave no trace, whatever
// their type and form.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/gets.h"
#include "kv/wire/puts.h"
#include "server/replication/commit_gate.h"
#include "server/replication/serving.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

// A stream whose members accept each record at once.
class CountingStream final : public RecordStream {
 public:
  uint64_t Append(absl::Span<const cluster::Record> appended, Growth /*growth*/) override {
    return records += appended.size();
  }
  uint64_t committed() const override { return records; }

  uint64_t records = 0;
};

class WorkerMovedTest : public ::testing::Test {
 protected:
  WorkerMovedTest() {
    kv::SlotSet own;
    for (size_t slot = 0; slot < kv::kClusterSlots; slot += 2) own.set(slot);
    serving_.SetSlots(own);
    serving_.Announce({.primary = "shm:///a", .members = "shm:///a", .epoch = 3, .lease_us = 1000, .cluster = "kv"});
    serving_.Set(true);
    call_ = t_.Connect();
  }

  size_t SlotOf(absl::string_view key) { return kv::ClusterSlotOf(t_.table().HashOf(key)); }
  // Returns the i-th key of this group (`own`), or of another one.
  std::string Key(bool own, int i = 0) {
    for (int n = 0;; ++n) {
      std::string key = absl::StrCat("key", n);
      if ((SlotOf(key) % 2 == 0) == own && i-- == 0) return key;
    }
  }
  Code CodeOf(const kv::Request& request) {
    const auto reply = t_.Ask(call_, request);
    if (!reply.has_value()) return Code::kLater;
    EXPECT_EQ(reply->number, request.number);
    if (reply->code == Code::kMoved) {
      EXPECT_EQ(reply->payload, "");
      EXPECT_EQ(reply->version, 0u);
      EXPECT_TRUE(reply->slot.empty());
    }
    return reply->code;
  }

  Serving serving_;
  CountingStream stream_;
  TestWorker t_{
      32 << 20, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &stream_, 0, nullptr, [this](Shared* shared) {
        shared->serving = &serving_;
      }};
  FakeCall* call_;
};

TEST_F(WorkerMovedTest, WhoComesIsToldTheCluster) { EXPECT_EQ(TestWorker::WelcomeOf(call_).cluster, "kv"); }

TEST_F(WorkerMovedTest, EveryRequestOfAKeyOfAnotherGroupIsAnsweredSo) {
  const std::string key = Key(/*own=*/false);
  std::vector<kv::Request> requests = {MakePut(0, key, "v"), t_.MakePulled(0, key, std::string(5000, 'v'))};
  for (const RequestType type :
       {RequestType::kDelete, RequestType::kGet, RequestType::kCounterCreate, RequestType::kCounterAdd,
        RequestType::kCounterSwap, RequestType::kCounterRead, RequestType::kCounterDelete, RequestType::kTouch,
        RequestType::kGetAndTouch, RequestType::kTtl}) {
    requests.push_back(MakeRequest(type, 0, key));
  }
  uint64_t number = 0;
  for (kv::Request& request : requests) {
    request.number = ++number;
    EXPECT_EQ(CodeOf(request), Code::kMoved) << static_cast<int>(request.type);
    // Expect: a request that is sent again gets the same answer.
    EXPECT_EQ(CodeOf(request), Code::kMoved) << static_cast<int>(request.type);
  }
  // Expect: no record, not even of the session; no READ of a value; nothing in the table.
  EXPECT_EQ(stream_.records, 0u);
  EXPECT_TRUE(call_->peer.reads.empty());
  EXPECT_EQ(t_.table().stats().keys, 0u);
  EXPECT_EQ(t_.ReadKey(key), std::nullopt);
}

TEST_F(WorkerMovedTest, OfSeveralInAMessageEachIsJudgedForItself) {
  std::vector<std::string> keys;
  for (int i = 0; i < 3; ++i) {
    keys.push_back(Key(/*own=*/true, i));
    keys.push_back(Key(/*own=*/false, i));
  }
  const auto codes = [this] {
    t_.PollAll();
    std::vector<Code> found(6, Code::kLater);
    int messages;
    for (const TestReply& reply : TakeReplies(call_, &messages)) found[(reply.number - 1) % 6] = reply.code;
    return found;
  };
  kv::PutsWriter values(/*option_bytes=*/0);
  for (const std::string& key : keys) ASSERT_TRUE(values.Add(key, "v"));
  kv::Request puts = MakeRequest(RequestType::kPuts, 1);
  puts.value = values.value();
  call_->peer.Send(Encode(puts));
  EXPECT_EQ(codes(), (std::vector<Code>{Code::kOk, Code::kMoved, Code::kOk, Code::kMoved, Code::kOk, Code::kMoved}));
  EXPECT_EQ(t_.table().stats().keys, 3u);
  kv::GetsWriter asked;
  for (const std::string& key : keys) ASSERT_TRUE(asked.Add(key));
  kv::Request gets = MakeRequest(RequestType::kGets, 7);
  gets.value = asked.value();
  call_->peer.Send(Encode(gets));
  EXPECT_EQ(codes(), (std::vector<Code>{Code::kOk, Code::kMoved, Code::kOk, Code::kMoved, Code::kOk, Code::kMoved}));
}

TEST_F(WorkerMovedTest, KeysOfThisGroupAndRequestsWithoutAKeyAreAsEver) {
  const std::string key = Key(/*own=*/true);
  EXPECT_EQ(CodeOf(MakePut(1, key, "v")), Code::kOk);
  EXPECT_EQ(CodeOf(MakeRequest(RequestType::kGet, 2, key)), Code::kOk);
  EXPECT_EQ(CodeOf(MakeRequest(RequestType::kPing, 3)), Code::kOk);
  // The argument of the kStat looks like a key of another group.
  EXPECT_EQ(CodeOf(MakeRequest(RequestType::kStat, 4, Key(/*own=*/false))), Code::kOk);
  EXPECT_EQ(CodeOf(MakeRequest(RequestType::kAdmin, 5, "clients@0")), Code::kOk);
}

TEST_F(WorkerMovedTest, WhoMayNotWriteHearsThatFirst) {
  FakeCall* const reader = t_.Connect(/*read_only=*/true);
  EXPECT_EQ(t_.Ask(reader, MakePut(1, Key(/*own=*/false), "v"))->code, Code::kReadOnly);
  EXPECT_EQ(t_.Ask(reader, MakeRequest(RequestType::kGet, 2, Key(/*own=*/false)))->code, Code::kMoved);
}

TEST_F(WorkerMovedTest, WithoutEnoughMembersItIsSaidAtOnce) {
  serving_.SetTakesWrites(false);
  EXPECT_EQ(CodeOf(MakePut(1, Key(/*own=*/false), "v")), Code::kMoved);
}

// ---- The order of writes when a slot returns.

class ComesBackTest : public WorkerMovedTest {
 protected:
  ComesBackTest() {
    key_ = Key(/*own=*/false);
    while (other_ = absl::StrCat("other", ++n_), SlotOf(other_) != SlotOf(key_)) {
    }
    EXPECT_EQ(CodeOf(MakePut(1, key_, "refused")), Code::kMoved);
    ComeBack();
  }
  void ComeBack() {
    kv::SlotSet all;
    serving_.SetSlots(all.set());
  }
  void Resume() {
    call_ = t_.Call(TestWorker::HelloAfter(call_));
    t_.PollAll();
  }
  static kv::Request WithFlags(kv::Request request, uint16_t flags) {
    request.flags = flags;
    return request;
  }

  std::string key_, other_;  // of one slot
  int n_ = 0;
};

TEST_F(ComesBackTest, WhatComesBehindARefusedWriteIsRefusedUntilTheClientHasHeard) {
  EXPECT_EQ(CodeOf(MakePut(2, key_, "v")), Code::kMoved);
  EXPECT_EQ(CodeOf(MakeRequest(RequestType::kTouch, 3, other_)), Code::kMoved) << "the slot's order, not the key's";
  EXPECT_EQ(CodeOf(t_.MakePulled(4, key_, std::string(5000, 'v'))), Code::kMoved);
  // Expect: other slots are written, and this one is read.
  EXPECT_EQ(CodeOf(MakePut(5, Key(/*own=*/true), "v")), Code::kOk);
  EXPECT_EQ(CodeOf(MakeRequest(RequestType::kGet, 6, key_)), Code::kNotFound);
  EXPECT_EQ(CodeOf(WithFlags(MakePut(7, key_, "v"), kv::Request::kAfterMoved)), Code::kOk);
  EXPECT_EQ(CodeOf(MakePut(8, other_, "v")), Code::kOk);
}

TEST_F(ComesBackTest, OtherClientsNeedNotHaveHeard) {
  FakeCall* const other = t_.Connect();
  EXPECT_EQ(t_.Ask(other, MakePut(1, key_, "v"))->code, Code::kOk);
}

TEST_F(ComesBackTest, ItHasHeardOfTheLastTimeOnly) {
  kv::SlotSet none;
  serving_.SetSlots(none);
  EXPECT_EQ(CodeOf(WithFlags(MakePut(2, key_, "v"), kv::Request::kAfterMoved)), Code::kMoved);
  ComeBack();
  EXPECT_EQ(CodeOf(MakePut(3, key_, "v")), Code::kMoved);
  EXPECT_EQ(CodeOf(WithFlags(MakePut(4, key_, "v"), kv::Request::kAfterMoved)), Code::kOk);
}

TEST_F(ComesBackTest, WhatWasRefusedBeforeTheConnectionBrokeIsRememberedWhenItIsSentAgain) {
  Resume();
  EXPECT_EQ(CodeOf(MakePut(1, key_, "refused")), Code::kMoved);
  EXPECT_EQ(CodeOf(MakePut(2, key_, "v")), Code::kMoved);
  EXPECT_EQ(CodeOf(WithFlags(MakePut(3, key_, "v"), kv::Request::kAfterMoved)), Code::kOk);
}

TEST_F(ComesBackTest, WhatIsOnlyAskedForIsNotBegunNorWhatFollows) {
  EXPECT_EQ(CodeOf(WithFlags(MakePut(2, other_, "done"), kv::Request::kAfterMoved)), Code::kOk);
  Resume();
  // The first was executed before, the second never seen.
  EXPECT_EQ(CodeOf(WithFlags(MakePut(2, other_, "done"), kv::Request::kOnlyAsked)), Code::kOk);
  EXPECT_EQ(CodeOf(MakePut(3, key_, "v")), Code::kMoved);
  Resume();
  EXPECT_EQ(CodeOf(WithFlags(MakePut(4, key_, "v"), kv::Request::kOnlyAsked)), Code::kMoved);
  EXPECT_EQ(CodeOf(MakePut(5, key_, "v")), Code::kMoved);
  EXPECT_EQ(t_.ReadKey(key_), std::nullopt);
  EXPECT_EQ(CodeOf(WithFlags(MakePut(6, key_, "v"), kv::Request::kAfterMoved)), Code::kOk);
}

TEST(Serving, OwnsAllSlotsUntilItIsInACluster) {
  Serving serving;
  EXPECT_TRUE(serving.Owns(0));
  EXPECT_TRUE(serving.Owns(kv::kClusterSlots - 1));
  serving.SetSlots(*kv::ParseSlots("0,63-64,4095"));
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    EXPECT_EQ(serving.Owns(slot), slot == 0 || slot == 63 || slot == 64 || slot == 4095) << slot;
  }
  serving.SetSlots({});
  EXPECT_FALSE(serving.Owns(64));
}

}  // namespace
}  // namespace farlook::server
