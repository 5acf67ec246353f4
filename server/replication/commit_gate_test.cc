// A group's primary; the test reports what its members have accepted.
#include "server/replication/commit_gate.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "kv/wire/gets.h"
#include "kv/wire/puts.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::Condition;
using kv::RequestType;
using Kind = cluster::Record::Kind;

class FakeStream final : public RecordStream {
 public:
  struct Appended {
    Kind kind;
    uint64_t session, number;
    Code outcome;
    uint64_t result, version, expires_ms;
    kv::ItemKind item_kind;
    std::string key, value;
  };

  uint64_t Append(absl::Span<const cluster::Record> appended, Growth growth) override {
    grown += growth.bytes;
    for (const cluster::Record& record : appended) {
      if (record.kind == Kind::kSession) return ++introduced;
      if (records.size() - accepted >= most) return 0;
      records.push_back({record.kind, record.session, record.number, record.outcome, record.result, record.version,
                         record.expires_ms, record.item_kind, std::string(record.key), std::string(record.value)});
    }
    return records.size();
  }
  uint64_t committed() const override { return accepted; }
  bool HasRoomFor(uint64_t bytes) const override { return grown + bytes <= room; }

  std::vector<Appended> records;
  uint64_t grown = 0, room = kv::Room::kAny;
  uint64_t introduced = 0;  // sessions
  uint64_t accepted = 0;
  uint64_t most = 1000;
};

class CommitGateTest : public ::testing::Test {
 protected:
  // Makes all members accept the records up to this one.
  void Accept(uint64_t sequence) {
    stream_.accepted = sequence;
    t_.gate().notifier()->NotifyTurn();
    t_.PollAll();
  }
  void AcceptAll() { Accept(stream_.records.size()); }
  void Send(FakeCall* call, const kv::Request& request) {
    call->peer.Send(Encode(request));
    t_.PollAll();
  }
  // Sends a request that must be answered only after all members accepted its record.
  TestReply Do(FakeCall* call, const kv::Request& request) {
    Send(call, request);
    EXPECT_FALSE(TestWorker::TakeReply(call).has_value()) << "told too early";
    AcceptAll();
    return *TestWorker::TakeReply(call);
  }
  // Returns the expiry of the published item; 0: never.
  uint64_t ExpiryOf(absl::string_view key) {
    kv::ItemView item;
    EXPECT_EQ(t_.table().Get(t_.table().HashOf(key), key, &item).code, Code::kOk);
    return item.expiry_ms;
  }
  bool Answered(FakeCall* call) { return !call->peer.sent.empty(); }

  FakeStream stream_;
  TestWorker t_{32 << 20, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &stream_};
};

TEST_F(CommitGateTest, AWriteIsSeenAndToldWhenAllMembersHaveIt) {
  FakeCall* call = t_.Connect();
  Send(call, MakePut(1, "k", "v"));
  Send(call, MakePut(2, "other", "w"));
  ASSERT_EQ(stream_.records.size(), 2u);
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
  EXPECT_FALSE(Answered(call));
  Accept(1);
  EXPECT_EQ(t_.ReadKey("k"), "v");
  EXPECT_EQ(t_.ReadKey("other"), std::nullopt);
  const TestReply reply = *TestWorker::TakeReply(call);
  EXPECT_EQ(reply.number, 1u);
  EXPECT_EQ(reply.code, Code::kOk);
  EXPECT_FALSE(Answered(call));
  Accept(2);
  EXPECT_EQ(t_.ReadKey("other"), "w");
  EXPECT_EQ(TestWorker::TakeReply(call)->number, 2u);
  // Expect: the record contains all that is needed to answer a retry, and to hold the same item.
  const FakeStream::Appended& record = stream_.records[0];
  EXPECT_EQ(record.kind, Kind::kPut);
  EXPECT_EQ(record.session, TestWorker::WelcomeOf(call).session);
  EXPECT_EQ(record.number, 1u);
  EXPECT_EQ(record.version, reply.version);
  EXPECT_EQ(record.result, reply.version);
  EXPECT_EQ(record.key, "k");
  EXPECT_EQ(record.value, "v");
}

TEST_F(CommitGateTest, WhoseASessionIsIsSaidOnceBeforeItsFirstWriteOverAConnection) {
  FakeCall* call = t_.Connect();
  Do(call, MakeRequest(RequestType::kGet, 1, "k"));
  EXPECT_EQ(stream_.introduced, 0u);
  Do(call, MakePut(2, "k", "v"));
  Do(call, MakePut(3, "k", "w"));
  EXPECT_EQ(stream_.introduced, 1u);
  call->peer.Break();
  t_.PollAll();
  FakeCall* next = t_.Call(TestWorker::HelloAfter(call));
  t_.PollAll();
  Do(next, MakePut(4, "k", "x"));
  EXPECT_EQ(stream_.introduced, 2u) << "its client knows another epoch now";
}

TEST_F(CommitGateTest, AnOverwriteAndADeleteLeaveTheOldValueMeanwhile) {
  FakeCall* call = t_.Connect();
  Do(call, MakePut(1, "k", "old"));
  Send(call, MakePut(2, "k", "new"));
  EXPECT_EQ(t_.ReadKey("k"), "old");
  AcceptAll();
  const uint64_t version = TestWorker::TakeReply(call)->version;
  EXPECT_EQ(t_.ReadKey("k"), "new");
  Send(call, MakeRequest(RequestType::kDelete, 3, "k"));
  EXPECT_EQ(t_.ReadKey("k"), "new");
  EXPECT_EQ(stream_.records.back().kind, Kind::kDelete);
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->version, version);
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
}

// A member has no room for more than it has. The refusal waits for a record of its own: members report their room after
// they applied what was committed before.
TEST_F(CommitGateTest, WhatAMemberCouldNotHoldIsRefusedBeforeItIsAppended) {
  FakeCall* call = t_.Connect();
  Do(call, MakePut(1, "k", std::string(100, 'v')));
  EXPECT_GT(stream_.grown, 100u);
  Do(call, MakeRequest(RequestType::kCounterCreate, 2, "counter"));
  const uint64_t grown = stream_.grown;
  stream_.room = grown;
  const size_t records = stream_.records.size();
  EXPECT_EQ(Do(call, MakePut(3, "new", "v")).code, Code::kNoMemory);
  ASSERT_EQ(stream_.records.size(), records + 1);
  EXPECT_EQ(stream_.records.back().kind, Kind::kOutcome);
  EXPECT_EQ(t_.ReadKey("new"), std::nullopt);
  EXPECT_EQ(Do(call, MakePut(4, "k", std::string(1'000, 'v'))).code, Code::kNoMemory) << "a longer value";
  EXPECT_EQ(t_.ReadKey("k"), std::string(100, 'v'));
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kCounterCreate, 5, "another")).code, Code::kNoMemory);
  // Expect: whatever needs no more memory succeeds.
  EXPECT_EQ(Do(call, MakePut(6, "k", std::string(100, 'w'))).code, Code::kOk);
  EXPECT_EQ(Do(call, MakePut(7, "k", "w")).code, Code::kOk);
  EXPECT_EQ(Do(call, WithTtl(MakeRequest(RequestType::kTouch, 8, "k"), 9'000)).code, Code::kOk);
  kv::Request add = MakeRequest(RequestType::kCounterAdd, 9, "counter");
  add.operands.operand = 1;
  EXPECT_EQ(Do(call, add).code, Code::kOk);
  EXPECT_EQ(Do(call, MakePut(10, "new", "v", Condition::kPresent)).code, Code::kNotFound);
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kDelete, 11, "k")).code, Code::kOk);
  EXPECT_EQ(stream_.grown, grown);
}

// A delete was acknowledged, and the members' reports do not cover it yet.
TEST_F(CommitGateTest, ARefusalWaitsForReportsOfWhatWasCommitted) {
  FakeCall* call = t_.Connect();
  Do(call, MakePut(1, "k", std::string(1'000, 'v')));
  stream_.room = stream_.grown;
  Send(call, MakePut(2, "new", std::string(900, 'v')));
  EXPECT_FALSE(Answered(call));
  stream_.room += 2'000;  // a member reports that
  AcceptAll();
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("new"), std::string(900, 'v'));
}

TEST_F(CommitGateTest, LaterWritesOfTheKeyWait) {
  FakeCall* call = t_.Connect();
  FakeCall* other = t_.Connect();
  Send(call, MakePut(1, "k", "first"));
  // Expect: a condition is judged by the published item, also for other clients.
  Send(other, MakePut(1, "k", "second", Condition::kAbsent));
  Send(other, MakePut(2, "k", "third"));
  Send(call, MakePut(2, "k", "fourth"));
  EXPECT_EQ(stream_.records.size(), 1u);
  Send(other, MakePut(3, "free", "w"));
  EXPECT_EQ(stream_.records.size(), 2u) << "other keys do not wait";
  for (int i = 0; i < 4; ++i) AcceptAll();
  std::map<uint64_t, Code> codes;
  while (Answered(other)) {
    const TestReply reply = *TestWorker::TakeReply(other);
    codes[reply.number] = reply.code;
  }
  EXPECT_EQ(codes, (std::map<uint64_t, Code>{{1, Code::kExists}, {2, Code::kOk}, {3, Code::kOk}}));
  std::vector<uint64_t> numbers;
  for (const FakeStream::Appended& record : stream_.records) {
    if (record.session == TestWorker::WelcomeOf(other).session && record.key != "free")
      numbers.push_back(record.number);
  }
  EXPECT_EQ(numbers, (std::vector<uint64_t>{1, 2})) << "a session's writes of a key keep their order";
  ASSERT_EQ(stream_.records.size(), 5u);
  EXPECT_EQ(t_.ReadKey("k"), stream_.records.back().value);
}

TEST_F(CommitGateTest, AConditionThatFailsIsToldWhenAllMembersKnow) {
  FakeCall* call = t_.Connect();
  const uint64_t version = Do(call, MakePut(1, "k", "v")).version;
  EXPECT_EQ(Do(call, MakePut(2, "k", "w", Condition::kAbsent)).code, Code::kExists);
  const TestReply mismatch = Do(call, MakePut(3, "k", "w", Condition::kVersion, version + 1));
  EXPECT_EQ(mismatch.code, Code::kVersionMismatch);
  EXPECT_EQ(mismatch.version, version);
  EXPECT_EQ(Do(call, MakePut(4, "absent", "w", Condition::kPresent)).code, Code::kNotFound);
  EXPECT_EQ(Do(call, MakePut(5, "absent", "w", Condition::kVersion, 1)).code, Code::kNotFound);
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kDelete, 6, "absent")).code, Code::kNotFound);
  kv::Request remove = MakeRequest(RequestType::kDelete, 7, "k");
  remove.condition = Condition::kVersion;
  remove.version = version + 1;
  EXPECT_EQ(Do(call, remove).code, Code::kVersionMismatch);
  ASSERT_EQ(stream_.records.size(), 7u);
  for (size_t i = 1; i < 7; ++i) {
    EXPECT_EQ(stream_.records[i].kind, Kind::kOutcome);
    EXPECT_EQ(stream_.records[i].number, i + 1);
    EXPECT_NE(stream_.records[i].outcome, Code::kOk);
  }
  EXPECT_EQ(stream_.records[2].result, version);
  EXPECT_EQ(Do(call, MakePut(8, "k", "w", Condition::kVersion, version)).code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("k"), "w");
}

TEST_F(CommitGateTest, AnAnswerThatTellsWhatTheTableHoldsWaits) {
  FakeCall* call = t_.Connect();
  Do(call, MakePut(1, "k", "v"));
  const TestReply get = Do(call, MakeRequest(RequestType::kGet, 2, "k"));
  EXPECT_EQ(get.payload, "v");
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kGet, 3, "absent")).code, Code::kNotFound);
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kTtl, 4, "k")).code, Code::kOk);
  EXPECT_EQ(stream_.records.back().session, 0u) << "nobody asks for its outcome again";
  // Expect: the reply contains the value at the time of the request, not at the time of the reply.
  Send(call, MakeRequest(RequestType::kGet, 5, "k"));
  Send(call, MakePut(6, "k", "w"));
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->payload, "v");
  // Expect: a reply without table contents does not wait.
  EXPECT_EQ(t_.Ask(t_.Connect(), MakeRequest(RequestType::kStat, 1))->code, Code::kOk);
}

TEST_F(CommitGateTest, AValueThatIsPulledWaitsToo) {
  FakeCall* call = t_.Connect();
  const std::string value(5000, 'x'), later(5000, 'y');
  EXPECT_FALSE(t_.PutPulled(call, 1, "k", value).has_value());
  EXPECT_EQ(t_.ReadKey("k"), std::nullopt);
  ASSERT_EQ(stream_.records.size(), 1u);
  EXPECT_EQ(stream_.records[0].key, "k");
  EXPECT_EQ(stream_.records[0].value, value);
  EXPECT_EQ(stream_.records[0].session, TestWorker::WelcomeOf(call).session);
  FakeCall* other = t_.Connect();
  EXPECT_FALSE(t_.PutPulled(other, 1, "k", later).has_value());
  EXPECT_EQ(stream_.records.size(), 1u) << "a write of the key is under way";
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("k"), value);
  ASSERT_EQ(stream_.records.size(), 2u);
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(other)->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("k"), later);
  // Expect: a put whose condition fails leaks no memory.
  const uint64_t used = t_.table().stats().used_bytes;
  kv::Request absent = t_.MakePulled(2, "k", value);
  absent.condition = Condition::kAbsent;
  Send(other, absent);
  for (int i = 0; i < 10; ++i) {
    TestWorker::ServeReads(other, value);
    t_.PollAll();
  }
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(other)->code, Code::kExists);
  EXPECT_EQ(t_.table().stats().used_bytes, used);
}

TEST_F(CommitGateTest, ARequestThatIsSentAgainMeanwhileIsDoneOnceAndToldThere) {
  FakeCall* call = t_.Connect();
  Send(call, MakePut(1, "k", "v"));
  Send(call, MakeRequest(RequestType::kGet, 2, "absent"));
  call->peer.Break();
  t_.PollAll();
  FakeCall* next = t_.Call(TestWorker::HelloAfter(call));
  t_.PollAll();
  Send(next, MakePut(1, "k", "v"));
  Send(next, MakeRequest(RequestType::kGet, 2, "absent"));
  EXPECT_EQ(stream_.records.size(), 2u);
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(next)->number, 1u);
  EXPECT_EQ(TestWorker::TakeReply(next)->number, 2u);
  EXPECT_FALSE(Answered(next));
  EXPECT_EQ(t_.table().stats().puts, 1u);
}

TEST_F(CommitGateTest, AWriteWhoseClientIsGoneTakesEffectAndIsAnsweredFromMemory) {
  FakeCall* call = t_.Connect();
  Send(call, MakePut(1, "k", "v"));
  call->peer.Break();
  t_.PollAll();
  AcceptAll();
  EXPECT_EQ(t_.ReadKey("k"), "v");
  FakeCall* next = t_.Call(TestWorker::HelloAfter(call));
  t_.PollAll();
  EXPECT_FALSE(Answered(next)) << "it did not ask yet";
  EXPECT_EQ(t_.Ask(next, MakePut(1, "k", "v"))->code, Code::kOk);
  EXPECT_EQ(stream_.records.size(), 1u);
}

TEST_F(CommitGateTest, OneThatSaidGoodbyeIsForgotten) {
  FakeCall* call = t_.Connect();
  Send(call, MakePut(1, "k", "v"));
  call->peer.Send(Encode(MakeRequest(RequestType::kGoodbye, 0)));
  call->peer.Break();
  t_.PollAll();
  EXPECT_EQ(t_.worker().stats().sessions.value(), 0u);
  AcceptAll();
  EXPECT_EQ(t_.ReadKey("k"), "v");
}

TEST_F(CommitGateTest, WhileMembersAreFarBehindRequestsWait) {
  FakeCall* call = t_.Connect();
  stream_.most = 1;
  Send(call, MakePut(1, "a", "v"));
  const uint64_t used = t_.table().stats().used_bytes;
  Send(call, MakePut(2, "b", "v"));
  Send(call, MakeRequest(RequestType::kGet, 3, "c"));
  Send(call, MakePut(4, "a", "w", Condition::kAbsent));
  Send(call, MakePut(5, "d", "first"));
  Send(call, MakePut(6, "d", "second"));
  EXPECT_EQ(stream_.records.size(), 1u);
  EXPECT_EQ(t_.table().stats().used_bytes, used) << "what was not appended is given back";
  for (int i = 0; i < 6; ++i) AcceptAll();
  EXPECT_EQ(stream_.records.size(), 6u);
  EXPECT_EQ(t_.ReadKey("d"), "second") << "those of one key keep their order";
  std::map<uint64_t, Code> codes;
  while (Answered(call)) {
    const TestReply reply = *TestWorker::TakeReply(call);
    codes[reply.number] = reply.code;
  }
  EXPECT_EQ(
      codes,
      (std::map<uint64_t, Code>{
          {1, Code::kOk}, {2, Code::kOk}, {3, Code::kNotFound}, {4, Code::kExists}, {5, Code::kOk}, {6, Code::kOk}}));
}

TEST_F(CommitGateTest, GetsOfOneMessageWaitEachForItself) {
  FakeCall* call = t_.Connect();
  Do(call, MakePut(1, "a", "one"));
  stream_.most = 1;
  Send(call, MakePut(2, "b", "two"));
  kv::GetsWriter keys;
  ASSERT_TRUE(keys.Add("a") && keys.Add("b"));
  kv::Request gets = MakeRequest(RequestType::kGets, 3);
  gets.value = keys.value();
  Send(call, gets);
  EXPECT_FALSE(Answered(call));
  std::map<uint64_t, std::string> replies;
  for (int i = 0; i < 6; ++i) {
    AcceptAll();
    while (Answered(call)) {
      const TestReply reply = *TestWorker::TakeReply(call);
      EXPECT_EQ(reply.code, Code::kOk);
      replies[reply.number] = reply.payload;
    }
  }
  EXPECT_EQ(replies, (std::map<uint64_t, std::string>{{2, ""}, {3, "one"}, {4, "two"}}));
}

TEST_F(CommitGateTest, PutsOfOneMessageAreRecordsEachOfItsOwn) {
  FakeCall* call = t_.Connect();
  kv::PutsWriter puts(/*option_bytes=*/0);
  ASSERT_TRUE(puts.Add("a", "one") && puts.Add("b", "two") && puts.Add("a", "three"));
  kv::Request request = MakeRequest(RequestType::kPuts, 1);
  request.value = puts.value();
  Send(call, request);
  // Expect: no put is answered before its record is accepted; the second one to a key waits for the first.
  EXPECT_FALSE(Answered(call));
  std::map<uint64_t, Code> replies;
  for (int i = 0; i < 6; ++i) {
    AcceptAll();
    while (Answered(call)) {
      const TestReply reply = *TestWorker::TakeReply(call);
      replies[reply.number] = reply.code;
    }
  }
  EXPECT_EQ(replies, (std::map<uint64_t, Code>{{1, Code::kOk}, {2, Code::kOk}, {3, Code::kOk}}));
  EXPECT_EQ(t_.ReadKey("a"), "three");
  EXPECT_EQ(t_.ReadKey("b"), "two");
}

TEST_F(CommitGateTest, RoomIsMadeBeforeTheRecordAndBeforeTheAnswer) {
  FakeCall* call = t_.Connect();
  t_.table().PretendToMakeRoom(3);
  Send(call, MakePut(1, "k", "v"));
  ASSERT_EQ(stream_.records.size(), 1u);
  EXPECT_FALSE(Answered(call));
  t_.table().PretendToMakeRoom(3);
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("k"), "v");
}

// The index holds a limited number of keys of one hash; a put fails only when it is published.
TEST_F(CommitGateTest, WhatCannotBePublishedIsUndone) {
  CommitGate& gate = t_.gate();
  const uint64_t hash = t_.table().HashOf("k");
  CommitGate::Begun begun;
  std::string key;
  uint64_t used = 0;
  for (uint64_t i = 1; begun.outcome.code == Code::kOk; ++i) {
    ASSERT_LT(i, 1000u);
    used = t_.table().stats().used_bytes;
    key = absl::StrCat("key", i);
    begun = gate.Begin(MakePut(i, key, "v"), hash, {7, i}, /*may_step=*/true, nullptr);
    ASSERT_NE(begun.sequence, 0u);
    stream_.accepted = stream_.records.size();
    if (!gate.End(hash, &begun, nullptr)) break;
  }
  ASSERT_EQ(stream_.accepted + 1, stream_.records.size());
  EXPECT_EQ(begun.sequence, stream_.records.size());
  const FakeStream::Appended& undo = stream_.records.back();
  EXPECT_EQ(undo.kind, Kind::kDelete);
  EXPECT_EQ(undo.key, key);
  EXPECT_EQ(undo.session, 7u);
  EXPECT_EQ(undo.outcome, Code::kIndexFull);
  EXPECT_EQ(t_.table().stats().used_bytes, used);
  EXPECT_TRUE(gate.Busy(hash)) << "until all members know";
  stream_.accepted = stream_.records.size();
  ASSERT_TRUE(gate.End(hash, &begun, nullptr));
  EXPECT_EQ(begun.outcome.code, Code::kIndexFull);
  EXPECT_FALSE(gate.Busy(hash));
}

TEST_F(CommitGateTest, WhoWaitsForAKeyIsWokenWhenItIsFree) {
  CommitGate& gate = t_.gate();
  const uint64_t hash = t_.table().HashOf("k");
  CommitGate::Begun begun = gate.Begin(MakePut(1, "k", "v"), hash, {7, 1}, true, nullptr);
  stream_.accepted = 1;
  uint64_t turn = gate.notifier()->turn();
  int wakes = t_.wakes;
  ASSERT_TRUE(gate.End(hash, &begun, nullptr));
  EXPECT_EQ(gate.notifier()->turn(), turn) << "no worker waits";
  begun = gate.Begin(MakePut(2, "k", "v"), hash, {7, 2}, true, nullptr);
  EXPECT_EQ(gate.Begin(MakePut(3, "k", "v"), hash, {8, 1}, true, nullptr).outcome.code, Code::kBusy);
  stream_.accepted = 2;
  ASSERT_TRUE(gate.End(hash, &begun, nullptr));
  EXPECT_NE(gate.notifier()->turn(), turn);
  EXPECT_GT(t_.wakes, wakes);
}

TEST_F(CommitGateTest, AWorkerDoesNotSleepOverWhatWasCommitted) {
  FakeCall* call = t_.Connect();
  Send(call, MakePut(1, "k", "v"));
  EXPECT_TRUE(t_.worker().Arm());
  stream_.accepted = 1;
  t_.gate().notifier()->NotifyTurn();
  EXPECT_FALSE(t_.worker().Arm());
}

TEST_F(CommitGateTest, WhenAnItemExpiresIsInItsRecord) {
  FakeCall* call = t_.Connect();
  const uint64_t now_ms = t_.ShownTime() / 1000;
  Do(call, WithTtl(MakePut(1, "k", "v"), 500));
  EXPECT_GE(stream_.records.back().expires_ms, now_ms + 500);
  EXPECT_LE(stream_.records.back().expires_ms, now_ms + 501);
  kv::Request keeps = MakePut(2, "k", "w");
  char options[kv::RequestOptions::kMaxBytes];
  kv::RequestOptions keep;
  keep.keep_ttl = true;
  keeps.options = {options, keep.Encode(options)};
  Do(call, keeps);
  EXPECT_EQ(stream_.records[1].expires_ms, stream_.records[0].expires_ms);
  EXPECT_EQ(ExpiryOf("k"), stream_.records[0].expires_ms);
  const std::string value(5000, 'x');
  kv::Request pulled = t_.MakePulled(3, "k", value);
  pulled.options = keeps.options;
  Send(call, pulled);
  for (int i = 0; i < 10; ++i) {
    TestWorker::ServeReads(call, value);
    t_.PollAll();
  }
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(ExpiryOf("k"), stream_.records[0].expires_ms);
  Do(call, MakePut(4, "k", "for ever"));
  EXPECT_EQ(stream_.records.back().expires_ms, 0u);
  EXPECT_EQ(ExpiryOf("k"), 0u);
}

TEST_F(CommitGateTest, ATouchWaitsAndLeavesTheRest) {
  FakeCall* call = t_.Connect();
  const uint64_t version = Do(call, WithTtl(MakePut(1, "k", "v"), 500)).version;
  const uint64_t before_ms = ExpiryOf("k");
  Send(call, WithTtl(MakeRequest(RequestType::kTouch, 2, "k"), 9000));
  EXPECT_EQ(stream_.records.back().kind, Kind::kTouch);
  EXPECT_EQ(ExpiryOf("k"), before_ms) << "not before all members have it";
  EXPECT_FALSE(Answered(call));
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->version, version);
  EXPECT_EQ(ExpiryOf("k"), stream_.records.back().expires_ms);
  EXPECT_GT(ExpiryOf("k"), before_ms);
  // Expect: it gets the item that it touched, although another client puts the key in the meantime.
  FakeCall* other = t_.Connect();
  Send(call, MakeRequest(RequestType::kGetAndTouch, 3, "k"));
  Send(other, MakePut(1, "k", "w"));
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->payload, "v");
  EXPECT_EQ(ExpiryOf("k"), 0u);
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(other)->code, Code::kOk);
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kTouch, 4, "absent")).code, Code::kNotFound);
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kGetAndTouch, 5, "absent")).code, Code::kNotFound);
}

// Until all members have the record, no client is notified that the item has expired.
TEST_F(CommitGateTest, TheEndOfAnItemIsARecord) {
  FakeCall* call = t_.Connect();
  Do(call, WithTtl(MakePut(1, "k", "v"), 20));
  t_.clock.AdvanceMs(30);
  Send(call, MakeRequest(RequestType::kGet, 2, "k"));
  Send(call, MakeRequest(RequestType::kTtl, 3, "k"));
  ASSERT_EQ(stream_.records.size(), 2u) << "one for both";
  EXPECT_EQ(stream_.records[1].kind, Kind::kDelete);
  EXPECT_EQ(stream_.records[1].session, 0u);
  EXPECT_EQ(t_.table().stats().keys, 1u);
  AcceptAll();
  EXPECT_EQ(t_.table().stats().keys, 0u);
  EXPECT_EQ(t_.table().stats().expired_items, 1u);
  EXPECT_FALSE(Answered(call)) << "what they say of the table is confirmed as ever";
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kNotFound);
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kNotFound);
}

TEST_F(CommitGateTest, AWriteThatFindsAnExpiredItemWaitsForItsEnd) {
  const RequestType types[] = {RequestType::kPut, RequestType::kTouch, RequestType::kDelete,
                               RequestType::kCounterCreate};
  FakeCall* call = t_.Connect();
  uint64_t number = 0;
  for (const RequestType type : types) {
    Do(call, WithTtl(MakePut(++number, "k", "v", Condition::kAbsent), 20));
    t_.clock.AdvanceMs(30);
    kv::Request request = MakeRequest(type, ++number, "k");
    if (type == RequestType::kPut) request.condition = Condition::kPresent;
    Send(call, request);
    EXPECT_EQ(stream_.records.back().kind, Kind::kDelete);
    EXPECT_EQ(stream_.records.back().session, 0u);
    AcceptAll();
    AcceptAll();
    const Code code = TestWorker::TakeReply(call)->code;
    EXPECT_EQ(code, type == RequestType::kCounterCreate ? Code::kOk : Code::kNotFound) << static_cast<int>(type);
  }
  Do(call, MakeRequest(RequestType::kCounterDelete, ++number, "k"));
  // Expect: the same for a put whose value is pulled.
  Do(call, WithTtl(MakePut(++number, "k", "v"), 20));
  t_.clock.AdvanceMs(30);
  const std::string value(5000, 'x');
  EXPECT_FALSE(t_.PutPulled(call, ++number, "k", value).has_value());
  EXPECT_EQ(stream_.records.back().kind, Kind::kDelete);
  AcceptAll();
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("k"), value);
  EXPECT_EQ(ExpiryOf("k"), 0u);
}

// An item that was judged alive stays so until its write has ended: the clock decides nothing in between.
TEST_F(CommitGateTest, AnItemWhoseTimeIsOverDuringItsWriteIsWritten) {
  FakeCall* call = t_.Connect();
  Do(call, WithTtl(MakePut(1, "k", "v"), 20));
  Send(call, MakePut(2, "k", "w", Condition::kPresent));
  t_.clock.AdvanceMs(30);
  FakeCall* other = t_.Connect();
  Send(other, MakeRequest(RequestType::kGet, 1, "k"));
  EXPECT_EQ(stream_.records.size(), 2u) << "it waits";
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(other)->payload, "w");
  Do(call, WithTtl(MakePut(3, "k", "v"), 20));
  Send(call, WithTtl(MakeRequest(RequestType::kTouch, 4, "k"), 1000));
  t_.clock.AdvanceMs(30);
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(Do(other, MakeRequest(RequestType::kGet, 2, "k")).payload, "v");
}

TEST_F(CommitGateTest, ASweepEndsItemsByRecords) {
  FakeCall* call = t_.Connect();
  for (uint64_t i = 1; i <= 5; ++i) Do(call, WithTtl(MakePut(i, absl::StrCat("k", i), "v"), 20));
  Do(call, MakePut(6, "other", "v"));
  for (int i = 0; i < 50; ++i) {
    t_.clock.AdvanceMs(20);
    t_.PollAll();
  }
  EXPECT_EQ(stream_.records.size(), 11u);
  EXPECT_EQ(t_.table().stats().keys, 6u);
  AcceptAll();
  EXPECT_EQ(t_.table().stats().keys, 1u);
  // Expect: if the stream is full, it is tried again.
  Do(call, WithTtl(MakePut(7, "late", "v"), 20));
  stream_.most = 0;
  for (int i = 0; i < 100; ++i) {
    t_.clock.AdvanceMs(20);
    t_.PollAll();
  }
  stream_.most = 1000;
  for (int i = 0; i < 200; ++i) {
    t_.clock.AdvanceMs(20);
    AcceptAll();
  }
  EXPECT_EQ(t_.table().stats().keys, 1u);
}

TEST_F(CommitGateTest, ACounterChangesByRecords) {
  FakeCall* call = t_.Connect();
  kv::Request create = MakeRequest(RequestType::kCounterCreate, 1, "c");
  create.operands.operand = 5;
  EXPECT_EQ(Do(call, create).counter.value, 5);
  EXPECT_EQ(stream_.records.back().item_kind, kv::ItemKind::kCounter);
  kv::Request add = MakeRequest(RequestType::kCounterAdd, 2, "c");
  add.operands.operand = 3;
  Send(call, add);
  FakeCall* other = t_.Connect();
  add.number = 1;
  Send(other, add);
  EXPECT_EQ(stream_.records.size(), 2u) << "one after the other";
  EXPECT_EQ(stream_.records.back().result, 5u);
  kv::Request read = MakeRequest(RequestType::kCounterRead, 2, "c");
  Send(other, read);
  Accept(2);
  EXPECT_EQ(TestWorker::TakeReply(call)->counter.value, 5);
  AcceptAll();
  std::map<uint64_t, TestReply> replies;
  while (Answered(other)) {
    TestReply reply = *TestWorker::TakeReply(other);
    replies.emplace(reply.number, std::move(reply));
  }
  EXPECT_EQ(replies.at(1).counter.value, 8);
  EXPECT_EQ(replies.at(1).counter.cell, 0u) << "nobody changes it in place";
  EXPECT_EQ(replies.at(1).version, 0u);
  EXPECT_EQ(replies.at(2).counter.value, 5) << "as it was when it was asked";
  read.number = 3;
  EXPECT_EQ(Do(other, read).counter.value, 11);
  EXPECT_EQ(Do(other, MakeRequest(RequestType::kGet, 4, "c")).code, Code::kWrongKind);
  read = MakeRequest(RequestType::kCounterRead, 5, "absent");
  EXPECT_EQ(Do(other, read).code, Code::kNotFound);
  // Expect: a request that changes nothing also has a record, and its reply.
  create.number = 3;
  EXPECT_EQ(Do(call, create).code, Code::kExists);
  EXPECT_EQ(stream_.records.back().kind, Kind::kOutcome);
  EXPECT_EQ(stream_.records.back().result, 11u);
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kCounterDelete, 4, "c")).counter.value, 11);
  EXPECT_EQ(stream_.records.back().kind, Kind::kDelete);
  EXPECT_EQ(t_.table().stats().keys, 0u);
}

TEST_F(CommitGateTest, ACounterWithATtlEnds) {
  FakeCall* call = t_.Connect();
  kv::Request create = WithTtl(MakeRequest(RequestType::kCounterCreate, 1, "c"), 20);
  Do(call, create);
  const uint64_t expires_ms = stream_.records.back().expires_ms;
  Do(call, MakeRequest(RequestType::kCounterAdd, 2, "c"));
  EXPECT_EQ(stream_.records.back().expires_ms, expires_ms) << "an add keeps it";
  t_.clock.AdvanceMs(30);
  Send(call, MakeRequest(RequestType::kCounterRead, 3, "c"));
  EXPECT_EQ(stream_.records.back().kind, Kind::kDelete);
  AcceptAll();
  AcceptAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kNotFound);
}

TEST_F(CommitGateTest, ADrainWaitsForMembers) {
  FakeCall* call = t_.Connect();
  Send(call, MakePut(1, "k", "v"));
  t_.worker().BeginDrain(t_.clock.now_ns + 1'000'000'000);
  for (int i = 0; i < 100; ++i) {
    t_.clock.now_ns += 1'000'000;
    t_.worker().Poll();
  }
  EXPECT_FALSE(call->peer.disconnecting);
  stream_.accepted = 1;
  t_.gate().notifier()->NotifyTurn();
  for (int i = 0; i < 100; ++i) {
    t_.clock.now_ns += 1'000'000;
    t_.worker().Poll();
  }
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_TRUE(t_.worker().drained());
}

}  // namespace
}  // namespace farlook::server
