#include "server/admission.h"

#include <string>

#include "gtest/gtest.h"
#include "server/places.h"

namespace farlook::server {
namespace {

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    shared_.places = &places_;
    shared_.max_value_bytes = 1000;
    sessions_.worker = 3;
    sessions_.incarnation = 7;
    sessions_.window = 5;
    sessions_.max_kept = 1;
    sessions_.keep_ns = 10'000'000;
    sessions_.random = [this] { return random_ += 640; };
  }

  Session* Write(Admission& admission) {
    Session* session = admission.Decide(kv::Hello(), 1).session;
    session->Begin(1, kv::RequestType::kPut);
    session->Finish(1, {});
    return session;
  }
  static kv::Hello HelloFor(const Session& session) {
    kv::Hello hello;
    hello.session = session.id();
    hello.epoch = session.epoch();
    hello.incarnation = 7;
    return hello;
  }
  static kv::Hello HelloOf(const std::string& user) {
    kv::Hello hello;
    hello.user = user;
    return hello;
  }

  uint64_t random_ = 0;
  Places places_{2};
  Shared shared_;
  SessionOptions sessions_;
  std::string why_;
};

TEST_F(AdmissionTest, LetsInSoManyConnectionsAndThoseThatTakeAPlace) {
  Admission admission(shared_, sessions_);
  ASSERT_TRUE(admission.Enter(0, &why_));
  Session* session = admission.Decide(kv::Hello(), 1).session;
  ASSERT_TRUE(admission.Enter(0, &why_));
  EXPECT_FALSE(admission.Enter(0, &why_));
  EXPECT_NE(why_.find("--max_clients"), std::string::npos);
  EXPECT_FALSE(admission.Enter(session->id() + 64, &why_)) << "a session that is not there";
  // Expect: at most as many again, whatever they say.
  EXPECT_TRUE(admission.Enter(session->id(), &why_));
  EXPECT_TRUE(admission.Enter(session->id(), &why_));
  EXPECT_FALSE(admission.Enter(session->id(), &why_));
  EXPECT_EQ(places_.taken(), 4);
  for (int i = 0; i < 3; ++i) admission.Leave();
  EXPECT_TRUE(admission.Enter(0, &why_));
}

TEST_F(AdmissionTest, OneUserKeepsNoMoreThanItsShareOfSessions) {
  sessions_.max_kept = 4;
  sessions_.max_kept_each = 1;
  Admission admission(shared_, sessions_);
  const auto leave = [&](const std::string& user) {
    Session* session = admission.Decide(HelloOf(user), 1).session;
    session->Begin(1, kv::RequestType::kPut);
    session->Finish(1, {});
    admission.Ended(session, 1);
    return session;
  };
  Session* kept = leave("app");
  const Admission::Decision refused = admission.Decide(HelloOf("app"), 1);
  EXPECT_EQ(refused.session, nullptr);
  EXPECT_EQ(refused.refusal.code, kv::RefusalCode::kFull);
  EXPECT_GT(refused.refusal.retry_after_ms, 0u);
  EXPECT_NE(admission.Decide(HelloOf("other"), 1).session, nullptr);
  // Expect: it may take up what it has, and then it has room again; also when that is old.
  kv::Hello again = HelloFor(*kept);
  again.user = "app";
  EXPECT_TRUE(admission.Decide(again, 1).resumed);
  EXPECT_NE(leave("app"), nullptr);
  EXPECT_EQ(admission.Decide(HelloOf("app"), 1).session, nullptr);
  EXPECT_NE(admission.Decide(HelloOf("app"), 20'000'000).session, nullptr);
}

TEST_F(AdmissionTest, WhoHasItsShareIsToldWhenItsOwnSessionEndsAndNotAnothers) {
  sessions_.max_kept = 3;
  sessions_.max_kept_each = 1;
  Admission admission(shared_, sessions_);
  const auto leave = [&](const std::string& user, int64_t now_ns) {
    Session* session = admission.Decide(HelloOf(user), now_ns).session;
    ASSERT_NE(session, nullptr);
    session->Begin(1, kv::RequestType::kPut);
    session->Finish(1, {});
    admission.Ended(session, now_ns);
  };
  leave("early", 1'000'000);
  leave("late", 6'000'000);
  EXPECT_EQ(admission.Decide(HelloOf("late"), 7'000'000).refusal.retry_after_ms, 9u);
  EXPECT_EQ(admission.Decide(HelloOf("early"), 7'000'000).refusal.retry_after_ms, 4u);
  // Expect: who has none of its own waits for the first of anybody's.
  leave("third", 7'000'000);
  EXPECT_EQ(admission.Decide(HelloOf("new"), 8'000'000).refusal.retry_after_ms, 3u);
}

TEST_F(AdmissionTest, ASessionIsNewOrResumedOrWaitedFor) {
  Admission admission(shared_, sessions_);
  const Admission::Decision fresh = admission.Decide(kv::Hello(), 1);
  ASSERT_NE(fresh.session, nullptr);
  EXPECT_FALSE(fresh.resumed || fresh.must_wait);
  const kv::Hello hello = HelloFor(*fresh.session);
  char link;
  fresh.session->link = reinterpret_cast<Link*>(&link);  // only looked at
  EXPECT_TRUE(admission.Decide(hello, 2).must_wait);
  fresh.session->link = nullptr;
  const Admission::Decision resumed = admission.Decide(hello, 3);
  EXPECT_EQ(resumed.session, fresh.session);
  EXPECT_TRUE(resumed.resumed);
  kv::Hello stranger = hello;
  stranger.incarnation = 8;
  const Admission::Decision other = admission.Decide(stranger, 4);
  EXPECT_NE(other.session, fresh.session);
  EXPECT_FALSE(other.resumed);
  EXPECT_FALSE(other.lost.empty());
}

TEST_F(AdmissionTest, RefusesWritersWhileAllThatMayBeKeptIs) {
  Admission admission(shared_, sessions_);
  admission.Ended(Write(admission), 1'000'000);
  const Admission::Decision refused = admission.Decide(kv::Hello(), 2'000'000);
  EXPECT_EQ(refused.session, nullptr);
  EXPECT_EQ(refused.refusal.code, kv::RefusalCode::kFull);
  EXPECT_EQ(refused.refusal.retry_after_ms, 9u);
  kv::Hello reader;
  reader.flags = kv::Hello::kReadOnly;
  EXPECT_NE(admission.Decide(reader, 2'000'000).session, nullptr);
  EXPECT_NE(admission.Decide(kv::Hello(), 12'000'000).session, nullptr);
}

TEST_F(AdmissionTest, TheWelcomeSaysWhatTheSessionMay) {
  Admission admission(shared_, sessions_);
  const Session* session = admission.Decide(kv::Hello(), 1).session;
  kv::Welcome welcome = admission.WelcomeFor(*session, /*resumed=*/true, {64, 4096, 9}, 5'000'000);
  EXPECT_EQ(welcome.flags, kv::Welcome::kResumed);
  EXPECT_EQ(welcome.window, 5u);
  EXPECT_EQ(welcome.max_value_bytes, 1000u);
  EXPECT_EQ(welcome.counters.rkey, 9u);
  EXPECT_EQ(welcome.atomics, 1u << 19);
  EXPECT_EQ(welcome.time_us, 5001u);
  kv::Hello hello;
  hello.flags = kv::Hello::kReadOnly;
  session = admission.Decide(hello, 1).session;
  welcome = admission.WelcomeFor(*session, /*resumed=*/false, {64, 4096, 9}, 5'000'000);
  EXPECT_EQ(welcome.flags, kv::Welcome::kReadOnly);
  EXPECT_EQ(welcome.counters.rkey, 0u);
}

}  // namespace
}  // namespace farlook::server
