// Authentication at a worker that has users, and the permissions of each user.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "kv/wire/proof.h"
#include "server/session/connection_quota.h"
#include "server/session/session.h"
#include "server/session/users.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RefusalCode;
using kv::RequestType;
using ::testing::HasSubstr;

constexpr char kSecret[] = "app's own secret, of 32 or more characters";
constexpr char kReaderSecret[] = "report's own secret, of 32 or more characters";

User MakeUser(const std::string& name, const std::string& secret, bool may_write) {
  User user;
  user.name = name;
  user.secret = secret;
  user.may_write = may_write;
  return user;
}

std::shared_ptr<const UserList> ThreeUsers() {
  User local = MakeUser("local", "", /*may_write=*/false);
  local.uids = {1000};
  return std::make_shared<const UserList>(std::vector<User>{
      MakeUser("app", kSecret, /*may_write=*/true), MakeUser("report", kReaderSecret, /*may_write=*/false), local});
}

class WorkerUsersTest : public testing::Test {
 protected:
  // Returns a connection of a client that claims to be `user`, up to the Challenge.
  FakeCall* Begin(const std::string& user, kv::Hello hello = {}) {
    hello.user = user;
    hello.nonce = kv::RandomNonce();
    FakeCall* call = worker_.Call(hello);
    worker_.PollAll();
    return call;
  }
  static kv::Transcript TranscriptOf(const FakeCall* call) {
    return {call->first, call->peer.first, TestWorker::AcceptOf(call).incarnation, call->peer.server_address};
  }
  // Returns the answer to the Proof: a Welcome or a Refusal.
  std::string Prove(FakeCall* call, const kv::Mac& mac) {
    kv::Proof proof;
    proof.mac = mac;
    call->peer.Send(proof.Encode());
    worker_.PollAll();
    if (call->peer.sent.empty()) return "";
    std::string answer = call->peer.sent.front();
    call->peer.sent.pop_front();
    return answer;
  }
  std::string Prove(FakeCall* call, const std::string& secret) {
    return Prove(call, kv::ClientProof(secret, TranscriptOf(call)));
  }
  FakeCall* Enter(const std::string& user, const std::string& secret, kv::Welcome* welcome, kv::Hello hello = {}) {
    FakeCall* call = Begin(user, std::move(hello));
    auto decoded = kv::Welcome::Decode(Prove(call, secret));
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    if (decoded.ok()) *welcome = *decoded;
    return call;
  }
  static RefusalCode CodeOf(const std::string& message) {
    auto refusal = kv::Refusal::Decode(message);
    EXPECT_TRUE(refusal.ok()) << refusal.status();
    return refusal.ok() ? refusal->code : RefusalCode::kMalformed;
  }
  void Replace(std::vector<User> users) { users_.Replace(std::make_shared<const UserList>(std::move(users))); }

  Users users_{ThreeUsers()};
  TestWorker worker_{32 << 20, /*max_kept=*/16, /*max_clients=*/6, /*number=*/3, &users_};
};

// Returns the Hello that resumes the session of that Welcome.
kv::Hello GoingOnWith(const kv::Welcome& welcome) {
  kv::Hello hello;
  hello.session = welcome.session;
  hello.epoch = welcome.epoch;
  hello.incarnation = kTestIncarnation;
  return hello;
}

TEST_F(WorkerUsersTest, TheTableIsToldAndGrantedAfterTheProofAndNotBefore) {
  FakeCall* call = Begin("app");
  EXPECT_TRUE(call->withheld);
  const kv::AcceptData accept = TestWorker::AcceptOf(call);
  EXPECT_NE(accept.flags & kv::AcceptData::kAuthentication, 0u);
  EXPECT_EQ(accept.table.rkey, 0u);
  EXPECT_EQ(accept.table.bytes, 0u);
  EXPECT_EQ(call->peer.granted, "");
  ASSERT_TRUE(kv::IsFirstMessage(call->peer.first, kv::FirstMessage::kChallenge));
  const kv::Transcript transcript = TranscriptOf(call);
  const auto welcome = kv::Welcome::Decode(Prove(call, kSecret));
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_EQ(welcome->table.rkey, 11u);
  EXPECT_EQ(welcome->table.bytes, worker_.region().size());
  EXPECT_TRUE(kv::SameMac(welcome->proof, kv::ServerProof(kSecret, transcript))) << "the server proves itself too";
  EXPECT_EQ(welcome->counters.rkey, 12u);
  EXPECT_EQ(call->peer.granted, "atomics");
  EXPECT_EQ(worker_.Ask(call, MakePut(1, "key", "value"))->code, Code::kOk);
}

TEST_F(WorkerUsersTest, AWrongSecretAnUnknownUserAndOneWithoutASecretAreToldTheSame) {
  for (const char* user : {"app", "nobody", "local"}) {
    FakeCall* call = Begin(user);
    ASSERT_TRUE(kv::IsFirstMessage(call->peer.first, kv::FirstMessage::kChallenge)) << user;
    const std::string answer = Prove(call, "not the secret of any of these three users");
    EXPECT_EQ(CodeOf(answer), RefusalCode::kNotAuthenticated) << user;
    EXPECT_EQ(kv::Refusal::Decode(answer)->text, "unknown user " + std::string(user) + " or wrong secret or address");
    EXPECT_EQ(call->peer.granted, "") << user;
    worker_.clock.now_ns += 200'000'000;
    worker_.PollAll();
    EXPECT_TRUE(call->peer.disconnected);
  }
  EXPECT_EQ(worker_.worker().stats().failed_proofs.value(), 3u);
  FakeCall* reader = Begin("app");
  EXPECT_EQ(CodeOf(Prove(reader, kReaderSecret)), RefusalCode::kNotAuthenticated) << "another user's secret";
}

TEST_F(WorkerUsersTest, WithoutAUserNothingIsChallenged) {
  FakeCall* call = worker_.Connect();
  EXPECT_EQ(TestWorker::RefusalOf(call).code, RefusalCode::kNotAuthenticated);
  EXPECT_EQ(call->peer.granted, "");
}

TEST_F(WorkerUsersTest, WhatWasOverheardIsOfNoUseAgain) {
  FakeCall* call = Begin("app");
  const kv::Mac intercepted = kv::ClientProof(kSecret, TranscriptOf(call));
  ASSERT_TRUE(kv::Welcome::Decode(Prove(call, intercepted)).ok());
  auto hello = kv::Hello::Decode(call->first);
  ASSERT_TRUE(hello.ok());
  FakeCall* replay = worker_.Call(*hello);
  worker_.PollAll();
  ASSERT_EQ(replay->first, call->first) << "the same Hello";
  EXPECT_NE(replay->peer.first, call->peer.first) << "another Challenge";
  EXPECT_EQ(CodeOf(Prove(replay, intercepted)), RefusalCode::kNotAuthenticated);
}

TEST_F(WorkerUsersTest, AServersProofIsNotAClients) {
  FakeCall* call = Begin("app");
  EXPECT_EQ(CodeOf(Prove(call, kv::ServerProof(kSecret, TranscriptOf(call)))), RefusalCode::kNotAuthenticated);
}

// A relay of a client's messages has another address than the one that the client connected to.
TEST_F(WorkerUsersTest, AProofForAnotherAddressIsRefused) {
  FakeCall* call = Begin("app");
  kv::Transcript elsewhere = TranscriptOf(call);
  elsewhere.address = "10.0.0.66:7471";
  EXPECT_EQ(CodeOf(Prove(call, kv::ClientProof(kSecret, elsewhere))), RefusalCode::kNotAuthenticated);
}

TEST_F(WorkerUsersTest, AReaderGetsNeitherAtomicsNorTheCellsAndCannotWrite) {
  kv::Welcome welcome;
  FakeCall* call = Enter("report", kReaderSecret, &welcome);
  EXPECT_EQ(welcome.table.rkey, 11u);
  EXPECT_EQ(welcome.counters.rkey, 0u);
  EXPECT_NE(welcome.flags & kv::Welcome::kReadOnly, 0u);
  EXPECT_EQ(call->peer.granted, "reads");
  EXPECT_EQ(worker_.Ask(call, MakePut(1, "key", "value"))->code, Code::kReadOnly);
  EXPECT_EQ(worker_.Ask(call, MakeRequest(RequestType::kDelete, 2, "key"))->code, Code::kReadOnly);
  EXPECT_EQ(worker_.Ask(call, MakeRequest(RequestType::kGet, 3, "key"))->code, Code::kNotFound);
}

TEST_F(WorkerUsersTest, ASessionIsItsUsers) {
  Replace({MakeUser("app", kSecret, true), MakeUser("other", kReaderSecret, true)});
  kv::Welcome welcome;
  FakeCall* call = Enter("app", kSecret, &welcome);
  ASSERT_EQ(worker_.Ask(call, MakePut(1, "key", "value"))->code, Code::kOk);
  const kv::Hello hello = GoingOnWith(welcome);
  kv::Welcome others;
  FakeCall* other = Enter("other", kReaderSecret, &others, hello);
  EXPECT_EQ(others.flags & kv::Welcome::kResumed, 0u);
  EXPECT_NE(others.session, welcome.session);
  EXPECT_FALSE(call->peer.disconnected) << "nor does it end its connection";
  EXPECT_NE(other, nullptr);
  kv::Welcome resumed;
  Enter("app", kSecret, &resumed, hello);
  EXPECT_NE(resumed.flags & kv::Welcome::kResumed, 0u);
  EXPECT_EQ(resumed.session, welcome.session);
}

TEST_F(WorkerUsersTest, WhoIsRevokedOrChangedIsDisconnectedAndOthersAreNot) {
  kv::Welcome welcome;
  FakeCall* app = Enter("app", kSecret, &welcome);
  FakeCall* report = Enter("report", kReaderSecret, &welcome);
  Replace({MakeUser("report", kReaderSecret, false)});
  worker_.PollAll();
  EXPECT_TRUE(app->peer.disconnected);
  EXPECT_FALSE(report->peer.disconnected);
  EXPECT_EQ(CodeOf(Prove(Begin("app"), kSecret)), RefusalCode::kNotAuthenticated);
  Replace({MakeUser("report", kSecret, false)});
  worker_.PollAll();
  EXPECT_TRUE(report->peer.disconnected) << "its secret was changed";
  FakeCall* again = Enter("report", kSecret, &welcome);
  Replace({MakeUser("report", kSecret, true)});
  worker_.PollAll();
  EXPECT_TRUE(again->peer.disconnected) << "what its queue pair may do is fixed";
}

TEST_F(WorkerUsersTest, ARevocationDuringTheHandshakeCounts) {
  FakeCall* call = Begin("app");
  Replace({MakeUser("report", kReaderSecret, false)});
  EXPECT_EQ(CodeOf(Prove(call, kSecret)), RefusalCode::kNotAuthenticated);
}

TEST_F(WorkerUsersTest, WhoDoesNotProveInTimeIsDroppedAndCountsAsAClientUntilThen) {
  std::vector<FakeCall*> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(Begin("app"));
  FakeCall* fourth = Begin("app");
  EXPECT_EQ(TestWorker::RejectOf(fourth).code, RefusalCode::kFull);
  worker_.clock.now_ns += worker_.shared().proof_timeout_ns - 1;
  worker_.PollAll();
  EXPECT_FALSE(calls[0]->peer.disconnected);
  worker_.clock.now_ns += 2;
  worker_.PollAll();
  for (FakeCall* call : calls) EXPECT_TRUE(call->peer.disconnected);
  EXPECT_EQ(worker_.worker().stats().silent_drops.value(), 3u);
  kv::Welcome welcome;
  Enter("app", kSecret, &welcome);
}

TEST_F(WorkerUsersTest, WhoDoesNotProveItHoldsHalfOfThePlacesAndMakesRoomForWhoDoes) {
  std::vector<FakeCall*> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(i % 2 == 0 ? Begin("app") : worker_.CallSilently());
  worker_.PollAll();
  EXPECT_EQ(worker_.quota.taken(), 3);
  EXPECT_EQ(worker_.worker().unproven(), 3);
  // Expect: a client with kernel credentials is admitted at once.
  FakeCall* local = worker_.Call(kv::Hello());
  local->credentials = rdma::PeerCredentials{7, 1000, {}};
  worker_.PollAll();
  ASSERT_TRUE(TestWorker::Welcome(local));
  // Expect: a client with a proof is admitted as soon as one of those had the time for a proof.
  worker_.clock.now_ns += 49'000'000;
  FakeCall* early = Begin("app");
  EXPECT_EQ(TestWorker::RejectOf(early).code, RefusalCode::kFull);
  worker_.clock.now_ns += 1'000'000;
  kv::Welcome welcome;
  Enter("app", kSecret, &welcome);
  EXPECT_NE(welcome.session, 0u);
  EXPECT_TRUE(calls[0]->peer.disconnected) << "the one that had waited longest";
  EXPECT_EQ(worker_.worker().unproven(), 2);
  // Expect: closed connections are not counted.
  worker_.clock.now_ns += worker_.shared().proof_timeout_ns;
  worker_.PollAll();
  EXPECT_EQ(worker_.worker().unproven(), 0);
  EXPECT_EQ(worker_.quota.taken(), 2);
  Begin("app")->peer.Break();
  worker_.PollAll();
  EXPECT_EQ(worker_.worker().unproven(), 0);
  EXPECT_EQ(CodeOf(Prove(Begin("app"), kReaderSecret)), RefusalCode::kNotAuthenticated);
  EXPECT_EQ(worker_.worker().unproven(), 1) << "until it is gone";
  worker_.clock.now_ns += 200'000'000;
  worker_.PollAll();
  EXPECT_EQ(worker_.worker().unproven(), 0);
}

TEST_F(WorkerUsersTest, WhoGoesOnWithItsSessionComesBeyondThoseWhoHoldPlaces) {
  kv::Welcome welcome;
  FakeCall* app = Enter("app", kSecret, &welcome);
  ASSERT_EQ(worker_.Ask(app, MakePut(1, "key", "value"))->code, Code::kOk);
  const kv::Hello hello = GoingOnWith(welcome);
  app->peer.Break();
  for (int i = 0; i < 3; ++i) worker_.CallSilently();
  worker_.PollAll();
  ASSERT_EQ(worker_.worker().unproven(), 3);
  EXPECT_EQ(TestWorker::RejectOf(Begin("app")).code, RefusalCode::kFull);
  kv::Hello guessed = hello;
  guessed.session += SessionTable::kMaxWorkers;
  EXPECT_EQ(TestWorker::RejectOf(Begin("app", guessed)).code, RefusalCode::kFull) << "there is no such session";
  // Expect: one at a time for the session, whatever it sends afterwards.
  FakeCall* silent = worker_.CallSilently(hello);
  worker_.PollAll();
  EXPECT_TRUE(silent->accepted);
  EXPECT_EQ(TestWorker::RejectOf(Begin("app", hello)).code, RefusalCode::kFull);
  silent->peer.Break();
  worker_.PollAll();
  kv::Welcome resumed;
  Enter("app", kSecret, &resumed, hello);
  EXPECT_NE(resumed.flags & kv::Welcome::kResumed, 0u);
  EXPECT_EQ(resumed.session, welcome.session);
  EXPECT_EQ(worker_.worker().unproven(), 3);
}

TEST_F(WorkerUsersTest, AnythingButAProofAfterTheChallengeEndsTheConnection) {
  FakeCall* call = Begin("app");
  call->peer.Send(Encode(MakePut(1, "key", "value")));
  worker_.PollAll();
  EXPECT_TRUE(call->peer.disconnected);
  EXPECT_EQ(worker_.ReadKey("key"), std::nullopt);
  call = Begin("app");
  call->peer.Send(call->first);
  worker_.PollAll();
  EXPECT_TRUE(call->peer.disconnected) << "a second Hello";
}

TEST_F(WorkerUsersTest, OnThisHostTheKernelSaysWhoItIs) {
  const auto come = [this](uint32_t uid) {
    kv::Hello hello;
    hello.user = "app";  // its claim does not count
    FakeCall* call = worker_.Call(hello);
    call->credentials = rdma::PeerCredentials{7, uid, {uid}};
    worker_.PollAll();
    return call;
  };
  FakeCall* call = come(1000);
  EXPECT_FALSE(call->withheld);
  EXPECT_EQ(TestWorker::AcceptOf(call).table.rkey, 11u);
  EXPECT_EQ(call->rkeys, (std::vector<uint32_t>{11})) << "a reader is not handed the cells";
  EXPECT_NE(TestWorker::WelcomeOf(call).flags & kv::Welcome::kReadOnly, 0u);
  EXPECT_EQ(worker_.Ask(call, MakePut(1, "key", "value"))->code, Code::kReadOnly);
  FakeCall* stranger = come(1001);
  EXPECT_EQ(TestWorker::RejectOf(stranger).code, RefusalCode::kNotAllowed);
  EXPECT_THAT(TestWorker::RejectOf(stranger).text, HasSubstr("uid 1001"));
  User local = MakeUser("local", "", /*may_write=*/false);
  local.uids = {1002};
  Replace({local});
  worker_.PollAll();
  EXPECT_TRUE(call->peer.disconnected) << "revoked";
}

TEST(WorkersUsersTest, WhoFillsOneWorkerKeepsNobodyOutOfAnother) {
  Users users(ThreeUsers());
  ConnectionQuota quota(8);
  const auto adjust = [&quota](Shared* shared) {
    shared->workers = 2;
    shared->quota = &quota;
  };
  TestWorker first(32 << 20, 16, /*max_clients=*/8, /*number=*/0, &users, kTestWindow, /*evict=*/false, nullptr, 0,
                   nullptr, adjust);
  TestWorker second(32 << 20, 16, /*max_clients=*/8, /*number=*/1, &users, kTestWindow, /*evict=*/false, nullptr, 0,
                    nullptr, adjust);
  for (int i = 0; i < 20; ++i) first.CallSilently();
  first.PollAll();
  EXPECT_EQ(first.worker().unproven(), 2);
  EXPECT_EQ(quota.taken(), 2);
  kv::Hello hello;
  hello.user = "app";
  hello.nonce = kv::RandomNonce();
  FakeCall* call = second.Call(hello);
  second.PollAll();
  EXPECT_TRUE(kv::IsFirstMessage(call->peer.first, kv::FirstMessage::kChallenge));
}

// Without users a client's name has no effect.
TEST(WorkerWithoutUsersTest, ANameIsIgnored) {
  TestWorker worker;
  kv::Hello hello;
  hello.user = "app";
  hello.nonce = kv::RandomNonce();
  FakeCall* call = worker.Call(hello);
  worker.PollAll();
  EXPECT_FALSE(call->withheld);
  EXPECT_EQ(TestWorker::AcceptOf(call).table.rkey, 11u);
  EXPECT_EQ(TestWorker::WelcomeOf(call).table.rkey, 0u);
  hello = TestWorker::HelloAfter(call);
  ASSERT_EQ(worker.Ask(call, MakePut(1, "key", "value"))->code, Code::kOk);
  call->peer.Break();
  hello.user = "other";
  FakeCall* resumed = worker.Call(hello);
  worker.PollAll();
  EXPECT_NE(TestWorker::WelcomeOf(resumed).flags & kv::Welcome::kResumed, 0u);
}

}  // namespace
}  // namespace farlook::server
