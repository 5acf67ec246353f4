// Puts that are posted together, and sent as one message (kv/wire/puts.h).
#include <memory>
#include <string>
#include <vector>

#include "client/testing/core_testing.h"
#include "kv/layout/limits.h"
#include "kv/wire/message.h"
#include "kv/wire/puts.h"

namespace farlook::client {
namespace {

class CorePutsTest : public CoreTest {
 protected:
  CorePutsTest() { server_->puts = kv::kMaxPuts; }

  OwnedOperation* Add(absl::string_view key, absl::string_view value, Condition condition = Condition::Always()) {
    puts_.push_back(std::make_unique<OwnedOperation>(Kind::kPut, key, value, condition));
    return puts_.back().get();
  }
  // Posts all added puts together.
  void StartTogether() {
    network_.sent.clear();
    network_.send_room = 0;
    for (const auto& put : puts_) core_->Start(&put->operation);
    Poll();
    EXPECT_TRUE(network_.sent.empty());
    network_.send_room = SIZE_MAX;
    Poll();
  }
  // Returns, for each message that was posted, its number of puts; 0 if it is no kPuts.
  std::vector<size_t> Sent() const {
    std::vector<size_t> sizes;
    for (const std::string& message : network_.sent) {
      const auto request = kv::Request::Decode(message);
      kv::Puts puts;
      const bool several = request.ok() && request->type == kv::RequestType::kPuts;
      sizes.push_back(several && kv::Puts::Decode(request->value, &puts) ? puts.size : 0);
    }
    return sizes;
  }
  using Sizes = std::vector<size_t>;

  std::vector<std::unique_ptr<OwnedOperation>> puts_;
};

TEST_F(CorePutsTest, WhatStandsTogetherIsOneMessage) {
  Connect();
  Add("a", "one");
  Add("b", "");
  Add("a", "two");
  StartTogether();
  EXPECT_EQ(Sent(), Sizes{3});
  for (const auto& put : puts_) EXPECT_TRUE(put->done() && put->status().ok()) << put->status();
  EXPECT_GT(puts_[2]->operation.version, puts_[0]->operation.version);
  EXPECT_EQ(Get("a"), "two");
  EXPECT_EQ(Get("b"), "");
  EXPECT_EQ(core_->stats().puts, 3);
  ExpectNoViolations();
}

TEST_F(CorePutsTest, TheirConditionsAndTimesAreOne) {
  server_->Put("there", "x");
  Connect();
  Add("new", "1", Condition::IfAbsent());
  Add("there", "2", Condition::IfAbsent());
  Add("new", "3", Condition::IfPresent());
  Add("absent", "4", Condition::IfPresent());
  for (int i = 0; i < 2; ++i) Add("lent", "5")->operation.ttl_ms = 1000;
  Add("lent", "6")->operation.ttl_ms = 1001;
  Add("lent", "7")->operation.keep_ttl = true;
  Add("soon", "8")->operation.timeout_ms = 500;
  Add("soon", "9")->operation.timeout_ms = 501;
  Add("late", "10")->operation.timeout_ms = 502;  // more than a millisecond after the first of its message
  Add("late", "11")->operation.timeout_ms = 503;
  server_->window = 32;
  StartTogether();
  EXPECT_EQ(Sent(), (Sizes{2, 2, 2, 0, 0, 2, 2}));
  const auto code = [this](size_t i) { return puts_[i]->code(); };
  EXPECT_EQ(code(1), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code(3), absl::StatusCode::kNotFound);
  for (const size_t i : {0, 2, 4, 5, 6, 7, 8, 9, 10, 11}) EXPECT_TRUE(puts_[i]->status().ok()) << puts_[i]->status();
  // Expect: the message's deadline is that of its last put.
  const auto soon = kv::Request::Decode(network_.sent[5]);
  EXPECT_EQ(soon->deadline_us, server_->time_us + 501'000 + 501);  // plus the allowed drift of clocks
  EXPECT_EQ(Get("new"), "3");
  ExpectNoViolations();
}

TEST_F(CorePutsTest, OtherWritesStayBetweenThem) {
  Connect();
  Add("a", "one");
  Add("a", "two");
  puts_.push_back(std::make_unique<OwnedOperation>(Kind::kDelete, "a"));
  Add("a", Pattern(5000));
  Add("b", "three");
  Add("a", "four");
  StartTogether();
  EXPECT_EQ(Sent(), (Sizes{2, 0, 0, 2}));
  for (const auto& put : puts_) EXPECT_TRUE(put->done() && put->status().ok()) << put->status();
  EXPECT_EQ(Get("a"), "four");
  ExpectNoViolations();
}

TEST_F(CorePutsTest, TheWindowAndTheLengthOfAMessageDivideThem) {
  Connect();
  for (int i = 0; i < 20; ++i) Add(std::to_string(i), "x");
  for (int i = 0; i < 5; ++i) Add(std::string(kv::kMaxKeyBytes, 'a'), Pattern(900, i));
  Add("long", Pattern(4040));
  Add("short", "x");
  StartTogether();
  for (const auto& put : puts_) EXPECT_TRUE(put->done() && put->status().ok()) << put->status();
  EXPECT_EQ(Sent(), (Sizes{8, 8, 6, 2, 0, 0, 0}));
  ExpectNoViolations();
}

TEST_F(CorePutsTest, AMessageHasAtMostAsManyAsTheServerAllows) {
  server_->window = 64;
  Connect();
  for (int i = 0; i < 17; ++i) Add(std::to_string(i), "x");
  StartTogether();
  EXPECT_EQ(Sent(), (Sizes{16, 0}));
  ExpectNoViolations();
}

TEST_F(CorePutsTest, AServerThatDoesNotKnowThemIsSentOneByOne) {
  server_->puts = 0;
  Connect();
  Add("a", "one");
  Add("b", "two");
  StartTogether();
  EXPECT_EQ(Sent(), (Sizes{0, 0}));
  EXPECT_EQ(Get("b"), "two");
  ExpectNoViolations();
}

TEST_F(CorePutsTest, AValueAboveTheServersLimitIsRefusedAloneInABatch) {
  server_->max_value_bytes = 10;
  Connect();
  Add("a", "one");
  Add("b", Pattern(11));
  Add("c", "three");
  Add("d", "four");
  StartTogether();
  EXPECT_EQ(Sent(), (Sizes{0, 2}));
  EXPECT_EQ(puts_[1]->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Get("d"), "four");
  ExpectNoViolations();
}

// The same puts are sent again one by one, and executed once. Those that have ended by then are not executed any more.
TEST_F(CorePutsTest, ABrokenConnectionIsNotNoticed) {
  for (const bool done : {false, true}) {
    SCOPED_TRACE(done);
    puts_.clear();
    Connect();
    const uint64_t before = server_->executed;
    const int64_t resent = core_->stats().resent_requests;
    for (int i = 0; i < 4; ++i) Add("key", std::to_string(i));
    network_.hold_requests = !done;
    network_.lose_replies = done;
    StartTogether();
    EXPECT_EQ(server_->executed - before, done ? 4u : 0u);
    network_.hold_requests = network_.lose_replies = false;
    network_.Break();
    for (const auto& put : puts_) {
      PollFor(options_.timeout_ms, put->operation);
      EXPECT_TRUE(put->status().ok()) << put->status();
    }
    Poll();
    EXPECT_EQ(server_->executed - before, 4u);
    EXPECT_EQ(core_->stats().resent_requests - resent, 4);
    EXPECT_EQ(Get("key"), "3");
    ExpectNoViolations();
  }
}

TEST_F(CorePutsTest, WhatHasEndedIsRememberedForTheServer) {
  Connect();
  network_.hold_requests = true;
  for (int i = 0; i < 3; ++i) Add(std::to_string(i), Pattern(50, i))->operation.timeout_ms = 5;
  StartTogether();
  PollFor(10, puts_[0]->operation);
  Poll();
  for (const auto& put : puts_) EXPECT_EQ(put->code(), absl::StatusCode::kDeadlineExceeded);
  puts_.clear();  // with keys and values
  network_.hold_requests = false;
  network_.Break();
  EXPECT_TRUE(Put("later", "value").ok());
  EXPECT_EQ(Get("1"), Do(Kind::kGet, "absent")->status().ToString());
  ExpectNoViolations();
}

// A Poll() that returns something need not read the clock. Still an expired operation ends, even if there is always
// something to return.
TEST_F(CorePutsTest, WhoIsGivenSomethingWaitsAFewPollsForWhatTheClockTells) {
  server_->window = 64;  // the window begins at an operation that is never answered
  Connect();
  network_.hold_requests = true;
  auto late = Start(Kind::kPut, "late", "x", /*timeout_ms=*/10);
  Poll();
  clock_.AdvanceMs(11);
  int polls = 0;
  int64_t readings = 0;
  for (; !late->done(); ++polls) {
    ASSERT_LT(polls, 64);
    auto put = Start(Kind::kPut, "key", "value");
    ASSERT_EQ(network_.held_requests(), 2u);
    network_.ReleaseRequests({1});  // behind the expired one
    const int64_t before = clock_.readings;
    Operation* done[2];
    EXPECT_GE(core_->Poll(absl::MakeSpan(done)), 1);
    readings += clock_.readings - before;
    EXPECT_TRUE(put->status().ok()) << put->status();
  }
  EXPECT_EQ(late->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GT(polls, 1);
  EXPECT_LE(readings, 4);
  network_.hold_requests = false;
  network_.ReleaseRequests();
  Poll();
}

}  // namespace
}  // namespace farlook::client
