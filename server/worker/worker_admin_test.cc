// Commands of operators: list connections, and end one.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "server/replication/replication_feed.h"
#include "server/session/connection_list.h"
#include "server/session/users.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

std::vector<std::string> Lines(absl::string_view text) { return absl::StrSplit(text, '\n', absl::SkipEmpty()); }

class WorkerAdminTest : public testing::Test {
 protected:
  std::optional<TestReply> Ask(FakeCall* call, absl::string_view what) {
    return worker_.Ask(call, MakeRequest(RequestType::kAdmin, ++number_, what));
  }

  uint64_t number_ = 0;
  TestWorker worker_{32 << 20, 16, /*max_clients=*/2000};
};

TEST_F(WorkerAdminTest, ClientsAreListedWithWhatTheyDid) {
  FakeCall* call = worker_.Connect();
  FakeCall* reader = worker_.Connect(/*read_only=*/true);
  worker_.clock.now_ns += 6'000'000'000;
  worker_.CallSilently();
  worker_.PollAll();
  worker_.clock.now_ns += 1'000'000'000;
  ASSERT_EQ(worker_.Ask(call, MakePut(++number_, "key", "value"))->code, Code::kOk);
  const auto reply = Ask(call, "clients@0");
  ASSERT_EQ(reply->code, Code::kOk);
  EXPECT_EQ(reply->version, 0u);
  const std::vector<std::string> lines = Lines(reply->payload);
  ASSERT_EQ(lines.size(), 3u) << reply->payload;
  EXPECT_TRUE(absl::StartsWith(lines[0], "1\t")) << lines[0];
  EXPECT_TRUE(absl::EndsWith(lines[0], "\t-\twrite\t3\twelcome\t7\t2\t0\t0\t0")) << lines[0];
  EXPECT_TRUE(absl::StrContains(lines[1], "\t-\tread\t3\twelcome\t7\t0\t")) << lines[1];
  EXPECT_TRUE(absl::StrContains(lines[2], "\t-\t-\t3\tunproven\t1\t0\t")) << lines[2];
  // Expect: a disconnected client is not in the list.
  reader->peer.Break();
  worker_.PollAll();
  EXPECT_FALSE(absl::StrContains(Ask(call, "clients@0")->payload, "\tread\t"));
}

TEST_F(WorkerAdminTest, AThousandClientsComeInPages) {
  FakeCall* call = worker_.Connect();
  for (int i = 0; i < 999; ++i) worker_.Connect();
  uint64_t after = 0;
  size_t seen = 0;
  for (int pages = 0; pages < 100; ++pages) {
    const auto reply = Ask(call, absl::StrCat("clients@", after));
    ASSERT_EQ(reply->code, Code::kOk);
    const std::vector<std::string> lines = Lines(reply->payload);
    ASSERT_FALSE(lines.empty());
    seen += lines.size();
    EXPECT_EQ(reply->version, 1000 - seen);
    ASSERT_TRUE(absl::SimpleAtoi(lines.back().substr(0, lines.back().find('\t')), &after));
    if (reply->version == 0) break;
  }
  EXPECT_EQ(seen, 1000u);
}

TEST_F(WorkerAdminTest, WhoIsKickedLosesItsConnectionAndMayTakeUpItsSession) {
  FakeCall* call = worker_.Connect();
  FakeCall* other = worker_.Connect();
  ASSERT_EQ(worker_.Ask(other, MakePut(1, "key", "value"))->code, Code::kOk);
  EXPECT_EQ(Ask(call, "kick 9")->code, Code::kNotFound);
  const int wakes = worker_.wakes;
  EXPECT_EQ(Ask(call, "kick 2")->code, Code::kOk);
  EXPECT_GT(worker_.wakes, wakes);
  worker_.PollAll();
  EXPECT_TRUE(other->peer.closed_here);
  EXPECT_FALSE(call->peer.closed_here);
  EXPECT_EQ(worker_.worker().stats().dropped.value(), 1u);
  FakeCall* again = worker_.Call(TestWorker::HelloAfter(other, 1));
  worker_.PollAll();
  EXPECT_NE(TestWorker::WelcomeOf(again).flags & kv::Welcome::kResumed, 0u);
}

// An operator's session is read-only, so replies to its requests are not remembered: commands are executed again.
TEST_F(WorkerAdminTest, AKickThatIsAskedForAgainIsDone) {
  FakeCall* call = worker_.Connect(/*read_only=*/true);
  FakeCall* other = worker_.Connect();
  FakeCall* by_itself = worker_.Connect();
  by_itself->peer.Break();
  const kv::Request kick = MakeRequest(RequestType::kAdmin, 1, "kick 2");
  ASSERT_EQ(worker_.Ask(call, kick)->code, Code::kOk);
  ASSERT_TRUE(other->peer.closed_here);
  // Expect: if the connection is lost with that answer, the next one receives the same.
  call->peer.Break();
  FakeCall* again = worker_.Call(TestWorker::HelloAfter(call));
  worker_.PollAll();
  EXPECT_EQ(worker_.Ask(again, kick)->code, Code::kOk);
  EXPECT_EQ(worker_.Ask(again, MakeRequest(RequestType::kAdmin, 2, "kick 3"))->code, Code::kNotFound) << "not kicked";
  // Expect: a client that kicks itself loses the answer, and receives it over its next connection.
  const kv::Request itself = MakeRequest(RequestType::kAdmin, 3, "kick 4");
  worker_.Ask(again, itself);
  ASSERT_TRUE(again->peer.closed_here);
  FakeCall* last = worker_.Call(TestWorker::HelloAfter(again, 2));
  worker_.PollAll();
  EXPECT_EQ(worker_.Ask(last, itself)->code, Code::kOk);
}

TEST_F(WorkerAdminTest, WhoIsKickedWhileItWaitsForItsSessionDoesNotGetIt) {
  FakeCall* call = worker_.Connect();
  FakeCall* old = worker_.Connect();
  ASSERT_EQ(worker_.Ask(old, MakePut(1, "key", "value"))->code, Code::kOk);
  old->peer.hold_disconnected = true;
  FakeCall* next = worker_.Call(TestWorker::HelloAfter(old, 1));
  next->peer.hold_disconnected = true;
  worker_.PollAll();
  ASSERT_TRUE(old->peer.disconnecting);
  EXPECT_EQ(Ask(call, "kick 3")->code, Code::kOk);
  worker_.PollAll();
  ASSERT_TRUE(next->peer.closed_here);
  old->peer.Release();
  worker_.PollAll();
  EXPECT_EQ(worker_.worker().stats().resumed.value(), 0u);
  EXPECT_EQ(worker_.worker().stats().kept_sessions.value(), 1u);
  // Expect: the connection after it does.
  FakeCall* last = worker_.Call(TestWorker::HelloAfter(old, 1));
  worker_.PollAll();
  EXPECT_NE(TestWorker::WelcomeOf(last).flags & kv::Welcome::kResumed, 0u);
  next->peer.Release();
  worker_.PollAll();
  EXPECT_FALSE(last->peer.closed_here);
}

TEST_F(WorkerAdminTest, EachKickIsLoggedHoweverManyAreDropped) {
  FakeCall* call = worker_.Connect();
  for (int i = 0; i < 30; ++i) worker_.Connect();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 30; ++i) EXPECT_EQ(Ask(call, absl::StrCat("kick ", 2 + i))->code, Code::kOk);
  const std::string log = testing::internal::GetCapturedStderr();
  size_t kicks = 0;
  for (const std::string& line : Lines(log)) {
    if (absl::StrContains(line, "operator kicks a client")) ++kicks;
  }
  EXPECT_EQ(kicks, 30u) << log;
}

TEST_F(WorkerAdminTest, WhatIsNotKnownIsNotDone) {
  FakeCall* call = worker_.Connect();
  for (const char* what :
       {"", "clients", "clients@", "clients@-1", "kick", "kick x", "kick 99999999999999999999", "no"}) {
    EXPECT_EQ(Ask(call, what)->code, Code::kUnsupported) << what;
  }
  EXPECT_EQ(worker_.worker().stats().dropped.value(), 0u);
}

TEST(WorkerAdminOfUsersTest, OnlyTheRoleAdminIsAnswered) {
  const auto make = [](const std::string& name, uint32_t uid, bool may_write, bool admin) {
    User user;
    user.name = name;
    user.uids = {uid};
    user.may_write = may_write;
    user.admin = admin;
    return user;
  };
  Users users(
      std::make_shared<const UserList>(std::vector<User>{make("app", 1, true, false), make("ops", 2, false, true)}));
  TestWorker worker(32 << 20, 16, 100, 3, &users);
  const auto enter = [&](uint32_t uid) {
    FakeCall* call = worker.CallSilently();
    call->credentials = rdma::PeerCredentials{1, uid, {}};
    call->first = kv::Hello().Encode();
    worker.PollAll();
    return call;
  };
  FakeCall* app = enter(1);
  FakeCall* ops = enter(2);
  EXPECT_EQ(worker.Ask(app, MakeRequest(RequestType::kAdmin, 1, "clients@0"))->code, Code::kNotAllowed);
  EXPECT_EQ(worker.Ask(app, MakeRequest(RequestType::kAdmin, 2, "kick 2"))->code, Code::kNotAllowed);
  EXPECT_FALSE(ops->peer.closed_here);
  const auto reply = worker.Ask(ops, MakeRequest(RequestType::kAdmin, 1, "clients@0"));
  ASSERT_EQ(reply->code, Code::kOk);
  EXPECT_TRUE(absl::StrContains(reply->payload, "\tapp\twrite\t")) << reply->payload;
  EXPECT_TRUE(absl::StrContains(reply->payload, "\tops\tread,admin\t")) << reply->payload;
  EXPECT_EQ(worker.Ask(ops, MakeRequest(RequestType::kAdmin, 2, "kick 1"))->code, Code::kOk);
  worker.PollAll();
  EXPECT_TRUE(app->peer.closed_here);
}

TEST(WorkerAdminOfUsersTest, TheRoleAdminHasAPlaceWhereTheServerIsFull) {
  User app, ops;
  app.name = "app";
  app.uids = {0};
  app.may_write = true;
  ops.name = "ops";
  ops.uids = {2};
  ops.admin = true;
  Users users(std::make_shared<const UserList>(std::vector<User>{app, ops}));
  TestWorker worker(32 << 20, 16, /*max_clients=*/1, 3, &users);
  const auto enter = [&](FakeCall* call, uint32_t uid) {
    call->credentials = rdma::PeerCredentials{1, uid, {}};
    worker.PollAll();
    return call;
  };
  EXPECT_TRUE(TestWorker::Welcome(enter(worker.Call(kv::Hello()), 0)));
  for (size_t i = 0; i <= ConnectionQuota::kForProbes; ++i) {
    FakeCall* const call = enter(worker.CallAsOperator(), 2);
    EXPECT_TRUE(TestWorker::Welcome(call));
    call->peer.Break();
    worker.PollAll();
  }
  // Expect: without the role it gets a probe's place, root or not.
  FakeCall* const probe = enter(worker.CallAsOperator(), 0);
  EXPECT_EQ(worker.Ask(probe, MakeRequest(RequestType::kPing, 1))->code, Code::kOk);
  EXPECT_EQ(worker.Ask(probe, MakeRequest(RequestType::kAdmin, 2, "clients@0"))->code, Code::kNotAllowed);
  EXPECT_EQ(TestWorker::RejectOf(enter(worker.Call(kv::Hello()), 2)).code, kv::RefusalCode::kFull);
}

// Has no records, and lets every backup follow.
class NoRecords : public RecordSource {
 public:
  absl::StatusOr<FeedId> Admit(const kv::Follow& /*follow*/) override { return FeedId(); }
  Known known() const override { return {}; }
  absl::StatusOr<std::optional<Start>> StartOf(const FeedId& /*feed*/) override { return Start(); }
  absl::StatusOr<std::optional<cluster::OutgoingBatch>> NextBatch(const FeedId& /*feed*/, size_t /*most_bytes*/,
                                                                  uint64_t /*clock_us*/, bool /*alone*/) override {
    return std::nullopt;
  }
  absl::Status Accepted(const FeedId& /*feed*/, const Acceptance& /*acceptance*/) override { return absl::OkStatus(); }
  void Gone(const FeedId& /*feed*/) override {}
};

TEST(WorkerBackupsTest, ABackupIsListedAsOne) {
  NoRecords records;
  TestWorker worker(32 << 20, 16, 100, 3, /*users=*/nullptr, kTestWindow, /*evict=*/false, /*stream=*/nullptr,
                    /*figures_ms=*/0, &records);
  FakeCall* call = worker.Connect();
  FakeCall* backup = worker.Connect(/*read_only=*/true);
  backup->peer.Send(kv::Follow{.incarnation = 7, .epoch = 1}.Encode());
  worker.PollAll();
  const auto reply = worker.Ask(call, MakeRequest(RequestType::kAdmin, 1, "clients@1"));
  EXPECT_TRUE(absl::StrContains(reply->payload, "\t-\tread\t3\tbackup\t")) << reply->payload;
}

}  // namespace
}  // namespace farlook::server
