// Connecting ClientCore to its server: greetings, refusals, deadlines on the server's clock, goodbye.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/testing/core_testing.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"

namespace farlook::client {
namespace {

using absl::StatusCode;

class CoreLinkTest : public CoreTest {
 protected:
  kv::Request LastRequest() { return *kv::Request::Decode(network_.sent.back()); }
};

TEST_F(CoreLinkTest, TheDirectoryIsReadWhileTheServerAnswersTheHello) {
  server_->Put("key", "value");
  MakeCore();
  core_->Connect();
  network_.hold_requests = true;
  Poll();
  EXPECT_GT(network_.reads, 0);
  EXPECT_EQ(network_.held_requests(), 1);
  EXPECT_FALSE(core_->ready());
  auto get = Start(Kind::kGet, "key");
  auto put = Start(Kind::kPut, "other", "value");
  Poll();
  // Expect: only the Hello was sent before the Welcome.
  EXPECT_EQ(network_.held_requests(), 1);
  const uint64_t reads = network_.reads;
  network_.hold_requests = false;
  network_.ReleaseRequests();
  Poll();
  EXPECT_TRUE(core_->ready());
  EXPECT_EQ(get->result, "value");
  EXPECT_TRUE(put->status().ok()) << put->status();
  EXPECT_EQ(network_.reads - reads, 2) << "of the get alone";
  ExpectNoViolations();
}

TEST_F(CoreLinkTest, TheWelcomeMayComeBeforeTheDirectory) {
  server_->Put("key", "value");
  MakeCore();
  core_->Connect();
  network_.hold_reads = true;
  Poll();
  EXPECT_EQ(network_.held_requests(), 0);
  EXPECT_FALSE(core_->ready());
  network_.hold_reads = false;
  network_.ReleaseReads();
  Poll();
  EXPECT_TRUE(core_->ready());
  EXPECT_EQ(Get("key"), "value");
}

TEST_F(CoreLinkTest, RefusalsHaveCodesThatOperationsEndWith) {
  const struct {
    kv::RefusalCode code;
    StatusCode status;
  } kRefusals[] = {{kv::RefusalCode::kShuttingDown, StatusCode::kUnavailable},
                   {kv::RefusalCode::kFull, StatusCode::kResourceExhausted},
                   {kv::RefusalCode::kNotAllowed, StatusCode::kPermissionDenied},
                   {kv::RefusalCode::kVersion, StatusCode::kFailedPrecondition}};
  for (const bool with_the_connection : {true, false}) {
    for (const auto& [code, status] : kRefusals) {
      SCOPED_TRACE(static_cast<int>(code));
      if (with_the_connection) {
        kv::RejectData reject;
        reject.code = code;
        reject.text = "the reason";
        // Like a transport that puts the refusing address first.
        network_.reject = absl::PermissionDeniedError("rdma://host:1: " + reject.Encode(rdma::kMaxRejectBytes));
      } else {
        network_.reject = absl::OkStatus();
        server_->refusal.code = code;
        server_->refusal.text = "the reason";
      }
      MakeCore();
      auto put = Start(Kind::kPut, "key", "value");
      Poll();
      ASSERT_TRUE(put->done());
      EXPECT_EQ(put->code(), status);
      EXPECT_EQ(put->status().message(), "the reason");
    }
  }
}

// An error of this host about a device that was removed is not the server's refusal: the device may come back.
TEST_F(CoreLinkTest, ADeviceThatIsGoneMakesTheServerUnavailable) {
  network_.reject = absl::FailedPreconditionError("the address is not one of an interface with an RDMA device");
  MakeCore();
  auto put = Start(Kind::kPut, "key", "value");
  Poll();
  ASSERT_TRUE(put->done());
  EXPECT_EQ(put->code(), StatusCode::kUnavailable);
}

// A server shuts down under a client: an operation that was not sent is not executed, and its status says so.
TEST_F(CoreLinkTest, AServerThatShutsDownIsUnavailable) {
  Connect();
  network_.hold_requests = true;
  auto sent = Start(Kind::kPut, "key", "value");
  Poll();
  kv::Reply reply;
  reply.code = kv::Code::kShuttingDown;
  reply.number = 1;
  char head[kv::Reply::kHeaderBytes];
  reply.EncodeHead(head);
  network_.Inject({head, sizeof head});
  Poll();
  EXPECT_EQ(sent->code(), StatusCode::kUnavailable);
  server_->refusal.code = kv::RefusalCode::kShuttingDown;
  server_->refusal.text = "the server is shutting down";
  network_.hold_requests = false;
  network_.Break();
  EXPECT_EQ(Do(Kind::kPut, "key", "value")->code(), StatusCode::kUnavailable);
  EXPECT_EQ(Do(Kind::kGet, "key")->code(), StatusCode::kUnavailable);
}

TEST_F(CoreLinkTest, WhoWantsToWaitsForAServerThatIsFull) {
  options_.wait_for_server = true;
  server_->refusal.code = kv::RefusalCode::kFull;
  server_->refusal.text = "1024 clients";
  server_->refusal.retry_after_ms = 30;
  MakeCore();
  core_->Connect();
  auto put = Start(Kind::kPut, "key", "value", 500);
  auto late = Start(Kind::kPut, "late", "value", 20);
  PollFor(25, put->operation);
  EXPECT_FALSE(put->done());
  EXPECT_EQ(network_.connects, 1) << "not before the time that the server asked for";
  EXPECT_EQ(late->code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(late->status().message().find("1024 clients"), absl::string_view::npos) << late->status();
  server_->refusal.text.clear();
  PollFor(100, put->operation);
  EXPECT_TRUE(put->status().ok()) << put->status();
  EXPECT_GE(network_.connects, 2);
}

TEST_F(CoreLinkTest, WhoWantsToWaitsForAServerThatIsNotThereYet) {
  options_.wait_for_server = true;
  network_.server = nullptr;
  MakeCore();
  auto put = Start(Kind::kPut, "key", "value", 5000);
  PollFor(1000, put->operation);
  EXPECT_FALSE(put->done());
  EXPECT_GE(network_.connects, 4);
  network_.server = server_.get();
  PollFor(options_.max_backoff_ms + 1, put->operation);
  EXPECT_TRUE(put->status().ok()) << put->status();
  // Expect: operations do not wait for a permanent refusal to pass.
  network_.reject = absl::PermissionDeniedError("uid 1000 may not connect");
  network_.Break();
  EXPECT_EQ(Do(Kind::kPut, "key", "value")->code(), StatusCode::kPermissionDenied);
}

// Bounds the trust in addresses that a server reports.
TEST_F(CoreLinkTest, AddressesThatServersMakeUpAreFewAndAreNotTriedWithoutAPause) {
  for (const char* const scheme : {"fake", "other"}) {
    SCOPED_TRACE(scheme);
    network_.connects = 0;
    server_->refusal.code = kv::RefusalCode::kNotPrimary;
    MakeCore();
    auto put = Start(Kind::kPut, "key", "value", 5000);
    Operation* done[1];
    for (int i = 0; i < 20'000; ++i) {
      server_->refusal.text = absl::StrCat(scheme, "://", i);  // a different one each time
      core_->Poll(absl::MakeSpan(done));
      if (i % 10 == 0) clock_.AdvanceMs(1);
    }
    EXPECT_FALSE(put->done()) << put->status();
    EXPECT_GE(network_.connects, 10);
    EXPECT_LE(network_.connects, 500);
    server_->refusal.text.clear();
    PollFor(1000, put->operation);
    EXPECT_TRUE(put->status().ok()) << put->status();
  }
}

// Slow is not gone: only the transport decides that.
TEST_F(CoreLinkTest, AServerThatIsSlowToWelcomeIsWaitedForAndOperationsEndInTime) {
  MakeCore();
  network_.hold_requests = true;
  auto put = Start(Kind::kPut, "key", "value", 50);
  auto get = Start(Kind::kGet, "key", "", 50);
  PollFor(51, put->operation);
  Poll();
  EXPECT_EQ(put->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(get->code(), StatusCode::kDeadlineExceeded);
  auto later = Start(Kind::kPut, "key", "later");
  network_.hold_requests = false;
  network_.ReleaseRequests();
  Poll();
  EXPECT_TRUE(later->status().ok()) << later->status();
  EXPECT_EQ(network_.connects, 1);
  EXPECT_EQ(server_->executed, 1);
}

TEST_F(CoreLinkTest, AClientSaysGoodbye) {
  Connect();
  EXPECT_TRUE(Put("key", "value").ok());
  EXPECT_EQ(server_->sessions(), 1);
  core_.reset();
  EXPECT_EQ(server_->sessions(), 0);
  ExpectNoViolations();
}

TEST_F(CoreLinkTest, AGoodbyeThatFindsNoRoomIsNotWaitedFor) {
  Connect();
  EXPECT_TRUE(Put("key", "value").ok());
  network_.send_room = 0;
  core_.reset();
  EXPECT_EQ(server_->sessions(), 1);
}

TEST_F(CoreLinkTest, RequestsSayOnTheServersClockWhenTheyAreOver) {
  server_->time_us = 77'000'000;
  Connect();
  const auto left_us = [this] { return static_cast<int64_t>(LastRequest().deadline_us - server_->time_us); };
  auto put = Start(Kind::kPut, "key", "value", 400);
  EXPECT_GE(left_us(), 400'000);
  EXPECT_LE(left_us(), 401'000);
  Poll();
  // Expect: a reply updates the knowledge of the clock, if it is older than a second.
  clock_.AdvanceMs(5000);
  server_->time_us += 6'000'000;  // it runs fast
  EXPECT_TRUE(Put("key", "value").ok());
  put = Start(Kind::kPut, "key", "value", 400);
  EXPECT_GE(left_us(), 400'000);
  EXPECT_LE(left_us(), 403'000);  // a poll of this test takes a millisecond
  Poll();
  // Expect: the same for requests of blocking calls.
  OwnedOperation waiting(Kind::kPut, "key", "value");
  Operation* operations[] = {&waiting.operation};
  core_->StartUntimed(operations);
  EXPECT_GE(left_us(), options_.timeout_ms * 1000);
  EXPECT_LE(left_us(), options_.timeout_ms * 1000 + 3000);
  EXPECT_NE(waiting.operation.deadline_ns, ClientCore::kNoDeadline);
  Poll();
}

TEST_F(CoreLinkTest, AWriteWhoseTimeIsOverIsNotDoneLater) {
  for (const size_t bytes : {size_t{5}, size_t{100'000}}) {
    SCOPED_TRACE(bytes);
    server_ = std::make_unique<MiniServer>(4711);
    network_.server = server_.get();
    Connect();
    network_.hold_requests = true;
    auto late = Start(Kind::kPut, "key", Pattern(bytes), 20);
    PollFor(21, late->operation);
    Poll();
    ASSERT_EQ(late->code(), StatusCode::kDeadlineExceeded);
    network_.hold_requests = false;
    // The connection breaks, and minutes later the client is used again.
    network_.Break();
    Poll();
    clock_.AdvanceMs(300'000);
    server_->time_us += 1000;  // hardly any time passed on the server's clock, as far as the request could tell
    EXPECT_TRUE(Put("key", "later").ok());
    EXPECT_EQ(Get("key"), "later");
    EXPECT_EQ(server_->executed, 1);
    EXPECT_EQ(core_->stats().resent_requests, 1);
    ExpectNoViolations();
    core_.reset();
  }
}

TEST_F(CoreLinkTest, WhatTheServerDidNotBeginInTimeIsDeadlineExceeded) {
  Connect();
  network_.hold_requests = true;
  auto put = Start(Kind::kPut, "key", "value", 20);
  Poll();
  server_->time_us += 25'000;  // the client's clock is a little slower
  network_.hold_requests = false;
  network_.ReleaseRequests();
  Poll();
  EXPECT_EQ(put->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(server_->executed, 0);
  EXPECT_NE(put->status().message().find("nothing was done"), absl::string_view::npos) << put->status();
}

// The server's host or the client's was suspended: the clocks do not match the client's estimate, and less than a
// second has passed.
TEST_F(CoreLinkTest, AClockThatJumpedRefusesOneRequestAndNotAllOfASecond) {
  Connect();
  server_->time_us += 10'000'000;
  EXPECT_EQ(Put("key", "value").code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Put("key", "value").ok());
  EXPECT_EQ(server_->executed, 1);
}

}  // namespace
}  // namespace farlook::client
