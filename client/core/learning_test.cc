// Updates of a cluster's groups that a client learns while it works: from the map, and by connecting.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/core/core.h"
#include "client/core/cores.h"
#include "client/core/moves_testing.h"
#include "client/op/operation.h"
#include "client/testing/core_testing.h"
#include "client/testing/fake_network.h"
#include "client/testing/mini_server.h"
#include "gtest/gtest.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/message.h"

namespace farlook::client {
namespace {

class LearningTest : public MovesTest {};

TEST_F(LearningTest, AnIdleCoreWhoseWelcomeIsOlderThanTheMapConnectsAnew) {
  Connect();
  // Only the giver sends the map, and the taker's epoch word is not visible.
  const kv::SlotSet slots = SlotsOf({key_});
  Give(slots);
  Take(slots);
  for (const size_t i : {1u, 2u}) servers_[i]->map.clear();
  networks_[kTaker]->hold_reads = true;
  WaitForLease();
  auto put = Prepare(Kind::kPut);
  Start(&put->operation);
  PollUntil(put->operation, 300);
  EXPECT_TRUE(put->status().ok()) << put->status();
  EXPECT_EQ(servers_[kTaker]->written.size(), 1u);
  EXPECT_EQ(networks_[1]->connects, 1u) << "it is in no later epoch";
  ExpectNoViolations();
}

// The stopped group will never report that it no longer has the slot.
TEST_F(LearningTest, AGroupThatGaveItsSlotsAwayAndWasStoppedIsNotWaitedFor) {
  for (const Kind kind : {Kind::kGet, Kind::kPut}) {
    Connect();
    const size_t giver = OwnerOf(key_), taker = giver == kGiver ? kTaker : kGiver;
    servers_[taker]->Put(key_, "value");
    const kv::SlotSet slots = map_.groups[giver].slots;
    map_.groups[giver].slots.reset();
    ++map_.groups[giver].epoch;
    Take(slots, taker);
    networks_[giver]->server = nullptr;
    networks_[giver]->Break();
    auto owned = Prepare(kind);
    Start(&owned->operation);
    PollUntil(owned->operation, 200);
    EXPECT_TRUE(owned->status().ok()) << owned->status();
    EXPECT_EQ(owned->result, kind == Kind::kGet ? "value" : "");
    // Expect: it is left alone then.
    PollFor(300);
    const uint64_t connects = networks_[giver]->connects;
    PollFor(300);
    EXPECT_EQ(networks_[giver]->connects, connects);
    EXPECT_EQ(all_->wait_ms(), -1);
    ExpectNoViolations();
    networks_[giver]->server = servers_[giver].get();
    Enter(giver);
  }
}

TEST_F(LearningTest, AGroupThatJoinsTheClusterIsConnectedTo) {
  Connect();
  const size_t newcomer = AddServer({});
  ASSERT_EQ(all_->groups().size(), kGroups);
  const kv::SlotSet slots = SlotsOf({key_});
  Refuse(slots);
  auto put = Prepare(Kind::kPut);
  Start(&put->operation);
  PollFor(100);
  EXPECT_EQ(all_->groups().size(), kGroups + 1);
  EXPECT_TRUE(cores_[newcomer]->ready());
  Give(slots);
  Take(slots, newcomer);
  PollUntil(put->operation);
  EXPECT_TRUE(put->status().ok()) << put->status();
  EXPECT_EQ(servers_[newcomer]->written.size(), 1u);
  EXPECT_EQ(*all_->OfGroup("kv.3"), cores_[newcomer]);
  // Expect: batches are divided among four.
  const std::vector<std::string> keys = Keys(64);
  std::vector<Operation*> pointers;
  std::deque<OwnedOperation> gets;
  for (const std::string& key : keys) {
    servers_[OwnerOf(key)]->Put(key, "value");
    pointers.push_back(&gets.emplace_back(Kind::kGet, key).operation);
  }
  all_->Start(pointers);
  EXPECT_EQ(PollFor(20), keys.size());
  for (const OwnedOperation& get : gets) EXPECT_EQ(get.result, "value");
  ExpectNoViolations();
}

// The client connected while no group had the slot.
TEST_F(LearningTest, ASlotThatNoGroupHasIsWaitedFor) {
  const kv::SlotSet slots = SlotsOf({key_});
  Give(slots);
  Connect();
  EXPECT_EQ(all_->all().size(), kGroups);
  for (const Kind kind : {Kind::kGet, Kind::kPut, Kind::kReadCounter}) {
    auto owned = Prepare(kind);
    owned->operation.timeout_ms = 100;
    Start(&owned->operation);
    PollUntil(owned->operation, 110);
    EXPECT_TRUE(absl::IsDeadlineExceeded(owned->status())) << owned->status();
    EXPECT_TRUE(absl::StrContains(owned->status().message(), "no group has it")) << owned->status();
  }
  const size_t newcomer = AddServer({});
  auto put = Prepare(Kind::kPut);
  Start(&put->operation);
  clock_.In(200, [&] { Take(slots, newcomer); });
  PollUntil(put->operation, 500);
  EXPECT_TRUE(put->status().ok()) << put->status();
  ExpectNoViolations();
}

// Unused connections are not made again by themselves, and no connected group could report the slot's owner.
TEST_F(LearningTest, WhereNoGroupIsConnectedAllAreConnectedTo) {
  const kv::SlotSet slots = SlotsOf({key_});
  Give(slots);
  Connect();
  Take(slots);
  for (const auto& network : networks_) network->Break();
  PollFor(5);
  auto put = Prepare(Kind::kPut);
  Start(&put->operation);
  PollUntil(put->operation, 300);
  EXPECT_TRUE(put->status().ok()) << put->status();
  ExpectNoViolations();
}

TEST(PagesTest, AreNotTurnedForEver) {
  Pages pages("map");
  Operation operation;
  size_t count = 0;
  do {
    pages.Ask(&operation);
    *operation.to.string = "\n";
    operation.version = 1;
    ASSERT_LT(++count, 2000u);
  } while (pages.Take(operation));
  EXPECT_GT(count, kv::kMaxMapBytes / kv::kMaxReplyPayloadBytes);
}

TEST_F(LearningTest, AMapThatHasNoEndOrMakesNoSenseIsNotBelieved) {
  for (const char* const text :
       {"group kv.0 1\n", "cluster kv 0000000000000000 0000000000000063\ngroup a 1\ngroup a 1\n",
        "cluster kv 0000000000000009 0000000000000063\ngroup a 9\nmember fake://0\n", "\n", ""}) {
    for (const uint64_t left : {0, 1}) {
      Connect();
      for (const auto& server : servers_) {
        server->map = text;
        server->map_left = left;
      }
      servers_[kGiver]->moved.set(SlotOf(key_));
      for (const auto& network : networks_) network->sent.clear();
      const uint64_t connects = networks_[kGiver]->connects;
      auto put = Prepare(Kind::kPut);
      Start(&put->operation);
      PollFor(300);
      EXPECT_FALSE(put->done());
      EXPECT_EQ(all_->groups().size(), kGroups);
      EXPECT_EQ(networks_[kGiver]->connects, connects);
      // A question takes a bounded number of pages, and there is one every 50 ms.
      EXPECT_LT(Messages(), left == 0 || text[0] == 0 ? 50u : 1200u * 10);
      servers_[kGiver]->moved.reset();
      PollUntil(put->operation, 100);
      EXPECT_TRUE(put->status().ok()) << put->status();
      ExpectNoViolations();
    }
  }
}

// ---- Connecting.

// The group was emptied, and may have been stopped.
TEST_F(LearningTest, AGroupWithoutSlotsIsNotWaitedFor) {
  map_.groups[1].slots |= map_.groups[kGiver].slots;
  map_.groups[kGiver].slots.reset();
  Enter(1);
  networks_[kGiver]->accepting = false;
  Connect();
  const int64_t begin_ms = clock_.now_ms();
  const absl::Status status = impl_->waiter.ConnectAll(/*timeout_ms=*/5000, /*wait_for_server=*/true);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_LT(clock_.now_ms(), begin_ms + 100);
  EXPECT_FALSE(cores_[kGiver]->ready());
  PollFor(50);
  const uint64_t connects = networks_[kGiver]->connects, before = Messages();
  PollFor(500);
  EXPECT_EQ(networks_[kGiver]->connects, connects) << "nobody waits for it";
  EXPECT_EQ(Messages(), before);
  EXPECT_TRUE(impl_->RunOnAll(Kind::kPing, 0).ok());
  ExpectNoViolations();
}

}  // namespace
}  // namespace farlook::client
