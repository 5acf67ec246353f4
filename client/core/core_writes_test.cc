// Writes of ClientCore when connections and servers are lost: numbering, window, resending.
#include "client/testing/core_testing.h"
#include "kv/wire/message.h"

namespace farlook::client {
namespace {

uint64_t NumberOf(const std::string& message) { return kv::Request::Decode(message)->number; }

TEST_F(CoreTest, WritesAnswerAsTheirConditionsSay) {
  Connect();
  EXPECT_EQ(PutIf(Condition::IfPresent(), "key", "x")->code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(PutIf(Condition::IfAbsent(), "key", "one")->status().ok());
  EXPECT_EQ(PutIf(Condition::IfAbsent(), "key", "x")->code(), absl::StatusCode::kAlreadyExists);
  auto replace = PutIf(Condition::IfPresent(), "key", "two");
  EXPECT_TRUE(replace->status().ok());
  EXPECT_EQ(Get("key"), "two");
  const uint64_t version = replace->operation.version;
  EXPECT_NE(version, 0);

  auto set = PutIf(Condition::IfVersion(version), "key", "three");
  EXPECT_TRUE(set->status().ok()) << set->status();
  EXPECT_NE(set->operation.version, version);
  // Expect: the version has been used up.
  auto again = PutIf(Condition::IfVersion(version), "key", "four");
  EXPECT_EQ(again->code(), absl::StatusCode::kAborted);
  EXPECT_EQ(again->operation.version, set->operation.version);
  EXPECT_EQ(Get("key"), "three");

  // A delete may have conditions. IfAbsent is invalid for it.
  for (const Condition wrong : {Condition::IfVersion(version), Condition::IfAbsent()}) {
    OwnedOperation stale(Kind::kDelete, "key", "", wrong);
    core_->Start(&stale.operation);
    Poll();
    EXPECT_EQ(stale.code(), wrong.kind() == Condition::Kind::kIfAbsent ? absl::StatusCode::kInvalidArgument
                                                                       : absl::StatusCode::kAborted);
  }
  OwnedOperation remove(Kind::kDelete, "key", "", Condition::IfVersion(set->operation.version));
  core_->Start(&remove.operation);
  Poll();
  EXPECT_TRUE(remove.status().ok()) << remove.status();
  EXPECT_TRUE(Put("key", "value").ok());

  EXPECT_TRUE(Do(Kind::kDelete, "key")->status().ok());
  EXPECT_EQ(Do(Kind::kDelete, "key")->code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Do(Kind::kPing, "")->status().ok());
  auto stat = Do(Kind::kStat, "");
  EXPECT_EQ(stat->result.substr(0, 9), "executed ");
  ExpectNoViolations();
}

TEST_F(CoreTest, LargeValuesArePulled) {
  Connect();
  for (size_t bytes : {4000, 4053, 4054, 5000, 64 << 10, 3 << 20}) {
    SCOPED_TRACE(bytes);
    const std::string value = Pattern(bytes);
    EXPECT_TRUE(Put("key", value).ok());
    EXPECT_TRUE(Get("key") == value);
  }
  EXPECT_EQ(core_->stats().pulled_values, 4);
  ExpectNoViolations();
}

TEST_F(CoreTest, ValuesAboveTheServersLimitAreRefused) {
  server_->max_value_bytes = 10'000;
  Connect();
  EXPECT_TRUE(Put("key", Pattern(10'000)).ok());
  EXPECT_EQ(Put("key", Pattern(10'001)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Put("key", "x").ok());
  ExpectNoViolations();
}

TEST_F(CoreTest, AReadOnlyClientDoesNotWrite) {
  options_.read_only = true;
  server_->Put("key", "value");
  Connect();
  EXPECT_EQ(Put("key", "x").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(server_->executed, 0);
}

TEST_F(CoreTest, NeverSendsBeforeTheWindowAllows) {
  server_->window = 4;
  Connect();
  network_.hold_requests = true;
  std::vector<std::unique_ptr<OwnedOperation>> puts;
  for (int i = 0; i < 12; ++i) puts.push_back(Start(Kind::kPut, "key" + std::to_string(i), "value"));
  Poll();
  ASSERT_EQ(network_.held_requests(), 4);
  // The replies to 2, 3 and 4 free nothing: 5 may not be sent before 1 is answered.
  network_.ReleaseRequests({1, 2, 3});
  EXPECT_EQ(Poll(), 3);
  EXPECT_EQ(network_.held_requests(), 1);
  network_.ReleaseRequests({0});
  EXPECT_EQ(Poll(), 1);
  EXPECT_EQ(network_.held_requests(), 4);
  network_.hold_requests = false;
  network_.ReleaseRequests();
  EXPECT_EQ(Poll(), 8);
  for (size_t i = 0; i < network_.sent.size(); ++i) EXPECT_EQ(NumberOf(network_.sent[i]), i + 1);
  ExpectNoViolations();
}

TEST_F(CoreTest, AFullRingDelaysAndSkipsNoNumber) {
  Connect();
  network_.send_room = 1;
  std::vector<std::unique_ptr<OwnedOperation>> puts;
  for (int i = 0; i < 3; ++i) puts.push_back(Start(Kind::kPut, "key", Pattern(i == 1 ? 9000 : 10)));
  EXPECT_EQ(Poll(), 1);
  // The put at the head of the queue, whose value was already copied for the server, ends by its deadline.
  puts.push_back(Start(Kind::kPut, "late", "value", /*timeout_ms=*/5000));
  clock_.AdvanceMs(options_.timeout_ms);
  EXPECT_EQ(Poll(), 2);
  EXPECT_EQ(puts[1]->code(), absl::StatusCode::kDeadlineExceeded);
  network_.send_room = SIZE_MAX;
  EXPECT_EQ(Poll(), 1);
  EXPECT_TRUE(puts[3]->status().ok());
  EXPECT_EQ(server_->executed, 2);
  ExpectNoViolations();
}

TEST_F(CoreTest, AWriteThatTimedOutKeepsNumberCreditAndMemoryUntilAnswered) {
  server_->window = 3;
  Connect();
  network_.hold_requests = true;
  auto first = Start(Kind::kPut, "a", "1", 10), second = Start(Kind::kPut, "b", Pattern(9000, 1), 10);
  Poll();
  clock_.AdvanceMs(10);
  EXPECT_EQ(Poll(), 2);
  EXPECT_EQ(first->code(), absl::StatusCode::kDeadlineExceeded);
  // The caller's memory is gone. The library keeps what it needs, and does not reuse it.
  first.reset();
  second.reset();
  auto third = Start(Kind::kPut, "c", Pattern(9000, 2)), fourth = Start(Kind::kPut, "d", "4");
  Poll();
  EXPECT_EQ(network_.held_requests(), 3) << "a credit was given back before its answer";
  network_.hold_requests = false;
  network_.ReleaseRequests();
  Poll();
  EXPECT_TRUE(third->status().ok());
  EXPECT_TRUE(fourth->status().ok());
  EXPECT_EQ(Get("a"), "1");
  EXPECT_TRUE(Get("b") == Pattern(9000, 1));
  EXPECT_TRUE(Get("c") == Pattern(9000, 2));
  ExpectNoViolations();
}

TEST_F(CoreTest, ABrokenConnectionIsResumedAndNothingIsDoneTwice) {
  Connect();
  network_.hold_requests = true;
  std::vector<std::unique_ptr<OwnedOperation>> puts;
  for (int i = 0; i < 5; ++i) puts.push_back(Start(Kind::kPut, "key" + std::to_string(i), Pattern(i == 3 ? 9000 : 9)));
  Poll();
  // 2 and 4 are answered; 1 and 5 are executed, but the replies are lost; 3 never arrives. The order varies.
  network_.ReleaseRequests({1, 3});
  EXPECT_EQ(Poll(), 2);
  network_.lose_replies = true;
  network_.ReleaseRequests({0, 2});
  network_.lose_replies = false;
  EXPECT_EQ(server_->executed, 4);
  const size_t sent = network_.sent.size();
  network_.Break();
  network_.hold_requests = false;
  EXPECT_EQ(Poll(), 3);
  for (const auto& put : puts) EXPECT_TRUE(put->status().ok()) << put->status();
  EXPECT_EQ(server_->executed, 5);
  EXPECT_EQ(network_.sent.size(), sent + 3);
  EXPECT_EQ(core_->stats().resent_requests, 3);
  EXPECT_EQ(core_->stats().reconnects, 1);
  ExpectNoViolations();
}

TEST_F(CoreTest, WhatTimedOutIsSentAgainToo) {
  Connect();
  network_.hold_requests = true;
  auto small = Start(Kind::kPut, "small", "value", 10), large = Start(Kind::kPut, "large", Pattern(9000), 10);
  Poll();
  network_.lose_replies = true;
  network_.ReleaseRequests();
  network_.lose_replies = false;
  clock_.AdvanceMs(10);
  EXPECT_EQ(Poll(), 2);
  small.reset();
  large.reset();
  network_.Break();
  network_.hold_requests = false;
  EXPECT_TRUE(Put("next", "value").ok());
  EXPECT_EQ(core_->stats().resent_requests, 2);
  EXPECT_EQ(server_->executed, 3);
  ExpectNoViolations();  // a number that is sent again carries the same contents
}

TEST_F(CoreTest, ValuesArePulledByTheKeysOfTheConnection) {
  Connect();
  network_.hold_requests = true;
  // The first has expired when it is sent again: its memory is still named, but not pulled from.
  auto expired = Start(Kind::kPut, "expired", Pattern(9000, 1), 10),
       waiting = Start(Kind::kPut, "waiting", Pattern(9000, 2));
  Poll();
  clock_.AdvanceMs(10);
  EXPECT_EQ(Poll(), 1);
  expired.reset();
  network_.Break();
  network_.ChangeKeys();
  network_.hold_requests = false;
  EXPECT_EQ(Poll(), 1);
  EXPECT_TRUE(waiting->status().ok()) << waiting->status();
  EXPECT_EQ(core_->stats().resent_requests, 2);
  EXPECT_EQ(Do(Kind::kGet, "expired")->code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Get("waiting") == Pattern(9000, 2));
  ExpectNoViolations();
}

TEST_F(CoreTest, AResumptionThatBreaksAgainIsTakenUpAgain) {
  Connect();
  network_.hold_requests = true;
  std::vector<std::unique_ptr<OwnedOperation>> puts;
  for (int i = 0; i < 6; ++i) puts.push_back(Start(Kind::kPut, "key" + std::to_string(i), "value"));
  Poll();
  for (int i = 0; i < 5; ++i) {
    network_.Break();
    network_.send_room = 2;  // only some are sent again before it breaks once more
    for (int ms = 0; ms < 40; ++ms) {
      Poll();
      clock_.AdvanceMs(1);
    }
    network_.ReleaseRequests({0});
    Poll();
  }
  network_.send_room = SIZE_MAX;
  network_.hold_requests = false;
  network_.Break();
  PollFor(100, puts.back()->operation);
  for (const auto& put : puts) EXPECT_TRUE(put->status().ok()) << put->status();
  EXPECT_EQ(server_->executed, 6);
  ExpectNoViolations();
}

TEST_F(CoreTest, WithTheSessionGoneTheOutcomeIsUnknownAndNothingIsSentAgain) {
  server_->window = 2;
  Connect();
  network_.hold_requests = true;
  std::vector<std::unique_ptr<OwnedOperation>> puts;
  for (int i = 0; i < 4; ++i) puts.push_back(Start(Kind::kPut, "key" + std::to_string(i), "value"));
  auto expired = Start(Kind::kPut, "key9", "value", 1);
  auto ping = Start(Kind::kPing, "");
  Poll();
  server_->ForgetSessions();
  network_.Break();
  network_.hold_requests = false;
  Poll();
  // Expect: writes that were sent are unknown, the others are executed in a session that begins at 1.
  EXPECT_EQ(puts[0]->code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(puts[1]->code(), absl::StatusCode::kUnknown);
  EXPECT_TRUE(puts[2]->status().ok());
  EXPECT_TRUE(puts[3]->status().ok());
  EXPECT_TRUE(ping->status().ok());
  EXPECT_EQ(Do(Kind::kGet, "key0")->code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(core_->stats().incarnation_changes, 0);
  ExpectNoViolations();
}

TEST_F(CoreTest, AnotherIncarnationIsNoticedAndSaid) {
  options_.mirror_bytes = 1 << 20;
  server_->window = 1;
  Connect();
  EXPECT_TRUE(Put("key", "value").ok());
  network_.hold_requests = true;
  auto sent = Start(Kind::kPut, "key", "x");
  auto queued = Start(Kind::kPut, "queued", "y");
  OwnedOperation set(Kind::kPut, "key", "z", Condition::IfVersion(1));
  core_->Start(&set.operation);
  Poll();
  MiniServer restarted(4712);
  network_.server = &restarted;
  network_.Break();
  network_.hold_requests = false;
  Poll();
  EXPECT_EQ(sent->code(), absl::StatusCode::kUnknown);
  EXPECT_NE(sent->status().message().find("incarnation"), absl::string_view::npos) << sent->status();
  EXPECT_TRUE(queued->status().ok());
  EXPECT_EQ(set.code(), absl::StatusCode::kAborted);  // its version belongs to another table
  EXPECT_EQ(core_->incarnation(), 4712);
  EXPECT_EQ(core_->stats().incarnation_changes, 1);
  EXPECT_EQ(Do(Kind::kGet, "key")->code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Get("queued"), "y");
  EXPECT_EQ(core_->stats().stale_locations, 0);
  EXPECT_TRUE(restarted.violations.empty());
  core_.reset();  // before the server that it sends its goodbye to
}

TEST_F(CoreTest, AGetThatFindsAnEmptiedTableSaysWhy) {
  Connect();
  EXPECT_TRUE(Put("key", "value").ok());
  MiniServer restarted(4712);
  network_.server = &restarted;
  network_.Break();
  auto get = Do(Kind::kGet, "key");
  EXPECT_EQ(get->code(), absl::StatusCode::kNotFound);
  EXPECT_NE(get->status().message().find("incarnation"), absl::string_view::npos) << get->status();
  // Expect: only once.
  EXPECT_EQ(Do(Kind::kGet, "key")->status().message().find("incarnation"), absl::string_view::npos);
  core_.reset();  // before the server that it sends its goodbye to
}

TEST_F(CoreTest, WithNoServerOperationsFailAtOnce) {
  Connect();
  network_.hold_requests = true;
  auto sent = Start(Kind::kPut, "key", "value");
  Poll();
  network_.server = nullptr;
  network_.Break();
  Poll();
  EXPECT_EQ(sent->code(), absl::StatusCode::kUnknown);
  auto put = Start(Kind::kPut, "key", "value");
  auto get = Start(Kind::kGet, "key");
  EXPECT_EQ(Poll(), 2);
  EXPECT_EQ(put->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(get->code(), absl::StatusCode::kUnavailable);
  // Expect: pauses between attempts grow, however many operations fail meanwhile.
  const uint64_t connects = network_.connects;
  for (int i = 0; i < 2000; ++i) {
    auto one = Start(Kind::kGet, "key");
    EXPECT_EQ(Poll(), 1);
    EXPECT_EQ(one->code(), absl::StatusCode::kUnavailable);
    clock_.AdvanceMs(1);
  }
  EXPECT_LE(network_.connects - connects, 40);
  EXPECT_GE(network_.connects - connects, 8);
  // Expect: when the server is back, an operation finds it.
  network_.server = server_.get();
  network_.hold_requests = false;
  clock_.AdvanceMs(options_.max_backoff_ms);
  EXPECT_TRUE(Put("key", "value").ok());
  EXPECT_EQ(core_->stats().incarnation_changes, 0);
}

TEST_F(CoreTest, AnIdleClientMakesNoAttempts) {
  Connect();
  network_.Break();
  const uint64_t connects = network_.connects;
  for (int i = 0; i < 1000; ++i) {
    Poll();
    clock_.AdvanceMs(10);
  }
  EXPECT_EQ(network_.connects, connects);
  EXPECT_EQ(core_->wait_ms(), -1);
  EXPECT_TRUE(Put("key", "value").ok());
}

TEST_F(CoreTest, AServerThatDoesNotAnswerTheHandshakeCostsTheDeadlineAndNoMore) {
  Connect();
  network_.accepting = false;
  network_.Break();
  auto get = Start(Kind::kGet, "key", "", 20), put = Start(Kind::kPut, "key", "value", 30);
  Poll();
  clock_.AdvanceMs(20);
  EXPECT_EQ(Poll(), 1);
  EXPECT_EQ(get->code(), absl::StatusCode::kDeadlineExceeded);
  clock_.AdvanceMs(10);
  EXPECT_EQ(Poll(), 1);
  EXPECT_EQ(put->code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(CoreTest, AServersReasonToRefuseIsPassedOn) {
  network_.reject = absl::PermissionDeniedError("uid 1000 may not connect");
  MakeCore();
  core_->Connect();
  Poll();
  EXPECT_FALSE(core_->ready());
  EXPECT_EQ(core_->refused(), network_.reject);
  auto get = Start(Kind::kGet, "key");
  Poll();
  EXPECT_EQ(get->status(), network_.reject);
}

TEST_F(CoreTest, NonsenseFromTheServerBreaksTheConnectionAndNothingElse) {
  Connect();
  const std::string header(kv::Reply::kHeaderBytes, '\0');
  std::string from_the_future = header;
  from_the_future[8] = 77;
  for (const std::string& nonsense : {std::string("short"), header, from_the_future, std::string(200, '\xff')}) {
    const uint64_t connects = network_.connects;
    network_.Inject(nonsense);
    auto put = Start(Kind::kPut, "key", "value");
    PollFor(300, put->operation);
    EXPECT_TRUE(put->status().ok()) << put->status();
    EXPECT_EQ(network_.connects, connects + 1);
  }
  ExpectNoViolations();
}

TEST_F(CoreTest, AServerThatRefusesItsMemoryIsTriedAgainWithPauses) {
  Connect();
  server_->Put("key", "value");
  network_.rkey = 8;  // the server now announces another rkey
  auto get = Start(Kind::kGet, "key", "", 500);
  const uint64_t connects = network_.connects;
  get->operation.timeout_ms = 500;
  PollFor(10, get->operation);
  EXPECT_EQ(get->result, "value") << "a new connection brings the new key";
  EXPECT_EQ(network_.connects, connects + 1);
}

TEST_F(CoreTest, GivesUpWhatIsInFlightWhenDestroyed) {
  Connect();
  network_.hold_reads = true;
  network_.hold_requests = true;
  auto get = Start(Kind::kGet, "key"), put = Start(Kind::kPut, "key", Pattern(9000));
  Poll();
  core_.reset();
  EXPECT_FALSE(get->done());
}

}  // namespace
}  // namespace farlook::client
