// Slots move from one group of a cluster to another, while clients write and processes end. No write is lost, none is
// executed twice, and no stale data is read.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "farlook/scan.h"
#include "gtest/gtest.h"
#include "tests/cluster/cluster_fixture.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

using std::chrono::milliseconds;

class MoveTest : public ClusterFixture {
 protected:
  // Starts two groups with half of the slots each, of `replicas` servers with `more` flags.
  void StartTwo(int replicas, const std::vector<std::string>& more = {}) {
    Start(0, "0-2047", more);
    Start(1, "2048-4095", more);
    address_ = absl::StrCat("farlook://", Seed(*servers_[0]), ",", Seed(*servers_[1]), "/kv");
    operator_ = ConnectBy(address_);
    ASSERT_TRUE(operator_ != nullptr);
    for (int replica = 1; replica < replicas; ++replica) {
      for (int group = 0; group < 2; ++group) Start(group, "", more);
    }
    for (int group = 0; group < 2; ++group) AwaitMembers(operator_.get(), Name(group), replicas);
  }
  static std::string Name(int group) { return absl::StrCat("kv.", group); }

  // Retries until there is an answer, as a failover may be under way.
  static absl::Status Persist(const std::function<absl::Status()>& ask) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      absl::Status status = ask();
      if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status) && !absl::IsUnknown(status)) return status;
      if (std::chrono::steady_clock::now() > end) return status;
    }
  }
  ServerOptions Of(int group) const { return {.timeout_ms = 2000, .group = Name(group)}; }
  std::string Status(int group) {
    std::string text;
    const absl::Status status = Persist([&] {
      const absl::StatusOr<std::string> told = GroupStatus(operator_.get(), Of(group));
      if (told.ok()) text = *told;
      return told.status();
    });
    return status.ok() ? text : status.ToString();
  }
  std::string SlotsOf(int group) {
    auto groups = ListGroups(operator_.get(), {.timeout_ms = 2000, .group = Name(group)});
    // On a busy machine, a group whose primary was killed may take longer to reconnect to.
    if (!groups.ok()) groups = ListGroups(operator_.get(), {.timeout_ms = 20'000, .group = Name(group)});
    if (!groups.ok()) return groups.status().ToString();
    for (const ClusterGroup& one : *groups) {
      if (one.name == Name(group)) return one.slot_ranges;
    }
    return "no such group";
  }
  std::string PrimaryOf(int group) {
    for (;;) {
      const auto groups = ListGroups(operator_.get(), {.timeout_ms = 2000, .group = Name(group)});
      if (!groups.ok()) continue;
      for (const ClusterGroup& one : *groups) {
        if (one.name == Name(group) && !one.members.empty()) return one.members[0];
      }
    }
  }
  ServerProcess* ServerAt(const std::string& address) {
    for (const auto& server : servers_) {
      if (server->address() == address) return server.get();
    }
    return nullptr;
  }
  absl::Status TryTake(int taker, const std::string& giver, const std::string& slots) {
    return Persist([&] { return TakeSlots(operator_.get(), giver, slots, Of(taker)); });
  }
  void Take(int taker, int giver, const std::string& slots) {
    const absl::Status status = TryTake(taker, Name(giver), slots);
    // After a lost answer the second request may find that the first is done.
    EXPECT_TRUE(status.ok() || absl::StrContains(status.message(), "has some of these slots")) << status;
  }
  static bool Await(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }
  bool HasMoves(int group) {
    const std::string status = Status(group);
    return absl::StrContains(status, "taking ") || absl::StrContains(status, "taken ") ||
           absl::StrContains(status, "giving ");
  }
  // Until neither knows of a move any more.
  bool AwaitEnd() {
    return Await([this] { return !HasMoves(0) && !HasMoves(1); });
  }
  void Fill() {
    for (const std::string& key : Keys()) ASSERT_TRUE(operator_->Put(key, key).ok());
  }
  void ExpectFilled(Client* client) {
    for (const std::string& key : Keys()) {
      const auto got = client->Get(key);
      ASSERT_TRUE(got.ok()) << key << ": " << got.status();
      EXPECT_EQ(got->data, key);
    }
  }
  // Returns how many of the keys of Fill() a scan does not find.
  static size_t MissingIn(Client* client, const ScanOptions& options = {}) {
    std::set<std::string> found;
    Scanner scanner(client, options);
    ScannedItem item;
    absl::StatusOr<bool> more;
    while ((more = scanner.Next(&item)).ok() && *more) {
      found.emplace(item.key);
      EXPECT_EQ(item.key, item.value);
    }
    EXPECT_TRUE(more.ok()) << more.status();
    size_t missing = 0;
    for (const std::string& key : Keys()) missing += found.count(key) == 0;
    return missing;
  }
  void StartChains(int count) {
    for (int i = 0; i < count; ++i) {
      chains_.push_back(std::make_unique<Steps>(ConnectBy(address_), absl::StrCat("chain", i)));
    }
  }
  void AdvanceChains(uint64_t steps) {
    for (const auto& chain : chains_) chain->Advance(steps);
  }
  void StopChains() {
    for (const auto& chain : chains_) {
      chain->Stop();
      EXPECT_FALSE(chain->failed());
    }
  }

  std::string address_;
  std::unique_ptr<Client> operator_;
  std::vector<std::unique_ptr<Steps>> chains_;
};

TEST_F(MoveTest, ThereAndBackWhileClientsWork) {
  StartTwo(1);
  Fill();
  const auto idle = ConnectBy(address_);
  StartChains(6);
  for (int round = 0; round < 3; ++round) {
    Take(1, 0, "0-1023");
    ASSERT_TRUE(Await([this] { return SlotsOf(1) == "0-1023,2048-4095"; })) << Status(1);
    AdvanceChains(20);
    ASSERT_TRUE(AwaitEnd());
    EXPECT_EQ(SlotsOf(0), "1024-2047");
    Take(0, 1, "0-1023");
    ASSERT_TRUE(Await([this] { return SlotsOf(0) == "0-2047"; })) << Status(0);
    AdvanceChains(20);
    ASSERT_TRUE(AwaitEnd());
  }
  Take(1, 0, "0-1023");
  ASSERT_TRUE(AwaitEnd());
  StopChains();
  ExpectFilled(idle.get());
  ExpectFilled(operator_.get());
  // Expect: the giver keeps no copy of the slots that it gave.
  EXPECT_TRUE(Await(
      [this] { return Stat(operator_.get(), "kv.0", "keys") + Stat(operator_.get(), "kv.1", "keys") == kKeys + 6; }));
}

TEST_F(MoveTest, ScansFindEveryKeyWhileSlotsMoveThereAndBack) {
  StartTwo(1);
  Fill();
  const auto idle = ConnectBy(address_);
  std::atomic<bool> over{false};
  std::thread mover([&] {
    for (int round = 0; round < 3; ++round) {
      Take(1, 0, "0-1023");
      EXPECT_TRUE(AwaitEnd());
      Take(0, 1, "0-1023");
      EXPECT_TRUE(AwaitEnd());
    }
    over = true;
  });
  size_t missing = 0;
  for (int scan = 0; (!over || scan < 3) && missing == 0; ++scan) {
    // Small batches: several moves come between those of one scan.
    missing = MissingIn(idle.get(), {.values = true, .batch_bytes = 4096, .bytes_per_s = 32 << 20});
  }
  mover.join();
  EXPECT_EQ(missing, 0u);
}

TEST_F(MoveTest, AScanContinuesWithTheNextPrimary) {
  StartTwo(2);
  Fill();
  const auto client = ConnectBy(address_);
  std::thread killer([&] {
    ServerProcess* const primary = ServerAt(PrimaryOf(0));
    ASSERT_TRUE(primary != nullptr);
    primary->Signal(SIGKILL);
    primary->Wait();
  });
  for (int scan = 0; scan < 3; ++scan) {
    EXPECT_EQ(MissingIn(client.get(), {.values = true, .batch_bytes = 4096, .bytes_per_s = 16 << 20}), 0u);
  }
  killer.join();
}

TEST_F(MoveTest, AGroupThatComesLaterIsFilledAndOneThatLeavesIsEmptied) {
  StartTwo(1);
  Fill();
  StartChains(4);
  const auto old = ConnectBy(address_);
  // Expect: its tables are like theirs, though alone it would have four times as many partitions.
  Start(2, "", {"--workers=24", "--memory=128MiB"});
  ASSERT_TRUE(Await([this] {
    operator_ = ConnectBy(address_);
    return SlotsOf(2).empty();
  })) << SlotsOf(2);
  Take(2, 0, "0-2047");
  ASSERT_TRUE(Await([this] { return SlotsOf(2) == "0-2047"; })) << Status(2);
  AdvanceChains(20);
  ASSERT_TRUE(Await([this] { return !HasMoves(0) && !HasMoves(2); }));
  EXPECT_TRUE(absl::IsFailedPrecondition(LeaveCluster(operator_.get(), Of(2))));
  const absl::Status left = LeaveCluster(operator_.get(), Of(0));
  EXPECT_TRUE(left.ok()) << left;
  ASSERT_TRUE(Await([this] {
    const auto groups = ListGroups(operator_.get(), {.timeout_ms = 2000, .group = Name(2)});
    return groups.ok() && groups->size() == 2;
  }));
  // Expect: a server of a group that has left leads clients to the remaining groups.
  const auto led = ConnectBy(absl::StrCat("farlook://", Seed(*servers_[0]), "/kv"));
  ASSERT_TRUE(led != nullptr);
  ExpectFilled(led.get());
  servers_[0]->Signal(SIGTERM);
  EXPECT_EQ(servers_[0]->Wait(), 0);
  AdvanceChains(20);
  StopChains();
  ExpectFilled(old.get());
  const auto late = ConnectBy(absl::StrCat("farlook://", Seed(*servers_[1]), "/kv"));
  ASSERT_TRUE(late != nullptr);
  ExpectFilled(late.get());
}

// Any process, at any time of a move.
TEST_F(MoveTest, KilledProcessesAreNoEndOfAMove) {
  StartTwo(2);
  Fill();
  StartChains(6);
  std::mt19937 random(20261125);
  for (int round = 0; round < 6; ++round) {
    const int taker = round % 2, giver = 1 - taker;
    const bool primary = random() % 3 != 0;
    const int victims = random() % 2 == 0 ? taker : giver;
    const std::string address = PrimaryOf(victims);
    ServerProcess* victim = ServerAt(address);
    if (!primary) {
      for (const auto& server : servers_) {
        const size_t group = static_cast<size_t>(&server - servers_.data()) % 2;
        if (group == static_cast<size_t>(victims) && server->address() != address) victim = server.get();
      }
    }
    Take(taker, giver, "0-1023");
    std::this_thread::sleep_for(milliseconds(random() % 60));
    victim->Signal(SIGKILL);
    victim->Wait();
    victim->Restart();
    ASSERT_TRUE(AwaitEnd()) << Status(0) << Status(1);
    EXPECT_EQ(SlotsOf(taker), taker == 1 ? "0-1023,2048-4095" : "0-2047") << round;
    AdvanceChains(20);
    for (int group = 0; group < 2; ++group) AwaitMembers(operator_.get(), Name(group), 2);
  }
  StopChains();
  ExpectFilled(operator_.get());
}

TEST_F(MoveTest, AGiverThatStandsStillIsReplacedAndItsSuccessorGives) {
  StartTwo(2);
  Fill();
  StartChains(4);
  ServerProcess* const stopped = ServerAt(PrimaryOf(0));
  Take(1, 0, "0-1023");
  std::this_thread::sleep_for(milliseconds(10));
  stopped->Signal(SIGSTOP);
  ASSERT_TRUE(Await([this] { return SlotsOf(1) == "0-1023,2048-4095"; })) << Status(1);
  AdvanceChains(20);
  stopped->Signal(SIGCONT);
  AdvanceChains(50);
  StopChains();
  ExpectFilled(operator_.get());
}

TEST_F(MoveTest, WhoTakesSaysHowManyItemsThereAre) {
  StartTwo(2, {"--suspicion=10m"});
  Fill();
  const int64_t items = Stat(operator_.get(), "kv.0", "keys") / 2;
  // Copied items belong to the taker when its backup has them too.
  ServerProcess* const backup = servers_[3].get();
  ASSERT_NE(backup->address(), PrimaryOf(1));
  backup->Signal(SIGSTOP);
  Take(1, 0, "0-1023");
  EXPECT_TRUE(Await([&] { return absl::StrContains(Status(1), absl::StrCat(" of ", items, "\n")); })) << Status(1);
  backup->Signal(SIGCONT);
  ASSERT_TRUE(AwaitEnd());
  EXPECT_EQ(SlotsOf(1), "0-1023,2048-4095");
  ExpectFilled(operator_.get());
}

TEST_F(MoveTest, WhatMakesNoSenseIsRefusedAndACancelledMoveChangesNothing) {
  StartTwo(1);
  Fill();
  const std::vector<std::pair<std::string, std::string>> wrong = {{"kv.0", "2048"}, {"kv.1", "0"},    {"kv.0", "9999"},
                                                                  {"kv.0", "7-3"},  {"no/name", "0"}, {"kv.0", "0 1"},
                                                                  {"kv.0", ""}};
  for (const auto& [giver, slots] : wrong) {
    const absl::Status status = TryTake(1, giver, slots);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << giver << " " << slots << ": " << status;
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(CancelMove(operator_.get(), Of(1))));
  // From a group that does not exist: begun, and given up.
  EXPECT_TRUE(TryTake(1, "kv.7", "0-3").ok());
  ASSERT_TRUE(Await([this] { return absl::StrContains(Status(1), "failed "); }));
  ASSERT_TRUE(AwaitEnd());
  // The giver is stopped, so that the move makes no progress.
  servers_[0]->Signal(SIGSTOP);
  Take(1, 0, "0-1023");
  Take(1, 0, "0-1023");  // the same once more
  EXPECT_TRUE(absl::StrContains(TryTake(1, "kv.0", "0-1022").message(), "it takes slots of group kv.0 already"));
  ASSERT_TRUE(Await([this] { return absl::StrContains(Status(1), "taking kv.0 0-1023"); }));
  const absl::Status cancelled = CancelMove(operator_.get(), Of(1));
  EXPECT_TRUE(cancelled.ok()) << cancelled;
  ASSERT_TRUE(Await([this] { return absl::StrContains(Status(1), "failed cancelled by an operator"); }));
  servers_[0]->Signal(SIGCONT);
  ASSERT_TRUE(AwaitEnd());
  EXPECT_EQ(SlotsOf(0), "0-2047");
  ExpectFilled(operator_.get());
}

}  // namespace
}  // namespace farlook
