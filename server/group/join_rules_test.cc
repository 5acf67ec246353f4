#include "server/group/join_rules.h"

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/log.h"

namespace farlook::server {
namespace {

using ::testing::HasSubstr;

constexpr absl::Time kNow = absl::UnixEpoch();

kv::Mac Users(uint8_t byte) {
  kv::Mac mac;
  mac.fill(byte);
  return mac;
}

class JoinRulesTest : public ::testing::Test {
 protected:
  JoinRulesTest() {
    SetLogLevel(LogLevel::kNone);
    configuration_.group = 7;
    configuration_.limits = {.max_value_bytes = 1 << 20, .memory_bytes = 64 << 20};
    configuration_.members = {{1, cluster::Replica::Kind::kPrimary, "tcp://10.0.0.1:7471"}};
    rules_.Set(configuration_);
    joiner_ = {.incarnation = 2, .address = "tcp://10.0.0.2:7471"};
    joiner_.max_value_bytes = 1 << 20;
    joiner_.memory_bytes = 64 << 20;
    joiner_.users = Users(5);
  }
  std::string Why() {
    const absl::Status status = rules_.Examine(joiner_, kNow);
    EXPECT_TRUE(status.ok() || absl::IsPermissionDenied(status)) << status;
    return std::string(status.message());
  }

  kv::Mac own_users_ = Users(5);
  JoinRules rules_{[this](uint64_t group, uint64_t joiner, bool on_one_host) {
    EXPECT_EQ(group, 7u);
    EXPECT_EQ(joiner, 2u);
    EXPECT_FALSE(on_one_host);
    return own_users_;
  }};
  cluster::Configuration configuration_;
  kv::Follow joiner_;
};

TEST_F(JoinRulesTest, AServerThatCouldTakeThePrimarysPlaceMayJoin) {
  EXPECT_EQ(Why(), "");
  joiner_.memory_bytes = 65 << 20;
  EXPECT_EQ(Why(), "");
}

TEST_F(JoinRulesTest, EachFlagIsNamed) {
  joiner_.max_value_bytes = 2 << 20;
  EXPECT_EQ(Why(), "--max_value_bytes=2MiB, and the group has 1MiB: give all members the same");
  joiner_.max_value_bytes = 1 << 20;
  joiner_.memory_bytes = 63 << 20;
  EXPECT_EQ(Why(), "--memory=63MiB, and the group needs 64MiB: give all members as much at least");
  joiner_.memory_bytes = 64 << 20;
  joiner_.users = Users(6);
  EXPECT_THAT(Why(), HasSubstr("its --users differ from those of the primary"));
  joiner_.users = {};
  EXPECT_THAT(Why(), HasSubstr("it has no --users, and the primary has"));
  own_users_ = {};
  EXPECT_EQ(Why(), "");
  joiner_.users = Users(6);
  EXPECT_THAT(Why(), HasSubstr("it has --users, and the primary has none"));
  joiner_.memory_bytes = 0;
  EXPECT_THAT(Why(), HasSubstr("does not say what it can hold"));
}

TEST_F(JoinRulesTest, AnAddressThatOthersCannotReachIsRefused) {
  for (const char* address :
       {"tcp://127.0.0.1:7471", "tcp://localhost:7471", "tcp://[::1]:7471", "rdma://127.1.2.3:1"}) {
    joiner_.address = address;
    EXPECT_THAT(Why(), HasSubstr("is reached from this host only")) << address;
    EXPECT_THAT(Why(), HasSubstr("tcp://10.0.0.1:7471"));
  }
  EXPECT_THAT(WhyUnreachable("shm:///run/kv", "tcp://10.0.0.1:7471"),
              HasSubstr("first name a tcp:// or rdma:// address"));
  EXPECT_THAT(WhyUnreachable("tcp://10.0.0.1:1", "shm:///run/kv"), HasSubstr("all members need addresses of one kind"));
  EXPECT_THAT(WhyUnreachable("tcp://10.0.0.1:1", "tcp://127.0.0.1:1"),
              HasSubstr("restart that server with a --listen"));
  EXPECT_EQ(WhyUnreachable("tcp://127.0.0.1:1", "tcp://127.0.0.1:2"), "");
  EXPECT_EQ(WhyUnreachable("shm:///a", "shm:///b"), "");
  EXPECT_EQ(WhyUnreachable("tcp://a:1", "tcp://b:2"), "");
}

TEST_F(JoinRulesTest, OnlyBackupsThatJoinAreExamined) {
  joiner_.memory_bytes = 1;
  joiner_.move = 3;
  EXPECT_EQ(Why(), "");
  joiner_.move = 0;
  joiner_.address = "";
  EXPECT_EQ(Why(), "");
}

TEST_F(JoinRulesTest, TheRefusedAreRememberedForAWhile) {
  joiner_.memory_bytes = 1 << 20;
  EXPECT_NE(Why(), "");
  EXPECT_NE(Why(), "");
  ASSERT_EQ(rules_.refused(kNow).size(), 1u);
  EXPECT_EQ(rules_.refused(kNow)[0].incarnation, 2u);
  EXPECT_EQ(rules_.refused(kNow)[0].address, joiner_.address);
  EXPECT_THAT(rules_.refused(kNow)[0].why, HasSubstr("--memory=1MiB"));
  EXPECT_EQ(rules_.refused(kNow + absl::Seconds(9)).size(), 1u);
  EXPECT_TRUE(rules_.refused(kNow + absl::Seconds(10)).empty());
  // Expect: the list is bounded.
  for (uint64_t i = 10; i < 100; ++i) {
    kv::Follow other;
    other.incarnation = i;
    other.address = "tcp://b:1";
    EXPECT_FALSE(rules_.Examine(other, kNow).ok());
  }
  EXPECT_EQ(rules_.refused(kNow).size(), 16u);
  EXPECT_EQ(rules_.refused(kNow).back().incarnation, 99u);
}

TEST_F(JoinRulesTest, AServerThatMayJoinAfterAllIsForgotten) {
  joiner_.memory_bytes = 1 << 20;
  EXPECT_NE(Why(), "");
  joiner_.memory_bytes = 64 << 20;
  EXPECT_EQ(Why(), "");
  EXPECT_TRUE(rules_.refused(kNow).empty());
}

}  // namespace
}  // namespace farlook::server
