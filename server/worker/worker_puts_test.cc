// A worker's execution of several puts in one message (kv/wire/puts.h).
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/wire/duration_buckets.h"
#include "kv/wire/gets.h"
#include "kv/wire/message.h"
#include "kv/wire/puts.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;
using KeyValue = std::pair<std::string, std::string>;

class WorkerPutsTest : public testing::Test {
 protected:
  // Sends a kPuts from `number` on, with the options of `like`.
  void Send(uint64_t number, const std::vector<KeyValue>& puts, kv::Request like = {}) {
    kv::PutsWriter writer(like.options.size());
    for (const auto& [key, value] : puts) ASSERT_TRUE(writer.Add(key, value));
    like.type = RequestType::kPuts;
    like.number = number;
    like.value = writer.value();
    like.value_bytes = static_cast<uint32_t>(like.value.size());
    call_->peer.Send(Encode(like));
    t_.PollAll();
  }
  std::vector<TestReply> Take() { return TakeReplies(call_, &messages_); }

  TestWorker t_;
  FakeCall* call_ = t_.Connect();
  int messages_ = 0;
};

TEST_F(WorkerPutsTest, EachIsDoneAndAnsweredAsAPut) {
  EXPECT_EQ(TestWorker::WelcomeOf(call_).puts, kv::kMaxPuts);
  Send(1, {{"a", "one"}, {"b", ""}, {"a", "two"}});
  const std::vector<TestReply> replies = Take();
  EXPECT_EQ(messages_, 1);
  ASSERT_EQ(replies.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(replies[i].number, 1 + i);
    EXPECT_EQ(replies[i].code, Code::kOk);
    EXPECT_NE(replies[i].slot, kv::Slot());
  }
  // Expect: puts of one key took effect in order.
  EXPECT_GT(replies[2].version, replies[0].version);
  EXPECT_EQ(t_.ReadKey("a"), "two");
  EXPECT_EQ(t_.ReadKey("b"), "");
  const WorkerStats& stats = t_.worker().stats();
  EXPECT_EQ(stats.requests[static_cast<size_t>(RequestType::kPuts)].value(), 1u);
  EXPECT_EQ(stats.requests[static_cast<size_t>(RequestType::kPut)].value(), 3u);
}

TEST_F(WorkerPutsTest, EachHasTheConditionTheOptionsAndTheDeadlineOfTheMessage) {
  Send(1, {{"b", "there"}});
  kv::Request absent;
  absent.condition = kv::Condition::kAbsent;
  Send(2, {{"a", "new"}, {"b", "x"}, {"a", "x"}}, absent);
  char options[kv::RequestOptions::kMaxBytes];
  kv::RequestOptions ttl;
  ttl.has_ttl = true;
  ttl.ttl_us = 5'000;
  kv::Request lent;
  lent.options = {options, ttl.Encode(options)};
  Send(5, {{"c", "short"}, {"d", "lived"}}, lent);
  kv::Request over;
  over.deadline_us = kv::Request::kLongOver;
  Send(7, {{"e", "x"}, {"f", "x"}}, over);
  std::vector<Code> codes;
  for (const TestReply& reply : Take()) codes.push_back(reply.code);
  EXPECT_EQ(codes, (std::vector<Code>{Code::kOk, Code::kOk, Code::kExists, Code::kExists, Code::kOk, Code::kOk,
                                      Code::kExpired, Code::kExpired}));
  for (const uint64_t number : {9, 10}) {
    const auto reply = t_.Ask(call_, MakeRequest(RequestType::kTtl, number, number == 9 ? "c" : "d"));
    kv::TtlResult expiry;
    ASSERT_TRUE(kv::TtlResult::Decode(reply->payload, &expiry));
    EXPECT_GT(expiry.expires_ms, 0u);
  }
}

TEST_F(WorkerPutsTest, WhatIsSentAgainIsAnsweredFromMemory) {
  Send(1, {{"a", "one"}, {"b", "two"}, {"c", "three"}});
  const std::vector<TestReply> first = Take();
  ASSERT_EQ(t_.Ask(call_, MakePut(4, "b", "later"))->code, Code::kOk);
  // Expect: sent again alone, or in a message beside a new one, it is not executed again.
  EXPECT_EQ(t_.Ask(call_, MakePut(2, "b", "two"))->version, first[1].version);
  Send(3, {{"c", "three"}, {"b", "later"}, {"d", "four"}});
  const std::vector<TestReply> again = Take();
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0].version, first[2].version);
  EXPECT_EQ(again[2].number, 5u);
  EXPECT_EQ(t_.ReadKey("b"), "later");
  EXPECT_EQ(t_.ReadKey("d"), "four");
  EXPECT_EQ(t_.worker().stats().resent_requests.value(), 3u);
}

TEST_F(WorkerPutsTest, BehindAPulledValueOfTheKeyTheyWait) {
  const std::string pulled(3000, 'p');
  call_->peer.Send(Encode(t_.MakePulled(1, "a", pulled)));
  t_.PollAll();
  kv::Request present;
  present.condition = kv::Condition::kPresent;
  Send(2, {{"a", "one"}, {"b", "x"}, {"a", "two"}}, present);
  // Expect: the put of the other key is answered; waiting ones are complete, with their condition.
  std::vector<TestReply> replies = Take();
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].number, 3u);
  EXPECT_EQ(replies[0].code, Code::kNotFound);
  for (int i = 0; i < 5; ++i) {
    TestWorker::ServeReads(call_, pulled);
    t_.PollAll();
  }
  replies = Take();
  ASSERT_EQ(replies.size(), 3u);
  for (const TestReply& reply : replies) EXPECT_EQ(reply.code, Code::kOk);
  EXPECT_EQ(t_.ReadKey("a"), "two");
}

TEST_F(WorkerPutsTest, ThoseForWhichRoomMustBeMadeWait) {
  t_.table().PretendToMakeRoom(2);
  Send(1, {{"a", "one"}, {"b", "two"}});
  t_.clock.now_ns += 1'000'000'000;
  t_.PollAll();
  const std::vector<TestReply> replies = Take();
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(t_.ReadKey("a"), "one");
  EXPECT_EQ(t_.ReadKey("b"), "two");
  EXPECT_GE(t_.worker().stats().waits_for_room.value(), 1u);
}

TEST_F(WorkerPutsTest, BehindOneForWhichRoomIsMadeThoseToItsKeyWait) {
  Send(1, {{"a", "old"}, {"b", "old"}});
  Take();
  t_.table().PretendToMakeRoom(2);  // once when it is tried with the others, once by itself
  Send(3, {{"a", "one"}, {"b", "new"}, {"a", "two"}});
  t_.clock.now_ns += 1'000'000'000;
  t_.PollAll();
  const std::vector<TestReply> replies = Take();
  ASSERT_EQ(replies.size(), 3u);
  EXPECT_EQ(replies[0].number, 4u);
  EXPECT_EQ(replies[1].number, 3u);
  EXPECT_EQ(replies[2].number, 5u);
  EXPECT_EQ(t_.worker().stats().waits_for_room.value(), 1u);
  EXPECT_EQ(t_.worker().stats().held_writes.value(), 1u);
  EXPECT_EQ(t_.ReadKey("a"), "two");
  EXPECT_EQ(t_.ReadKey("b"), "new");
}

TEST_F(WorkerPutsTest, OverOldItemsTheyAreDoneUnderOneHoldOfALock) {
  std::vector<KeyValue> puts;
  for (int i = 0; puts.size() < kTestWindow / 2; ++i) {
    const std::string key = absl::StrCat("key", i);
    if (t_.table().PartitionOf(t_.table().HashOf(key)) == 0) puts.emplace_back(key, "old");
  }
  const auto holds = [this] {
    kv::DurationBuckets buckets;
    t_.worker().stats().lock_times.AddTo(&buckets);
    return buckets.count();
  };
  Send(1, puts);
  const uint64_t before = holds();
  EXPECT_GE(before, puts.size());
  for (KeyValue& put : puts) put.second = "new";
  Send(1 + puts.size(), puts);
  EXPECT_EQ(holds(), before + 1);
  EXPECT_EQ(Take().size(), 2 * puts.size());
  for (const KeyValue& put : puts) EXPECT_EQ(t_.ReadKey(put.first), "new");
}

TEST_F(WorkerPutsTest, WhoPutsBeyondTheWindowIsDropped) {
  Send(kTestWindow - 1, {{"a", "x"}, {"b", "x"}, {"c", "x"}});
  EXPECT_TRUE(call_->peer.disconnected);
}

TEST_F(WorkerPutsTest, WhatIsMalformedEndsTheConnection) {
  kv::Request puts = MakeRequest(RequestType::kPuts, 1);
  puts.value = absl::string_view("\1\0\5\0abc", 7);
  puts.value_bytes = 7;
  call_->peer.Send(Encode(puts));
  t_.PollAll();
  EXPECT_TRUE(call_->peer.disconnected);
  EXPECT_TRUE(Take().empty());
  EXPECT_FALSE(t_.ReadKey("a").has_value());
}

TEST_F(WorkerPutsTest, AReadOnlySessionsAreRefused) {
  call_ = t_.Connect(/*read_only=*/true);
  Send(1, {{"a", "x"}, {"b", "x"}});
  const std::vector<TestReply> replies = Take();
  ASSERT_EQ(replies.size(), 2u);
  for (const TestReply& reply : replies) EXPECT_EQ(reply.code, Code::kReadOnly);
}

}  // namespace
}  // namespace farlook::server
