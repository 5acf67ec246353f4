// Slots move between the groups of a cluster while a client works. Each operation is executed once, by the group that
// has its slot, or ends at its deadline.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/api/client_impl.h"
#include "client/api/waiter.h"
#include "client/core/core.h"
#include "client/core/cores.h"
#include "client/core/moves_testing.h"
#include "client/op/operation.h"
#include "client/testing/core_testing.h"
#include "client/testing/fake_network.h"
#include "client/testing/mini_server.h"
#include "farlook/async.h"
#include "gtest/gtest.h"
#include "kv/layout/words.h"
#include "kv/table/table.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/message.h"

namespace farlook::client {
namespace {

// ---- Operations of each kind.

struct Asked {
  const char* name;
  Kind kind;
  bool by_message;
  bool on_this_host;
  Condition condition = Condition::Always();
};

class OfKindTest : public MovesTest, public testing::WithParamInterface<Asked> {
 protected:
  OfKindTest() {
    if (GetParam().by_message) options_.lookups = Lookups::kMessages;
    for (const auto& network : networks_) network->capabilities.local = GetParam().on_this_host;
    Connect();
    // The contents before the move.
    for (const size_t i : {kGiver, kTaker}) {
      kv::Table& table = servers_[i]->table();
      if (IsCounter(GetParam().kind) && GetParam().kind != Kind::kCreateCounter) {
        kv::StoreWord(servers_[i]->cells().data() + kCell, 40);
        EXPECT_EQ(table.InsertCounter(table.HashOf(key_), key_, kCell, 1).code, kv::Code::kOk);
      } else if (!IsCounter(GetParam().kind) && GetParam().condition.kind() != Condition::Kind::kIfAbsent) {
        EXPECT_EQ(servers_[i]->Put(key_, i == kTaker ? "taker's" : "giver's").code, kv::Code::kOk);
      }
    }
  }
  bool by_read() const { return IsGet(GetParam().kind) && !GetParam().by_message; }

  void ExpectDoneBy(size_t group, const OwnedOperation& owned) {
    EXPECT_TRUE(owned.status().ok()) << owned.status();
    if (WantsValue(GetParam().kind)) {
      EXPECT_EQ(owned.result, group == kTaker ? "taker's" : "giver's");
    }
    if (GetParam().kind == Kind::kFetchAdd) {
      EXPECT_EQ(owned.operation.counter, 40);
    }
    for (const size_t i : {kGiver, kTaker}) {
      EXPECT_EQ(servers_[i]->executed - servers_[i]->maps_sent, group == i && !by_read() ? 1u : 0u) << i;
    }
    EXPECT_EQ(all_->stats().gets, IsGet(GetParam().kind) ? 1u : 0u);
    ExpectNoViolations();
  }

  static constexpr uint64_t kCell = 1024;
};

TEST_P(OfKindTest, TheSlotMovesBeforeItIsSent) {
  const kv::SlotSet slots = SlotsOf({key_});
  Refuse(slots);
  Give(slots);
  WaitForLease();
  auto owned = Prepare(GetParam().kind, GetParam().condition);
  Start(&owned->operation);
  PollFor(50);
  EXPECT_FALSE(owned->done()) << "nobody serves the slot";
  EXPECT_EQ(all_->in_flight(), 1u);
  Take(slots);
  PollUntil(owned->operation);
  ExpectDoneBy(kTaker, *owned);
}

TEST_P(OfKindTest, TheSlotMovesWhileItIsInFlight) {
  const kv::SlotSet slots = SlotsOf({key_});
  networks_[kGiver]->hold_requests = networks_[kGiver]->hold_reads = true;
  auto owned = Prepare(GetParam().kind, GetParam().condition);
  Start(&owned->operation);
  PollFor(2);
  Refuse(slots);
  networks_[kGiver]->hold_requests = false;
  networks_[kGiver]->ReleaseRequests();
  PollFor(30);
  EXPECT_FALSE(owned->done());
  Give(slots);
  WaitForLease();
  networks_[kGiver]->hold_reads = false;
  networks_[kGiver]->ReleaseReads();
  PollFor(30);
  EXPECT_FALSE(owned->done());
  Take(slots);
  PollUntil(owned->operation);
  ExpectDoneBy(kTaker, *owned);
}

// For kinds whose replies are remembered. The giver remembers its replies.
class RepliedTest : public OfKindTest {};
TEST_P(RepliedTest, TheSlotMovesWhileTheReplyIsLost) {
  const kv::SlotSet slots = SlotsOf({key_});
  networks_[kGiver]->lose_replies = true;
  auto owned = Prepare(GetParam().kind, GetParam().condition);
  Start(&owned->operation);
  PollFor(2);
  EXPECT_EQ(servers_[kGiver]->executed, 1u);
  Refuse(slots);
  Give(slots);
  Take(slots);
  networks_[kGiver]->lose_replies = false;
  networks_[kGiver]->Break();
  PollUntil(owned->operation);
  ExpectDoneBy(kGiver, *owned);
}

const auto kReplied = testing::Values(
    Asked{"GetByMessage", Kind::kGet, true, false}, Asked{"ExistsByMessage", Kind::kExists, true, false},
    Asked{"Ttl", Kind::kTtl, true, false}, Asked{"Put", Kind::kPut, false, false},
    Asked{"PutOnThisHost", Kind::kPut, false, true},
    Asked{"PutIfAbsent", Kind::kPut, false, false, Condition::IfAbsent()},
    Asked{"PutIfPresent", Kind::kPut, false, false, Condition::IfPresent()},
    Asked{"Delete", Kind::kDelete, false, false}, Asked{"Touch", Kind::kTouch, false, false},
    Asked{"GetAndTouch", Kind::kGetAndTouch, false, false}, Asked{"CreateCounter", Kind::kCreateCounter, false, false},
    Asked{"FetchAdd", Kind::kFetchAdd, false, false}, Asked{"ReadCounter", Kind::kReadCounter, false, false},
    Asked{"DeleteCounter", Kind::kDeleteCounter, false, false});
const auto kRead =
    testing::Values(Asked{"Get", Kind::kGet, false, false}, Asked{"GetOnThisHost", Kind::kGet, false, true},
                    Asked{"Exists", Kind::kExists, false, false});

INSTANTIATE_TEST_SUITE_P(Replied, RepliedTest, kReplied, [](const auto& of) { return std::string(of.param.name); });
INSTANTIATE_TEST_SUITE_P(Replied, OfKindTest, kReplied, [](const auto& of) { return std::string(of.param.name); });
INSTANTIATE_TEST_SUITE_P(Read, OfKindTest, kRead, [](const auto& of) { return std::string(of.param.name); });

// ---- Gets.

// While the giver only refuses requests, its table is valid.
TEST_F(MovesTest, UntilTheGiverIsInAnotherEpochItIsRead) {
  Connect();
  servers_[kGiver]->Put(key_, "value");
  Refuse(SlotsOf({key_}));
  auto get = Prepare(Kind::kGet);
  Start(&get->operation);
  PollUntil(get->operation, 10);
  EXPECT_EQ(get->result, "value");
  EXPECT_EQ(Messages(), 0u);
  ExpectNoViolations();
}

// The value may still be in the giver's memory, and the epoch words show that the giver is a current primary.
TEST_F(MovesTest, WhatWaitedWhenTheGiverLostTheSlotIsNotReadThere) {
  for (const bool on_this_host : {false, true}) {
    networks_[kGiver]->capabilities.local = on_this_host;
    Connect();
    servers_[kGiver]->Put(key_, "stale");
    networks_[kGiver]->accepting = false;
    networks_[kGiver]->Break();
    PollFor(2);
    auto get = Prepare(Kind::kGet);
    Start(&get->operation);
    PollFor(5);
    const kv::SlotSet slots = SlotsOf({key_});
    Give(slots);
    servers_[kTaker]->Put(key_, "value");
    networks_[kGiver]->accepting = true;
    PollFor(400);
    EXPECT_FALSE(get->done()) << get->result << get->status();
    Take(slots);
    PollUntil(get->operation);
    EXPECT_TRUE(get->status().ok()) << get->status();
    EXPECT_EQ(get->result, "value");
    ExpectNoViolations();
    map_.groups[kTaker].slots &= ~slots;
    map_.groups[kGiver].slots |= slots;
    Enter(kGiver);
    Enter(kTaker);
  }
}

// ---- Blocking calls.

class BlockingTest : public MovesTest, public testing::WithParamInterface<bool> {
 protected:
  BlockingTest() {
    for (const auto& network : networks_) network->capabilities.local = GetParam();
  }
};

TEST_P(BlockingTest, CallsGoOnWithTheTaker) {
  Connect();
  const kv::SlotSet slots = SlotsOf({key_});
  MoveWithin(300, slots);
  int64_t longest_ms = 0;
  for (int i = 0; clock_.now_ms() < 1500; ++i) {
    const std::string value = absl::StrCat("value", i);
    const int64_t begin_ms = clock_.now_ms();
    Operation put;
    put.value = value;
    EXPECT_TRUE(impl_->RunTimed(&put, Kind::kPut, {key_.data(), key_.size()}, 0).ok()) << put.status;
    longest_ms = std::max(longest_ms, clock_.now_ms() - begin_ms);
    std::string got;
    Operation get;
    get.key = key_;
    get.to.string = &got;
    const absl::Status status = impl_->Run(&get, get.kind);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(got, value);
    clock_.AdvanceMs(7);
  }
  EXPECT_GT(longest_ms, 150);
  EXPECT_LT(longest_ms, 300);
  EXPECT_FALSE(servers_[kTaker]->written.empty());
  ExpectNoViolations();
}

TEST_P(BlockingTest, ABatchOverThreeGroupsGoesOnInItsMidst) {
  for (const Kind kind : {Kind::kGet, Kind::kPut, Kind::kExists}) {
    for (const Lookups lookups : {Lookups::kReads, Lookups::kMessages}) {
      options_.lookups = lookups;
      Connect();
      const std::vector<std::string> keys = Keys(64);
      std::vector<std::string> given, values(keys.size());
      for (const std::string& key : keys) {
        for (const auto& server : servers_) server->Put(key, key + "!");
        if (OwnerOf(key) == kGiver && given.size() < 10) given.push_back(key);
      }
      ASSERT_EQ(given.size(), 10u);
      const kv::SlotSet slots = SlotsOf(given);
      for (const auto& network : networks_) network->hold_requests = network->hold_reads = true;
      // A value that was READ before the slots move is valid, and on this host that is sufficient. Elsewhere the client
      // must wait until leases have expired.
      const bool by_read = kind != Kind::kPut && lookups == Lookups::kReads;
      const int64_t move_ms = by_read ? 600 : 60;
      MoveWithin(move_ms, slots);
      clock_.In(by_read ? 500 : 30, [this] {
        for (const auto& network : networks_) {
          network->hold_requests = network->hold_reads = false;
          network->ReleaseRequests();
          network->ReleaseReads();
        }
      });
      const int64_t begin_ms = clock_.now_ms();
      std::vector<absl::Status> statuses(keys.size());
      const absl::Status status = impl_->batch.Run(
          kind, keys.size(), /*timeout_ms=*/5000,
          [&](size_t i, Operation* operation) {
            operation->key = keys[i];
            operation->value = keys[i];
            operation->to.string = &values[i];
          },
          [&](size_t i, Operation* operation) { TakeStatus(operation, &statuses[i]); });
      EXPECT_TRUE(status.ok()) << status;
      if (!by_read || !GetParam()) {
        EXPECT_GE(clock_.now_ms(), begin_ms + move_ms);
      }
      for (size_t i = 0; i < keys.size(); ++i) {
        EXPECT_TRUE(statuses[i].ok()) << statuses[i];
        if (kind == Kind::kGet) {
          EXPECT_EQ(values[i], keys[i] + "!");
        }
      }
      ExpectNoViolations();
      clock_.AdvanceMs(1000);
      clock_.NowNs();
      map_.groups[kTaker].slots &= ~slots;
      map_.groups[kGiver].slots |= slots;
      Enter(kTaker);
      Enter(kGiver);
    }
  }
}

// The deadline of the batch, which differs from those of its operations and of the client.
TEST_P(BlockingTest, ABatchThatNobodyServesEndsAtItsDeadline) {
  clock_.step_ns = 50'000;
  for (const Lookups lookups : {Lookups::kReads, Lookups::kMessages}) {
    for (const int64_t timeout_ms : {300, 2500}) {
      options_.lookups = lookups;
      Connect();
      const kv::SlotSet slots = SlotsOf({key_});
      Refuse(slots);
      if (lookups == Lookups::kReads) {
        Give(slots);
        WaitForLease();
      }
      const std::vector<std::string> keys = {key_, KeyOf(1), KeyOf(2)};
      std::vector<absl::Status> statuses(keys.size());
      const int64_t begin_ms = clock_.now_ms();
      const absl::Status status = impl_->batch.Run(
          Kind::kExists, keys.size(), timeout_ms, [&](size_t i, Operation* operation) { operation->key = keys[i]; },
          [&](size_t i, Operation* operation) { TakeStatus(operation, &statuses[i]); });
      EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("slot ", SlotOf(key_),
                                                                   " of the cluster is being "
                                                                   "moved, or no group has it")))
          << status;
      EXPECT_TRUE(absl::IsNotFound(statuses[1])) << statuses[1];
      EXPECT_TRUE(absl::IsNotFound(statuses[2])) << statuses[2];
      EXPECT_GE(clock_.now_ms(), begin_ms + timeout_ms);
      EXPECT_LT(clock_.now_ms(), begin_ms + timeout_ms + 30);
      ExpectNoViolations();
      map_.groups[kGiver].slots |= slots;
      Enter(kGiver);
    }
  }
}

TEST_P(BlockingTest, ACallThatNobodyServesEndsAtItsDeadline) {
  clock_.step_ns = 50'000;
  Connect();
  const kv::SlotSet slots = SlotsOf({key_});
  Refuse(slots);
  Give(slots);
  WaitForLease();
  for (const int64_t timeout_ms : {0, 50}) {
    const int64_t begin_ms = clock_.now_ms();
    Operation get, put;
    get.key = key_;
    get.kind = Kind::kExists;
    get.timeout_ms = timeout_ms;
    const absl::Status status = impl_->Run(&get, get.kind);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    const int64_t most_ms = timeout_ms == 0 ? options_.timeout_ms : timeout_ms;
    EXPECT_LT(clock_.now_ms(), begin_ms + most_ms + 30);
    const absl::Status put_status = impl_->RunTimed(&put, Kind::kPut, {key_.data(), key_.size()}, timeout_ms);
    EXPECT_TRUE(absl::IsDeadlineExceeded(put_status)) << put_status;
    EXPECT_GE(clock_.now_ms(), begin_ms + 2 * most_ms);
    EXPECT_LT(clock_.now_ms(), begin_ms + 2 * most_ms + 60);
  }
  EXPECT_EQ(all_->stats().timeouts, 4u);
  ExpectNoViolations();
}

INSTANTIATE_TEST_SUITE_P(All, BlockingTest, testing::Bool(),
                         [](const auto& of) { return std::string(of.param ? "OnThisHost" : "Remote"); });

// ---- Asynchronous calls.

TEST_F(MovesTest, CallbacksAreCalled) {
  Connect();
  const kv::SlotSet slots = SlotsOf({key_});
  MoveWithin(60, slots);
  Refuse(slots);
  int called = 0;
  PutOperation put(key_, "value");
  ClientImpl::SetThen(&put, [&](AsyncOperation* operation) {
    EXPECT_TRUE(operation->status().ok()) << operation->status();
    ++called;
  });
  Start(impl_->TakeOff(&put));
  AsyncOperation* done;
  EXPECT_EQ(impl_->Wait({&done, 1}), 0u);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(servers_[kTaker]->written.size(), 1u);
  ExpectNoViolations();
}

TEST_F(MovesTest, WhatWaitsForASlotCountsAndSaysWhenToLookAgain) {
  Connect();
  Refuse(SlotsOf({key_}));
  auto put = Prepare(Kind::kPut);
  Start(&put->operation);
  PollFor(3);
  EXPECT_EQ(all_->in_flight(), 1u);
  EXPECT_FALSE(all_->has_ended());
  const uint64_t before = Messages();
  // Imitates a user's loop that sleeps for at most wait_ms(): it never wakes up without reason, and never after the
  // next try.
  int turns = 0;
  const int64_t begin_ms = clock_.now_ms();
  while (clock_.now_ms() < begin_ms + 500) {
    Operation* done;
    ASSERT_EQ(all_->Poll({&done, 1}), 0u);
    if (!all_->Arm()) continue;
    const int64_t wait_ms = all_->wait_ms();
    ASSERT_GE(wait_ms, 0);
    EXPECT_LE(wait_ms, 50);
    clock_.AdvanceMs(wait_ms);
    ++turns;
  }
  EXPECT_LT(turns, 200);
  EXPECT_GT(Messages() - before, 20u);
  EXPECT_LT(Messages() - before, 60u);
  Give(SlotsOf({key_}));
  Take(SlotsOf({key_}));
  PollUntil(put->operation, 100);
  EXPECT_TRUE(put->status().ok()) << put->status();
  ExpectNoViolations();
}

TEST_F(MovesTest, AServerThatRefusesForEverIsAskedNowAndThen) {
  Connect();
  servers_[kGiver]->moved.set();
  std::vector<std::unique_ptr<OwnedOperation>> puts;
  for (int i = 0; i < 8; ++i) {
    puts.push_back(Prepare(Kind::kPut));
    Start(&puts.back()->operation);
  }
  const int64_t begin_ms = clock_.now_ms();
  EXPECT_EQ(PollFor(options_.timeout_ms + 5), puts.size());
  for (const auto& put : puts) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(put->status())) << put->status();
  }
  EXPECT_GE(clock_.now_ms(), begin_ms + options_.timeout_ms);
  // Eight puts are three messages, as the first is sent alone: one set each 20 ms, and a question each 50 ms.
  EXPECT_LT(Messages(), 8u + 3 * 60 + 25);
  EXPECT_EQ(servers_[kGiver]->written.size(), 0u);
  // Expect: no traffic continues without operations.
  PollFor(500);
  const uint64_t before = Messages();
  PollFor(500);
  EXPECT_EQ(Messages(), before);
  EXPECT_EQ(all_->wait_ms(), -1);
  ExpectNoViolations();
}

}  // namespace
}  // namespace farlook::client
