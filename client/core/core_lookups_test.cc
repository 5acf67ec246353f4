// Gets of ClientCore with Lookups::kMessages: the server looks up the keys with its CPU.
#include <array>
#include <cstdint>
#include <string>

#include "client/testing/core_testing.h"
#include "kv/layout/limits.h"
#include "kv/wire/gets.h"
#include "kv/wire/message.h"

namespace farlook::client {
namespace {

// `local`: READs complete at once (on this host). `mirror_bytes`: a mirror would exist.
struct Way {
  bool local;
  int64_t mirror_bytes;
};

class CoreLookupsTest : public CoreTest, public testing::WithParamInterface<Way> {
 protected:
  CoreLookupsTest() {
    network_.capabilities.local = GetParam().local;
    options_.mirror_bytes = GetParam().mirror_bytes;
    options_.lookups = Lookups::kMessages;
  }

  // Returns the number of READs since the connection was made.
  uint64_t Reads() const { return network_.reads - reads_before_; }
  void ConnectAndCount() {
    Connect();
    reads_before_ = network_.reads;
  }

  uint64_t reads_before_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Ways, CoreLookupsTest,
                         testing::Values(Way{false, 0}, Way{false, 1 << 20}, Way{true, 0}, Way{true, 1 << 20}));

TEST_P(CoreLookupsTest, TheServerAnswersAndNothingIsRead) {
  server_->Put("key", "value");
  const auto put = server_->Put("longest", Pattern(kv::kMaxReplyPayloadBytes));
  ConnectAndCount();
  EXPECT_EQ(Get("key"), "value");
  const auto longest = Do(Kind::kGet, "longest");
  EXPECT_TRUE(longest->result == Pattern(kv::kMaxReplyPayloadBytes));
  EXPECT_EQ(longest->operation.value_bytes, kv::kMaxReplyPayloadBytes);
  EXPECT_EQ(longest->operation.version, put.version);
  const auto absent = Do(Kind::kGet, "other");
  EXPECT_EQ(absent->code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(absent->status().message().empty());
  EXPECT_EQ(absent->operation.version, 0);
  EXPECT_TRUE(Do(Kind::kExists, "key")->status().ok());
  EXPECT_EQ(Do(Kind::kExists, "other")->code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(server_->executed, 5);
  EXPECT_EQ(Reads(), 0);
  EXPECT_EQ(core_->stats().gets, 5);
  EXPECT_EQ(core_->stats().hits, 3);
  EXPECT_EQ(core_->stats().misses, 2);
  EXPECT_EQ(core_->stats().server_gets, 5);
  ExpectNoViolations();
}

TEST_P(CoreLookupsTest, BlockingCallsAskTheServerToo) {
  server_->Put("key", "value");
  ConnectAndCount();
  OwnedOperation get(Kind::kGet, "key");
  get.operation.blocking = true;
  Operation* const operation = &get.operation;
  core_->StartUntimed(absl::MakeSpan(&operation, 1));
  core_->SetDeadlines({&operation, 1}, core_->DeadlineFromNow(0));
  PollFor(options_.timeout_ms + 1, get.operation);
  ASSERT_TRUE(get.done());
  EXPECT_EQ(get.result, "value");
  EXPECT_EQ(server_->executed, 1);
  EXPECT_EQ(Reads(), 0);
}

TEST_P(CoreLookupsTest, WhatDoesNotFitInAReplyIsReadWhereTheReplySays) {
  for (size_t bytes : {size_t{0}, size_t{kv::kMaxReplyPayloadBytes} + 1, size_t{100'000}}) {
    SCOPED_TRACE(bytes);
    server_->Put("key", Pattern(bytes));
    ConnectAndCount();
    EXPECT_TRUE(Get("key") == Pattern(bytes));
    EXPECT_GE(Reads(), 1);
    // Expect: the item alone, no bucket.
    EXPECT_EQ(core_->stats().bucket_reads, 0);
    const uint64_t reads = Reads();
    EXPECT_TRUE(Do(Kind::kExists, "key")->status().ok());
    EXPECT_EQ(Reads(), reads);
    EXPECT_EQ(core_->stats().server_gets, 2);
    EXPECT_EQ(core_->stats().hits, 2);
  }
}

TEST_P(CoreLookupsTest, KeysAndBuffersThatDoNotFitAreErrors) {
  server_->Put("key", "value");
  Connect();
  EXPECT_EQ(Do(Kind::kGet, "")->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Do(Kind::kGet, std::string(kv::kMaxKeyBytes + 1, 'k'))->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Do(Kind::kGet, std::string(kv::kMaxKeyBytes, 'k'))->code(), absl::StatusCode::kNotFound);
  OwnedOperation get(Kind::kGet, "key");
  char small[4];
  get.operation.to.string = nullptr;
  get.operation.to.buffer = absl::MakeSpan(small);
  core_->Start(&get.operation);
  Poll();
  ASSERT_TRUE(get.done());
  EXPECT_EQ(get.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(get.operation.value_bytes, 5);
}

// More gets than the window allows, so that some wait for replies; and the connection breaks meanwhile.
TEST_P(CoreLookupsTest, ABrokenConnectionIsNotNoticed) {
  for (int i = 0; i < 100; ++i) server_->Put(std::to_string(i), Pattern(50, i));
  Connect();
  network_.hold_requests = true;
  std::vector<std::unique_ptr<OwnedOperation>> gets;
  for (int i = 0; i < 100; ++i) gets.push_back(Start(Kind::kGet, std::to_string(i)));
  Poll();
  for (const auto& get : gets) ASSERT_FALSE(get->done());
  EXPECT_EQ(network_.held_requests(), server_->window);
  network_.hold_requests = false;
  network_.Break();
  for (int i = 0; i < 100; ++i) PollFor(options_.timeout_ms, gets[static_cast<size_t>(i)]->operation);
  for (int i = 0; i < 100; ++i) {
    const OwnedOperation& get = *gets[static_cast<size_t>(i)];
    ASSERT_TRUE(get.done());
    EXPECT_TRUE(get.status().ok()) << get.status();
    EXPECT_TRUE(get.result == Pattern(50, i));
  }
  EXPECT_EQ(core_->stats().reconnects, 1);
  ExpectNoViolations();
}

// --- Several in one message ---

class CoreGetsTest : public CoreLookupsTest {
 protected:
  CoreGetsTest() { server_->gets = kv::kMaxGets; }

  // Starts operations that are posted together.
  void StartTogether(const std::vector<OwnedOperation*>& operations) {
    network_.send_room = 0;
    for (OwnedOperation* owned : operations) core_->Start(&owned->operation);
    Poll();
    EXPECT_TRUE(network_.sent.empty());
    network_.send_room = SIZE_MAX;
    Poll();
  }
  // Returns the number of keys in the i-th message that was posted; 0 if it is no kGets.
  size_t KeysOf(size_t i) const {
    const auto request = kv::Request::Decode(network_.sent[i]);
    kv::GetKeys asked;
    if (!request.ok() || request->type != kv::RequestType::kGets) return 0;
    return kv::GetKeys::Decode(request->value, &asked) ? asked.size : 0;
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, CoreGetsTest,
                         testing::Values(Way{false, 0}, Way{false, 1 << 20}, Way{true, 0}, Way{true, 1 << 20}));

TEST_P(CoreGetsTest, WhatStandsTogetherIsOneMessage) {
  server_->Put("a", "one");
  server_->Put("long", Pattern(5000));
  server_->Put("empty", "");
  ConnectAndCount();
  OwnedOperation a(Kind::kGet, "a"), absent(Kind::kGet, "absent"), there(Kind::kExists, "a");
  OwnedOperation longer(Kind::kGet, "long"), empty(Kind::kGet, "empty");
  StartTogether({&a, &absent, &there, &longer, &empty});
  ASSERT_EQ(network_.sent.size(), 1u);
  EXPECT_EQ(KeysOf(0), 5u);
  EXPECT_EQ(a.result, "one");
  EXPECT_EQ(absent.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(there.done() && there.status().ok());
  EXPECT_TRUE(longer.result == Pattern(5000));
  EXPECT_TRUE(empty.done() && empty.status().ok());
  EXPECT_EQ(core_->stats().hits, 4);
  EXPECT_EQ(core_->stats().misses, 1);
  ExpectNoViolations();
}

TEST_P(CoreGetsTest, TheWindowAndTheLengthOfAMessageDivideThem) {
  Connect();
  std::vector<std::unique_ptr<OwnedOperation>> gets;
  std::vector<OwnedOperation*> all;
  for (int i = 0; i < 20; ++i) gets.push_back(std::make_unique<OwnedOperation>(Kind::kGet, std::to_string(i)));
  for (int i = 0; i < 5; ++i) {
    gets.push_back(std::make_unique<OwnedOperation>(Kind::kGet, std::string(kv::kMaxKeyBytes, 'a' + i)));
  }
  for (const auto& get : gets) all.push_back(get.get());
  StartTogether(all);
  for (const auto& get : gets) EXPECT_EQ(get->code(), absl::StatusCode::kNotFound);
  std::vector<size_t> keys;
  for (size_t i = 0; i < network_.sent.size(); ++i) keys.push_back(KeysOf(i));
  EXPECT_EQ(keys, (std::vector<size_t>{8, 8, 7, 0, 0}));  // three long keys fit in a message, then only one number
  ExpectNoViolations();
}

TEST_P(CoreGetsTest, WritesStayBetweenThem) {
  Connect();
  OwnedOperation before(Kind::kGet, "b"), put(Kind::kPut, "b", "new"), after(Kind::kGet, "b"), last(Kind::kGet, "c");
  StartTogether({&before, &put, &after, &last});
  EXPECT_EQ(network_.sent.size(), 3u);
  EXPECT_EQ(KeysOf(2), 2u);
  EXPECT_EQ(before.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(after.result, "new");
  ExpectNoViolations();
}

TEST_P(CoreGetsTest, AServerThatDoesNotKnowThemIsAskedOneByOne) {
  server_->gets = 0;
  server_->Put("a", "one");
  Connect();
  OwnedOperation first(Kind::kGet, "a"), second(Kind::kGet, "a");
  StartTogether({&first, &second});
  EXPECT_EQ(network_.sent.size(), 2u);
  EXPECT_EQ(first.result + second.result, "oneone");
  ExpectNoViolations();
}

TEST_P(CoreGetsTest, ABrokenConnectionIsNotNoticed) {
  for (int i = 0; i < 4; ++i) server_->Put(std::to_string(i), Pattern(50, i));
  Connect();
  network_.hold_requests = true;
  std::vector<std::unique_ptr<OwnedOperation>> gets;
  std::vector<OwnedOperation*> all;
  for (int i = 0; i < 4; ++i) gets.push_back(std::make_unique<OwnedOperation>(Kind::kGet, std::to_string(i)));
  for (const auto& get : gets) all.push_back(get.get());
  gets[1]->operation.timeout_ms = 5;
  StartTogether(all);
  EXPECT_EQ(network_.held_requests(), 1u);
  PollFor(10, gets[1]->operation);
  Poll();
  EXPECT_EQ(gets[1]->code(), absl::StatusCode::kDeadlineExceeded);
  gets[1].reset();  // with its key
  network_.hold_requests = false;
  network_.Break();
  for (const size_t i : {0, 2, 3}) {
    PollFor(options_.timeout_ms, gets[i]->operation);
    EXPECT_TRUE(gets[i]->result == Pattern(50, static_cast<int>(i))) << gets[i]->status();
  }
  EXPECT_EQ(core_->stats().resent_requests, 4);
  EXPECT_TRUE(Put("later", "value").ok());
  ExpectNoViolations();
}

// The number alone identifies a reply. A number that is not open, or was answered already, belongs to no operation.
TEST_P(CoreGetsTest, AWrongNumberInAPackBreaksTheConnection) {
  server_->Put("a", "one");
  server_->Put("b", "two");
  Connect();
  for (const std::array<uint64_t, 2> answers : {std::array<uint64_t, 2>{0, 0}, {1, 1}, {0, 2}, {0, UINT64_MAX}}) {
    network_.sent.clear();
    network_.hold_requests = true;
    OwnedOperation a(Kind::kGet, "a"), b(Kind::kGet, "b");
    StartTogether({&a, &b});
    const uint64_t first = kv::Request::Decode(network_.sent[0])->number;
    ASSERT_EQ(KeysOf(0), 2u);
    kv::ReplyPack pack;
    for (const uint64_t answer : answers) {
      kv::Reply reply;
      reply.code = kv::Code::kNotFound;
      reply.number = first + answer;
      ASSERT_TRUE(pack.Add(reply));
    }
    network_.hold_requests = false;  // for the next connection
    network_.Inject(pack.Finish());
    Poll();
    // Expect: the first reply of the pack is accepted. The other belongs to neither get, and the other get is asked
    // again.
    OwnedOperation& answered = answers[0] == 0 ? a : b;
    OwnedOperation& other = answers[0] == 0 ? b : a;
    PollFor(options_.timeout_ms, other.operation);
    EXPECT_EQ(answered.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(other.result, &other == &a ? "one" : "two") << other.status();
  }
  EXPECT_EQ(core_->stats().reconnects, 4);
}

TEST_P(CoreGetsTest, AMalformedPackBreaksTheConnection) {
  Connect();
  network_.Inject(absl::string_view("\x82\0\1\0\0\0\0\0", 8));
  Poll();
  EXPECT_TRUE(Put("key", "value").ok());
  EXPECT_EQ(core_->stats().reconnects, 1);
}

}  // namespace
}  // namespace farlook::client
