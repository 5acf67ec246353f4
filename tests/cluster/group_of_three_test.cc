// A group of three kv_server processes: two backups of which one is lost, spares, too few members, more or fewer.
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cluster/group_fixture.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

class ThreeServersTest : public GroupTest {
 protected:
  explicit ThreeServersTest(const std::string& suspicion = "10s", int replicas = 3, int min_insync = 1)
      : GroupTest(suspicion, "", replicas, min_insync) {
    b_ = Start();
    c_ = Start();
    addresses_ = absl::StrCat(a_->address(), ",", b_->address(), ",", c_->address());
    client_ = MustConnect(addresses_, Reading());
    AwaitBackups(replicas - 1);
    if (min_insync > 1) Load();
  }
  ~ThreeServersTest() override { c_.reset(); }

  void AwaitBackups(size_t count) {
    while (!HasFailure() && CountBackups() != count) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  size_t CountBackups() {
    size_t count = 0;
    for (const absl::string_view line : absl::StrSplit(Status(), '\n')) {
      count += absl::StartsWith(line, "backup ") && !absl::StrContains(line, " disconnected");
    }
    return count;
  }
  ServerProcess& Primary() { return IsPrimary(*a_) ? *a_ : IsPrimary(*b_) ? *b_ : *c_; }
  // What the group's primary says which process is at this address.
  std::string IncarnationAt(const std::string& address) {
    for (const absl::string_view line : absl::StrSplit(Status(), '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words.size() > 2 && words[1] == address) return words[2];
    }
    return "";
  }
  std::map<std::string, std::string> Incarnations() {
    std::map<std::string, std::string> all;
    for (const auto* server : {a_.get(), b_.get(), c_.get()}) all[server->address()] = IncarnationAt(server->address());
    return all;
  }
  // None of them has begun anew.
  void ExpectOthersAre(const std::map<std::string, std::string>& before, const ServerProcess& primary) {
    for (const auto& [address, incarnation] : before) {
      if (address == primary.address()) continue;
      EXPECT_EQ(IncarnationAt(address), incarnation) << address << " began anew";
    }
  }

  std::unique_ptr<ServerProcess> c_;
};

class ThreeServersOneStopsTest : public ThreeServersTest {
 protected:
  ThreeServersOneStopsTest() : ThreeServersTest("1s") {}
};

// The other backup goes on from where it is, whoever of the two had accepted more.
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

// Two of three are lost at once: the promoter goes on without the one that does not answer.
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

// One is filled while the others come and go.
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
  // That is no member, and waits.
  ServerProcess& Spare() {
    AwaitStatus("\nspare ", true);
    return Status().find(absl::StrCat("\nspare ", b_->address(), " ")) != std::string::npos ? *b_ : *c_;
  }
};

// It costs nothing until it is needed: it hears no record. Then it is filled, whoever is lost.
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
  // Expect: who comes back is the spare now, and is taken in when the primary is lost.
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

// A spare that stands still, or goes, disturbs nobody.
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
  // Expect: the two are spares, which the primary fills when it is to have them again, and they are no alarm.
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
  // Expect: what it was resized to outlives the primary.
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

// Gets go on; writes, also those that were under way, wait within their deadlines until there are two again.
TEST_F(LeastInSyncTest, WithFewerMembersNoWriteIsAcknowledged) {
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  b_->Signal(SIGKILL);
  b_->Wait();
  chain.Advance(100);
  c_->Signal(SIGKILL);
  c_->Wait();
  // Expect: nor is one that begins when nobody is there any more, and is committed when the last backup is removed.
  EXPECT_TRUE(absl::IsDeadlineExceeded(PutWithin(1'500, "key")));
  AwaitStatus("\nmembers 1 of 3, at least 2\n", true);
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

// Nor does one say so that has become primary alone, of a write that the former primary's members had all.
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
