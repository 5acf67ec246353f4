// A group of two kv_server processes: filled while clients write, handed over, killed, stopped. Acknowledged writes are
// there, once, and no client reads stale data.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"
#include "tests/cluster/group_fixture.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

// A connection whose messages the test sends.
class Visitor {
 public:
  Visitor(const std::string& address, uint32_t flags) : endpoint_(*rdma::CreateEndpoint(address)) {
    kv::ConnectData data;
    data.flags = flags;
    connection_ = *endpoint_->Connect(address, data.Encode(), kTimeoutMs);
  }
  // Waits for the next event.
  rdma::Opcode Await() {
    for (;;) {
      rdma::Completion completion;
      if (endpoint_->Poll(absl::MakeSpan(&completion, 1)) > 0) return completion.opcode;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void Send(const std::string& message) {
    EXPECT_TRUE(connection_->PostSend(message, {}));
    connection_->Ring();
  }

 private:
  const std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<rdma::Connection> connection_;
};

// Asks a primary to be filled, and accepts nothing.
class StillJoiner : private Visitor {
 public:
  StillJoiner(const std::string& primary, uint64_t incarnation) : Visitor(primary, 0) {
    EXPECT_EQ(Await(), rdma::Opcode::kConnected);
    Send(kv::Hello().Encode());
    EXPECT_EQ(Await(), rdma::Opcode::kReceive);  // Welcome
    kv::Follow follow;
    follow.incarnation = incarnation;
    follow.epoch = 1;
    follow.address = absl::StrCat("shm:///", incarnation);
    follow.max_value_bytes = 16 << 20;
    follow.memory_bytes = 64 << 20;
    Send(follow.Encode());
  }
};
TEST_F(GroupTest, IsHandedOverWhileClientsWrite) {
  Chain early(addresses_, "early");
  early.Advance(200);
  StartBackup();  // it is filled meanwhile
  Chain chain(addresses_, "chain");
  Tally tally(addresses_, "tally");
  Mortals mortals(addresses_);
  chain.Advance(200);
  for (int i = 0; i < 4; ++i) {
    const absl::Status status = HandOver(client_.get());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(IsPrimary(*b_), i % 2 == 0);
    chain.Advance(200);
    early.Advance(200);
    AwaitBackup();  // the former primary restarted
  }
  ExpectExact(&chain);
  ExpectExact(&early);
  tally.ExpectExact();
  mortals.Expect();
  ExpectAllItems();
}

// Longer than any client waits.
class LongLeaseGroupTest : public GroupTest {
 protected:
  LongLeaseGroupTest() : GroupTest("10m", "", 2, 1, "60s") {}
};

// If a primary's memory can no longer be READ, its successor does not wait for readers' leases, over verbs too.
TEST_F(LongLeaseGroupTest, AHandoverWaitsForNoLease) {
  StartBackup();
  Chain chain(addresses_, "chain");
  chain.Advance(20);
  const absl::Status status = HandOver(client_.get());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(IsPrimary(*b_));
  EXPECT_TRUE(client_->Put("key", "value", {.timeout_ms = 30'000}).ok());
  chain.Advance(20);
  ExpectExact(&chain);
  ExpectAllItems();
}

TEST_F(GroupTest, WithoutABackupInSyncItIsNotHandedOver) {
  const absl::Status status = HandOver(client_.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(client_->Put("key", "value").ok());
  ExpectAllItems();
}

// A server that could not take the primary's place is not filled, and the status names why. One with more memory is.
TEST_F(GroupTest, AServerWithOtherFlagsIsRefusedByName) {
  const std::string group = absl::StrCat("--group=", group_);
  {
    const ServerProcess values({"--memory=64MiB", "--max_value_bytes=1MiB", group});
    AwaitStatus(absl::StrCat("\nrefused ", values.address(), " "), true);
    EXPECT_TRUE(absl::StrContains(Status(), " --max_value_bytes=1MiB, and the group has 16MiB: ")) << Status();
    const ServerProcess memory({"--memory=60MiB", group});
    AwaitStatus(absl::StrCat("\nrefused ", memory.address(), " "), true);
    EXPECT_TRUE(absl::StrContains(Status(), " --memory=60MiB, and the group needs 64MiB: ")) << Status();
    EXPECT_FALSE(absl::StrContains(Status(), "joining")) << Status();
    EXPECT_FALSE(absl::StrContains(Status(), "backup")) << Status();
  }
  b_ = std::make_unique<ServerProcess>(std::vector<std::string>{"--memory=96MiB", "--suspicion=10s", group});
  AwaitBackup();
  EXPECT_TRUE(HandOver(client_.get()).ok());
  EXPECT_TRUE(IsPrimary(*b_));
  AwaitBackup();  // of the group's memory, which is less than its primary's
  ExpectAllItems();
}

// The connection exists, and the backup does not answer over it: the primary detects that, and the only copy stays
// where it is.
TEST_F(GroupTest, ToABackupThatStandsStillItIsNotHandedOver) {
  StartBackup();
  b_->Signal(SIGSTOP);
  const absl::Status status = HandOver(client_.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(client_->Put("key", "value").ok());
  EXPECT_TRUE(IsPrimary(*a_));
  b_->Signal(SIGCONT);
  AwaitBackup();  // it restarted
  EXPECT_TRUE(HandOver(client_.get()).ok());
  EXPECT_TRUE(IsPrimary(*b_));
  ExpectAllItems();
}

TEST_F(GroupTest, ABackupThatIsBehindIsSeenUntilItIsRemoved) {
  StartBackup();
  EXPECT_EQ(ServerStat(client_.get(), "group_lag_records"), 0);
  b_->Signal(SIGSTOP);
  const auto writer = MustConnect(addresses_, Reading());
  std::thread waits([&] { EXPECT_TRUE(writer->Put("key", "value").ok()); });
  int64_t most_ms = 0, records = 0;
  while (ServerStat(client_.get(), "group_members") == 2) {
    most_ms = std::max<int64_t>(most_ms, ServerStat(client_.get(), "group_lag_ms"));
    records = std::max<int64_t>(records, ServerStat(client_.get(), "group_lag_records"));
  }
  waits.join();
  EXPECT_GT(most_ms, 1000);
  EXPECT_GE(records, 1);
  EXPECT_EQ(ServerStat(client_.get(), "group_lag_records"), 0);
  EXPECT_EQ(ServerStat(client_.get(), "group_lag_ms"), 0);
}

// Neither a joiner that is being filled and accepts nothing, nor one that waits for its turn and dies, stops writes for
// good.
TEST_F(GroupTest, JoinersThatStandStillOrDieAreGivenUp) {
  const StillJoiner filled(addresses_, 71);
  AwaitStatus("joining shm:///71 ", true);
  auto waiting = std::make_unique<StillJoiner>(addresses_, 72);
  AwaitStatus("joining shm:///72 ", true);
  waiting.reset();
  AwaitStatus(" shm:///72 ", false);
  AwaitStatus(" shm:///71 ", false);
  EXPECT_TRUE(client_->Put("key", "value").ok());
  StartBackup();
  ExpectAllItems();
}

// An empty table is not taken for the lost one.
TEST_F(GroupTest, WhenAllAreGoneThatIsSaidUntilAnOperatorBeginsAnew) {
  StartBackup();
  const std::string before = Status();
  EXPECT_NE(before.find("\nepoch 2\n"), std::string::npos) << before;
  for (ServerProcess* const server : {b_.get(), a_.get()}) {
    server->Signal(SIGKILL);
    server->Wait();
  }
  a_->Restart();
  const auto lost = Client::Connect(a_->address(), Reading());
  ASSERT_TRUE(absl::IsDataLoss(lost.status())) << lost.status();
  const absl::string_view advice = lost.status().message();
  const size_t at = advice.find("--begin_group_anew=");
  ASSERT_NE(at, std::string::npos) << advice;
  const std::string flag(advice.substr(at, advice.find_last_of("0123456789") + 1 - at));
  const absl::Status get = client_->Get("item0").status();
  EXPECT_TRUE(absl::IsDataLoss(get)) << get << ": who knew it before is told the same";
  // Expect: neither a server without the operator's flag, nor one with a flag for an earlier loss, serves.
  b_->Restart({"--begin_group_anew=1"});
  EXPECT_TRUE(absl::IsDataLoss(Client::Connect(b_->address(), Reading()).status()));
  b_->Signal(SIGTERM);
  b_->Wait();
  b_->Restart({flag});
  // The other one reports the former state until it is notified of this.
  while (!Client::Connect(a_->address(), Reading()).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  client_ = MustConnect(addresses_, Reading());
  EXPECT_TRUE(absl::IsNotFound(client_->Get("item0").status()));
  EXPECT_TRUE(client_->Put("item0", "value").ok());
  AwaitBackup();  // the other one
  // Expect: the flag stays, and says nothing of the next loss.
  a_->Signal(SIGKILL);
  a_->Wait();
  b_->Signal(SIGKILL);
  b_->Wait();
  b_->Restart({flag});
  EXPECT_TRUE(absl::IsDataLoss(Client::Connect(b_->address(), Reading()).status()));
}

// It keeps its copy while no primary serves. An operator has the group begin from it: what was acknowledged while it
// was a member is there, and what was acknowledged later is not.
TEST_F(GroupTest, AGroupThatIsLostBeginsFromTheCopyOfABackupThatWasRemoved) {
  const std::string flagfile = folder_ + "/flags";
  const auto set_flags = [&flagfile](absl::string_view flags) { std::ofstream(flagfile) << flags; };
  set_flags("--log_level=info\n");
  StartBackup({"--flagfile=" + flagfile});
  ASSERT_TRUE(client_->Put("before", "kept").ok());
  b_->Signal(SIGSTOP);
  ASSERT_TRUE(client_->Put("meanwhile", "either").ok());  // waits until the backup is removed
  const auto after = client_->Put("after", "lost");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_THAT(Status(), testing::HasSubstr("\nmembers 1 of 2"));
  a_->Signal(SIGKILL);
  a_->Wait();
  b_->Signal(SIGCONT);
  absl::Status lost;
  while (!absl::IsDataLoss(lost)) lost = Client::Connect(b_->address(), Reading()).status();
  const std::string advice(lost.message());
  const size_t at = advice.find("--begin_group_anew=");
  ASSERT_NE(at, std::string::npos) << advice;
  EXPECT_THAT(advice, testing::HasSubstr(" --from_copy"));
  // Expect: a flag for another loss changes nothing.
  set_flags("--begin_group_anew=1\n--from_copy\n");
  b_->Signal(SIGHUP);
  EXPECT_TRUE(absl::IsDataLoss(Client::Connect(b_->address(), Reading()).status()));
  set_flags(absl::StrCat(advice.substr(at, advice.find(' ', at) - at), "\n--from_copy\n"));
  b_->Signal(SIGHUP);
  while (!Client::Connect(b_->address(), Reading()).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  client_ = MustConnect(b_->address(), Reading());
  ExpectAllItems();
  EXPECT_EQ(client_->Get("before").value_or(Value()).data, "kept");
  EXPECT_TRUE(absl::IsNotFound(client_->Get("after").status()));
  // Expect: versions that the lost primary gave are not given again.
  EXPECT_GT(client_->Put("after", "again").value_or(0), *after);
  a_->Restart();
  AwaitBackup();
  ExpectAllItems();
}

TEST_F(GroupTest, APrimaryThatIsKilledLosesNothing) {
  StartBackup();
  Chain chain(addresses_, "chain"), other(addresses_, "other");
  Tally tally(addresses_, "tally");
  Mortals mortals(addresses_);
  for (int i = 0; i < 4; ++i) {
    chain.Advance(200);
    other.Advance(200);
    ServerProcess& primary = i % 2 == 0 ? *a_ : *b_;
    ASSERT_TRUE(IsPrimary(primary));
    primary.Signal(SIGKILL);
    primary.Wait();
    chain.Advance(200);
    other.Advance(200);
    primary.Restart();
    AwaitBackup();
  }
  ExpectExact(&chain);
  ExpectExact(&other);
  tally.ExpectExact();
  mortals.Expect();
  ExpectAllItems();
}

// Its memory can still be READ, and its process continues later: no client believes it any more.
TEST_F(StoppedGroupTest, APrimaryThatIsStoppedIsReplaced) {
  StartBackup();
  Chain chain(addresses_, "chain"), other(addresses_, "other", Fencing::kStrict);
  Tally tally(addresses_, "tally");
  for (int i = 0; i < 4; ++i) {
    chain.Advance(100);
    other.Advance(100);
    ServerProcess& primary = i % 2 == 0 ? *a_ : *b_;
    ASSERT_TRUE(IsPrimary(primary));
    primary.Signal(SIGSTOP);
    chain.Advance(100);
    other.Advance(100);
    EXPECT_FALSE(IsPrimary(primary));
    primary.Signal(SIGCONT);
    chain.Advance(100);
    AwaitBackup();  // it restarted
  }
  ExpectExact(&chain);
  ExpectExact(&other);
  tally.ExpectExact();
  ExpectAllItems();
}

// A client that does not know of the new primary yet reads no stale data, however it reads: its only source is the
// connection to the former one.
TEST_F(StoppedGroupTest, WhoWasIdleMeanwhileBelievesNothingOfTheFormerPrimary) {
  StartBackup();
  ASSERT_TRUE(client_->Put("key", "old").ok());
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(MustConnect(addresses_, Reading()));
    ASSERT_EQ(idle.back()->Get("key")->data, "old");
    ASSERT_EQ(idle.back()->Get("absent").status().code(), absl::StatusCode::kNotFound);
  }
  a_->Signal(SIGSTOP);
  ASSERT_TRUE(client_->Put("key", "new").ok());
  ASSERT_TRUE(client_->Put("absent", "no more").ok());
  EXPECT_EQ(idle[0]->Get("key")->data, "new");
  EXPECT_EQ(idle[1]->Get("absent")->data, "no more");
  a_->Signal(SIGCONT);
  EXPECT_EQ(idle[2]->Get("key")->data, "new");
  EXPECT_EQ(idle[3]->Get("absent")->data, "no more");
}

// Also where there is a backup: its word is watched, and its CPU takes no part.
TEST_F(GroupTest, GetsAreReadsOfThePrimary) {
  StartBackup();
  ExpectAllItems();
  EXPECT_EQ(client_->Get("absent").status().code(), absl::StatusCode::kNotFound);
  const ClientStats stats = client_->stats();
  EXPECT_GT(stats.gets, static_cast<uint64_t>(kItems));
  EXPECT_LT(stats.server_gets, 100u)
      << "but for the first ones, and where this machine is so busy that words come late";
}

// A primary without records to send answers when it is asked.
TEST_F(StoppedGroupTest, AnIdlePrimaryIsNotSuspected) {
  StartBackup();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_TRUE(IsPrimary(*a_));
  EXPECT_NE(Status().find("\nepoch 2\n"), std::string::npos) << Status();
}

// A backup admits a client although it does not serve, if the client only READs its epoch word.
TEST_F(GroupTest, ABackupLetsInWhoOnlyWatches) {
  StartBackup();
  Visitor watcher(b_->address(), kv::ConnectData::kWatch);
  EXPECT_EQ(watcher.Await(), rdma::Opcode::kConnected);
  watcher.Send(kv::Hello().Encode());
  EXPECT_EQ(watcher.Await(), rdma::Opcode::kReceive);
  watcher.Send("a request");
  EXPECT_EQ(watcher.Await(), rdma::Opcode::kDisconnected);
  Visitor client(b_->address(), 0);
  EXPECT_EQ(client.Await(), rdma::Opcode::kDisconnected);
  EXPECT_TRUE(client_->Put("key", "value").ok());
}

TEST_F(GroupTest, ABackupThatIsKilledIsRemovedAndFilledAnew) {
  StartBackup();
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  b_->Signal(SIGKILL);
  b_->Wait();
  chain.Advance(100);
  const std::string status = Status();
  EXPECT_EQ(status.find("\nbackup "), std::string::npos) << status;
  EXPECT_EQ(status.find("\njoining "), std::string::npos) << status;
  EXPECT_EQ(ServerStat(client_.get(), "group_members"), 1);
  EXPECT_EQ(ServerStat(client_.get(), "group_replicas"), 2);
  EXPECT_EQ(ServerStat(client_.get(), "group_removed_backups"), 1);
  b_->Restart();
  AwaitBackup();
  a_->Signal(SIGKILL);
  a_->Wait();
  chain.Advance(100);
  EXPECT_TRUE(IsPrimary(*b_));
  ExpectExact(&chain);
  ExpectAllItems();
}

}  // namespace
}  // namespace farlook
