// A group of three kv_server processes: one of two backups is lost, spares, too few members, resizing.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cluster/group_fixture.h"
#include "tests/cluster/three_servers_fixture.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

class ThreeServersOneStopsTest : public ThreeServersTest {
 protected:
  ThreeServersOneStopsTest() : ThreeServersTest("1s") {}
};

// The other backup continues from where it is, whichever of the two had accepted more.
TEST_F(ThreeServersTest, WhenThePrimaryIsKilledTheOtherBackupStaysOne) {
  Chain chain(addresses_, "chain"), other(addresses_, "other");
  for (int i = 0; i < 4; ++i) {
    chain.Advance(100);
    other.Advance(100);
    ServerProcess& primary = Primary();
    const auto before = Incarnations();
    primary.Signal(SIGKILL);
    primary.Wait();
    chain.Advance(100);
    other.Advance(100);
    ExpectOthersAre(before, primary);
    primary.Restart();
    AwaitBackups(2);
  }
  ExpectExact(&chain);
  ExpectExact(&other);
  ExpectAllItems();
}

TEST_F(ThreeServersOneStopsTest, WhenThePrimaryIsStoppedOrHandsOverTheOtherBackupStaysOne) {
  Chain chain(addresses_, "chain"), other(addresses_, "other", Fencing::kStrict);
  for (int i = 0; i < 4; ++i) {
    chain.Advance(100);
    other.Advance(100);
    ServerProcess& primary = Primary();
    const auto before = Incarnations();
    if (i % 2 == 0) {
      primary.Signal(SIGSTOP);
    } else {
      EXPECT_TRUE(HandOver(client_.get()).ok());
    }
    chain.Advance(100);
    other.Advance(100);
    ExpectOthersAre(before, primary);
    primary.Signal(SIGCONT);
    AwaitBackups(2);
  }
  ExpectExact(&chain);
  ExpectExact(&other);
  ExpectAllItems();
}

// Two of three are lost at once: the promoter continues without the one that does not answer.
TEST_F(ThreeServersOneStopsTest, ThePrimaryAndABackupAreLostAtOnce) {
  Chain chain(addresses_, "chain");
  for (const int signal : {SIGKILL, SIGSTOP}) {
    chain.Advance(100);
    ServerProcess& primary = Primary();
    ServerProcess& backup = &primary == a_.get() ? *b_ : *a_;
    backup.Signal(SIGSTOP);
    primary.Signal(signal);
    if (signal == SIGKILL) primary.Wait();
    chain.Advance(100);
    backup.Signal(SIGCONT);
    if (signal == SIGKILL) {
      primary.Restart();
    } else {
      primary.Signal(SIGCONT);
    }
    AwaitBackups(2);
  }
  ExpectExact(&chain);
  ExpectAllItems();
}

// A server is filled while others stop and restart.
TEST_F(ThreeServersTest, OneIsFilledWhileOthersComeAndGo) {
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  b_->Signal(SIGKILL);
  b_->Wait();
  b_->Restart();
  chain.Advance(100);
  EXPECT_TRUE(HandOver(client_.get()).ok());
  AwaitBackups(2);
  ExpectExact(&chain);
  ExpectAllItems();
}

class SpareTest : public ThreeServersTest {
 protected:
  SpareTest() : ThreeServersTest("10s", /*replicas=*/2) {}
  // Returns the server that is no member, and waits.
  ServerProcess& Spare() {
    AwaitStatus("\nspare ", true);
    return Status().find(absl::StrCat("\nspare ", b_->address(), " ")) != std::string::npos ? *b_ : *c_;
  }
};

// A spare costs nothing until it is needed: it receives no record. Then it is filled, whichever member is lost.
TEST_F(SpareTest, ASpareTakesThePlaceOfWhoeverIsLost) {
  ServerProcess& spare = Spare();
  ServerProcess& backup = &spare == b_.get() ? *c_ : *b_;
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  EXPECT_NE(Status().find("\nmembers 2 of 2, at least 1\n"), std::string::npos) << Status();
  EXPECT_EQ(CountBackups(), 1u);
  backup.Signal(SIGKILL);
  backup.Wait();
  AwaitStatus(absl::StrCat("\nbackup ", spare.address(), " "), true);
  AwaitBackups(1);
  chain.Advance(100);
  // Expect: the returning server is the spare now, and becomes a member when the primary is lost.
  backup.Restart();
  EXPECT_EQ(&Spare(), &backup);
  a_->Signal(SIGKILL);
  a_->Wait();
  chain.Advance(100);
  EXPECT_TRUE(IsPrimary(spare));
  AwaitStatus(absl::StrCat("\nbackup ", backup.address(), " "), true);
  AwaitBackups(1);
  chain.Advance(100);
  ExpectExact(&chain);
  ExpectAllItems();
}

// A spare that is stopped, or ends, disturbs no member.
TEST_F(SpareTest, ASpareThatIsOfNoUseIsLeftOut) {
  ServerProcess& spare = Spare();
  ServerProcess& backup = &spare == b_.get() ? *c_ : *b_;
  Chain chain(addresses_, "chain");
  spare.Signal(SIGSTOP);
  chain.Advance(100);
  backup.Signal(SIGKILL);
  backup.Wait();
  chain.Advance(100);
  backup.Restart();
  AwaitStatus(absl::StrCat("\nbackup ", backup.address(), " "), true);
  chain.Advance(100);
  spare.Signal(SIGCONT);
  Spare();
  spare.Signal(SIGKILL);
  spare.Wait();
  AwaitStatus("\nspare ", false);
  ExpectExact(&chain);
  ExpectAllItems();
}

// From two members and a spare to three members, to one, and to two again, while clients write.
TEST_F(SpareTest, AnOperatorHasMoreMembersOrFewer) {
  Spare();
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  const auto refused = [this](uint32_t replicas, uint32_t min_insync) {
    const absl::Status status = ResizeGroup(client_.get(), replicas, min_insync);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused(2, 3), testing::HasSubstr("of 2 replicas not 3 can be in sync"));
  EXPECT_THAT(refused(3, 3), testing::HasSubstr("2 in sync at present"));
  EXPECT_THAT(refused(17, 1), testing::HasSubstr("from 1 to 16 replicas"));
  EXPECT_THAT(Status(), testing::HasSubstr("\nmembers 2 of 2, at least 1\n"));
  ASSERT_TRUE(ResizeGroup(client_.get(), 3, 2).ok());
  AwaitBackups(2);
  EXPECT_THAT(Status(), testing::HasSubstr("\nmembers 3 of 3, at least 2\n"));
  chain.Advance(100);
  EXPECT_THAT(refused(1, 0), testing::HasSubstr("give --min_insync as well"));
  // Expect: the two are spares, which the primary fills when the size grows again, and they cause no alarm.
  ASSERT_TRUE(ResizeGroup(client_.get(), 1, 1).ok());
  AwaitStatus("\nmembers 1 of 1, at least 1\n", true);
  AwaitStatus("\nbackup ", false);
  chain.Advance(100);
  AwaitStatus(absl::StrCat("\nspare ", b_->address(), " "), true);
  AwaitStatus(absl::StrCat("\nspare ", c_->address(), " "), true);
  EXPECT_THAT(client_->ServerStats().value_or(""), testing::HasSubstr("\ngroup_removed_backups 0\n"));
  ASSERT_TRUE(ResizeGroup(client_.get(), 2, 0).ok());
  AwaitBackups(1);
  chain.Advance(100);
  // Expect: the new size outlives the primary.
  a_->Signal(SIGKILL);
  a_->Wait();
  chain.Advance(100);
  AwaitStatus("\nmembers 2 of 2, at least 1\n", true);
  ExpectExact(&chain);
  ExpectAllItems();
}

class LeastInSyncTest : public ThreeServersTest {
 protected:
  LeastInSyncTest() : ThreeServersTest("1s", 3, /*min_insync=*/2) {}

  absl::Status PutWithin(int64_t timeout_ms, const std::string& key) {
    PutOptions options;
    options.timeout_ms = timeout_ms;
    return client_->Put(key, "value", options).status();
  }
};

// Gets continue; writes, also those that were under way, wait within their deadlines until there are two again.
TEST_F(LeastInSyncTest, WithFewerMembersNoWriteIsAcknowledged) {
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  b_->Signal(SIGKILL);
  b_->Wait();
  chain.Advance(100);
  c_->Signal(SIGKILL);
  c_->Wait();
  // Expect: nor is a write that begins when no backup is left; it is committed when the last backup is removed.
  EXPECT_TRUE(absl::IsDeadlineExceeded(PutWithin(1'500, "key")));
  AwaitStatus("\nmembers 1 of 3, at least 2\n", true);
  EXPECT_THAT(Status(), testing::HasSubstr("\nhealth blocked writes wait until 2 members are in sync\n"));
  const uint64_t acknowledged = chain.acknowledged();
  EXPECT_TRUE(absl::IsDeadlineExceeded(PutWithin(500, "key")));
  ExpectAllItems();
  EXPECT_EQ(chain.acknowledged(), acknowledged);
  b_->Restart();
  chain.Advance(100);
  EXPECT_TRUE(PutWithin(kTimeoutMs, "key").ok());
  c_->Restart();
  AwaitBackups(2);
  ExpectExact(&chain);
  ExpectAllItems();
}

// Without it no write could be acknowledged. It stays a member, with all that was acknowledged, and takes over when the
// primary is lost.
TEST_F(LeastInSyncTest, ASilentBackupThatIsNeededStaysAMember) {
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  b_->Signal(SIGKILL);
  b_->Wait();
  AwaitStatus("\nmembers 2 of 3, at least 2\n", true);
  chain.Advance(100);
  c_->Signal(SIGSTOP);
  AwaitStatus(" blocks reads and writes\n", true);
  EXPECT_THAT(Status(), testing::HasSubstr("\nmembers 2 of 3, at least 2\n"));
  EXPECT_THAT(Status(), testing::HasSubstr(
                            absl::StrCat("\nhealth blocked reads and writes wait for ", c_->address(), ", which")));
  EXPECT_EQ(ServerStat(client_.get(), "group_waits_for_member"), 1);
  a_->Signal(SIGKILL);
  a_->Wait();
  c_->Signal(SIGCONT);
  AwaitStatus("\nmembers 1 of 3, at least 2\n", true);
  EXPECT_TRUE(IsPrimary(*c_));
  ExpectAllItems();
  b_->Restart();
  chain.Advance(100);
  a_->Restart();
  AwaitBackups(2);
  ExpectExact(&chain);
}

// A server that can be filled takes its place.
TEST_F(LeastInSyncTest, ASilentBackupIsReplacedByAnotherServer) {
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  b_->Signal(SIGKILL);
  b_->Wait();
  AwaitStatus("\nmembers 2 of 3, at least 2\n", true);
  c_->Signal(SIGSTOP);
  AwaitStatus(" blocks reads and writes\n", true);
  b_->Restart();
  chain.Advance(100);
  AwaitStatus(absl::StrCat("\nbackup ", b_->address(), " "), true);
  AwaitStatus(absl::StrCat("\nbackup ", c_->address(), " "), false);
  c_->Signal(SIGCONT);
  AwaitBackups(2);
  chain.Advance(100);
  ExpectExact(&chain);
  ExpectAllItems();
}

// The former primary would leave too few members.
TEST_F(LeastInSyncTest, AHandoverThatLeavesTooFewMembersIsRefused) {
  b_->Signal(SIGKILL);
  b_->Wait();
  AwaitStatus("\nmembers 2 of 3, at least 2\n", true);
  const absl::Status refused = HandOver(client_.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("2 in sync at present"));
  EXPECT_TRUE(IsPrimary(*a_));
  AwaitStatus("\nhealth degraded 2 of 3 members are in sync\n", true);
  b_->Restart();
  AwaitBackups(2);
  AwaitStatus("\ndirectory answers\nhealth whole\n", true);
  const absl::Status handed_over = HandOver(client_.get());
  EXPECT_TRUE(handed_over.ok()) << handed_over;
  AwaitBackups(2);
  ExpectAllItems();
}

// A new primary that is alone does not acknowledge a write either, although all members of the former primary had it.
TEST_F(LeastInSyncTest, AWriteThatIsAskedForAgainIsNotAcknowledgedEither) {
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  c_->Signal(SIGKILL);
  c_->Wait();
  AwaitBackups(1);
  chain.Advance(100);
  a_->Signal(SIGKILL);
  a_->Wait();
  AwaitStatus("\nmembers 1 of 3, at least 2\n", true);
  EXPECT_TRUE(IsPrimary(*b_));
  const uint64_t acknowledged = chain.acknowledged();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(chain.acknowledged(), acknowledged);
  c_->Restart();
  chain.Advance(100);
  ExpectExact(&chain);
  ExpectAllItems();
}

}  // namespace
}  // namespace farlook
