#include "server/worker/admission.h"

#include <string>

#include "gtest/gtest.h"
#include "server/session/connection_quota.h"

namespace farlook::server {
namespace {

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    shared_.quota = &quota_;
    shared_.max_value_bytes = 1000;
    sessions_.worker = 3;
    sessions_.incarnation = 7;
    sessions_.window = 5;
    sessions_.max_kept = 1;
    sessions_.keep_ns = 10'000'000;
    sessions_.random = [this] { return random_ += 640; };
  }

  static kv::Hello HelloFor(const Session& session) {
    kv::Hello hello;
    hello.session = session.id();
    hello.epoch = session.epoch();
    hello.incarnation = 7;
    return hello;
  }
  uint64_t random_ = 0;
  ConnectionQuota quota_{2};
  Shared shared_;
  SessionOptions sessions_;
  std::string why_;
};

TEST_F(AdmissionTest, LetsInSoManyConnectionsAndThoseThatReplaceOne) {
  Admission admission(shared_, sessions_);
  ASSERT_TRUE(admission.Enter(0, false, &why_));
  Session* session = admission.Decide(kv::Hello(), 1).session;
  ASSERT_TRUE(admission.Enter(0, false, &why_));
  EXPECT_FALSE(admission.Enter(0, false, &why_));
  EXPECT_NE(why_.find("--max_clients"), std::string::npos);
  EXPECT_FALSE(admission.Enter(session->id() + 64, false, &why_)) << "a session that is not there";
  // Expect: at most as many again, whatever they claim.
  EXPECT_TRUE(admission.Enter(session->id(), false, &why_));
  EXPECT_TRUE(admission.Enter(0, /*replaces=*/true, &why_));
  EXPECT_FALSE(admission.Enter(session->id(), false, &why_));
  EXPECT_FALSE(admission.Enter(0, /*replaces=*/true, &why_));
  EXPECT_EQ(quota_.taken(), 4);
  for (int i = 0; i < 3; ++i) quota_.Give();
  EXPECT_TRUE(admission.Enter(0, false, &why_));
}

TEST_F(AdmissionTest, AServerThatLacksDescriptorsSaysSo) {
  Admission admission(shared_, sessions_);
  quota_.Limit(1);
  ASSERT_TRUE(admission.Enter(0, false, &why_));
  EXPECT_FALSE(admission.Enter(0, false, &why_));
  EXPECT_NE(why_.find("limit of 1 clients"), std::string::npos) << why_;
  EXPECT_NE(why_.find("ulimit -n"), std::string::npos) << why_;
}

TEST_F(AdmissionTest, ASessionIsNewOrResumedOrWaitedFor) {
  Admission admission(shared_, sessions_);
  const Admission::Decision fresh = admission.Decide(kv::Hello(), 1);
  ASSERT_NE(fresh.session, nullptr);
  EXPECT_FALSE(fresh.resumed || fresh.must_wait);
  const kv::Hello hello = HelloFor(*fresh.session);
  char link;
  fresh.session->link = reinterpret_cast<Link*>(&link);  // never dereferenced
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
