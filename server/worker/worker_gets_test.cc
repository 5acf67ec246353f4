// A worker's answers to several gets in one message (kv/wire/gets.h).
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/wire/gets.h"
#include "kv/wire/message.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

class WorkerGetsTest : public testing::Test {
 protected:
  void Put(absl::string_view key, absl::string_view value) {
    ASSERT_EQ(t_.Ask(call_, MakePut(++number_, key, value))->code, Code::kOk);
  }
  // Sends a kGets of these keys from `number` on.
  void Send(uint64_t number, const std::vector<std::string>& keys) {
    kv::GetsWriter writer;
    for (const std::string& key : keys) ASSERT_TRUE(writer.Add(key));
    kv::Request gets = MakeRequest(RequestType::kGets, number);
    gets.value = writer.value();
    call_->peer.Send(Encode(gets));
    t_.PollAll();
  }
  std::vector<TestReply> Take() { return TakeReplies(call_, &messages_); }

  TestWorker t_;
  FakeCall* call_ = t_.Connect();
  uint64_t number_ = 0;
  int messages_ = 0;
};

TEST_F(WorkerGetsTest, EachKeyIsAnsweredAsByAGet) {
  EXPECT_EQ(TestWorker::WelcomeOf(call_).gets, kv::kMaxGets);
  Put("a", "one");
  Put("b", "two");
  ASSERT_EQ(t_.Ask(call_, MakeRequest(RequestType::kCounterCreate, ++number_, "counter"))->code, Code::kOk);
  const auto alone = t_.Ask(call_, MakeRequest(RequestType::kGet, ++number_, "b"));
  Send(5, {"a", "absent", "b", "counter"});
  const std::vector<TestReply> replies = Take();
  EXPECT_EQ(messages_, 1);
  ASSERT_EQ(replies.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(replies[i].number, 5 + i);
  EXPECT_EQ(replies[0].payload, "one");
  EXPECT_EQ(replies[1].code, Code::kNotFound);
  EXPECT_EQ(replies[2].payload, "two");
  EXPECT_EQ(replies[2].version, alone->version);
  EXPECT_EQ(replies[2].slot, alone->slot);
  EXPECT_EQ(replies[3].code, Code::kWrongKind);
  const WorkerStats& stats = t_.worker().stats();
  EXPECT_EQ(stats.requests[static_cast<size_t>(RequestType::kGets)].value(), 1u);
  EXPECT_EQ(stats.requests[static_cast<size_t>(RequestType::kGet)].value(), 5u);
}

TEST_F(WorkerGetsTest, WhatDoesNotFitInOneMessageComesInSeveral) {
  const std::string longest(kv::kMaxReplyPayloadBytes, 'l');
  Put("thousand", std::string(1000, 't'));
  Put("small", "s");
  number_ += 2;
  const auto pulled = t_.PutPulled(call_, 3, "pulled", std::string(5000, 'p'));
  ASSERT_EQ(pulled->code, Code::kOk);
  ASSERT_EQ(t_.PutPulled(call_, 4, "longest", longest)->code, Code::kOk);
  const int with_ring = call_->peer.sends_with_ring;
  Send(5, {"thousand", "thousand", "thousand", "thousand", "small", "longest", "small", "pulled"});
  const std::vector<TestReply> replies = Take();
  EXPECT_EQ(messages_, 4);  // three, two, the longest without a pack, two
  EXPECT_EQ(call_->peer.sends_with_ring, with_ring + 1) << "the last";
  ASSERT_EQ(replies.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(replies[i].number, 5 + i);
  EXPECT_EQ(replies[3].payload, std::string(1000, 't'));
  EXPECT_EQ(replies[5].payload, longest);
  EXPECT_EQ(replies[6].payload, "s");
  EXPECT_EQ(replies[7].payload, "");
  EXPECT_EQ(replies[7].slot, pulled->slot);
}

TEST_F(WorkerGetsTest, NumbersCountOneByOne) {
  Put("a", "one");
  Send(2, {"a", "a"});
  EXPECT_EQ(Take().size(), 2u);
  // Expect: each is executed again when it is sent again, alone and together with others.
  EXPECT_EQ(t_.Ask(call_, MakeRequest(RequestType::kGet, 3, "a"))->payload, "one");
  Send(3, {"a", "a"});
  EXPECT_EQ(Take().size(), 2u);
  // The number of a put cannot be a get's.
  Send(1, {"a"});
  EXPECT_TRUE(call_->peer.disconnected);
}

TEST_F(WorkerGetsTest, WhoAsksBeyondTheWindowIsDropped) {
  Send(kTestWindow - 1, {"a", "b", "c"});
  EXPECT_TRUE(call_->peer.disconnected);
}

TEST_F(WorkerGetsTest, WhatIsMalformedEndsTheConnection) {
  kv::Request gets = MakeRequest(RequestType::kGets, 1);
  gets.value = "\x07\0abc";
  call_->peer.Send(Encode(gets));
  t_.PollAll();
  EXPECT_TRUE(call_->peer.disconnected);
  EXPECT_TRUE(Take().empty());
}

}  // namespace
}  // namespace farlook::server
