// End of a move at the taking group if the directory's answer to the last change of the record is lost. The primary
// then finds in its record that the move has ended, and does what it would have done at once. The giver consists only
// of its record, which the test writes.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cluster/configuration.h"
#include "cluster/directory.h"
#include "cluster/simulated_directory.h"
#include "cluster/table_layout.h"
#include "gtest/gtest.h"
#include "kv/heap/partition_locks.h"
#include "kv/table/table.h"
#include "kv/wire/cluster_map.h"
#include "server/base/log.h"
#include "server/group/group.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using cluster::Configuration;
using cluster::Move;

constexpr uint64_t kHashSeed = 3, kTaker = kTestIncarnation, kGiver = 91;
constexpr size_t kSlots = 100;  // the first kSlots slots are taken

// While `loses_answers`, the directory makes changes but does not answer. While `is_gone` it does nothing; if it
// `refuses`, it says so. Counts requests.
struct Trouble {
  bool refuses = false;
  bool loses_answers = false;
  bool is_gone = false;
  int requests = 0;
};

class ForgetfulDirectory final : public cluster::Directory {
 public:
  ForgetfulDirectory(cluster::SimulatedRecords* records, Trouble* trouble)
      : inner_(records, [] { return cluster::SimulatedDirectory::Fault::kNone; }), trouble_(*trouble) {}

  absl::StatusOr<cluster::Entry> Get(absl::string_view name, cluster::Freshness freshness) override {
    ++trouble_.requests;
    if (trouble_.is_gone) return absl::UnavailableError("no answer");
    return inner_.Get(name, freshness);
  }
  cluster::CasResult Cas(absl::string_view name, uint64_t expected, absl::string_view value) override {
    ++trouble_.requests;
    cluster::CasResult result;
    if (!trouble_.is_gone) result = inner_.Cas(name, expected, value);
    if (!trouble_.is_gone && !trouble_.loses_answers) return result;
    return {.outcome = trouble_.refuses ? cluster::CasOutcome::kNotDone : cluster::CasOutcome::kUnknown,
            .why = absl::UnavailableError("no answer")};
  }
  absl::StatusOr<cluster::Entry> Wait(absl::string_view name, uint64_t after, absl::Duration timeout) override {
    return inner_.Wait(name, after, timeout);
  }

 private:
  cluster::SimulatedDirectory inner_;
  Trouble& trouble_;
};

class GroupTakeTest : public ::testing::Test {
 protected:
  GroupTakeTest() {
    SetLogLevel(LogLevel::kNone);
    for (size_t slot = 0; slot < kSlots; ++slot) moving_.set(slot);
    Group::Options options;
    options.name = "taker";
    options.open_directory = [this] { return std::make_unique<ForgetfulDirectory>(&records_, &trouble_); };
    options.incarnation = kTaker;
    options.layout = cluster::TableLayout::Of(2);
    options.replicas = 1;
    options.cluster = "kv";
    options.hash_seed = kHashSeed;
    auto group = Group::Open(std::move(options));
    EXPECT_TRUE(group.ok()) << group.status();
    group_ = *std::move(group);
    EXPECT_TRUE(group_->EnterCluster().ok());
    t_ = std::make_unique<TestWorker>(32 << 20, 100, 100, 3, nullptr, kTestWindow, /*evict=*/false, group_->stream(), 0,
                                      nullptr, [this](Shared* shared) { shared->serving = group_->serving(); });
    t_->gate().SetServing(group_->serving());
    Group::Parts parts;
    parts.table = &t_->table();
    parts.locks = &t_->locks();
    parts.clock = &t_->clock;
    parts.gate = &t_->gate();
    parts.hash_seed = kHashSeed;
    parts.address = "fake://taker";
    parts.workers = {&t_->worker()};
    parts.create_endpoint = [](absl::string_view) { return absl::UnavailableError("the giver does not answer"); };
    parts.deposed = [] { ADD_FAILURE() << "deposed"; };
    group_->Attach(std::move(parts));
    group_->Begin();
  }
  ~GroupTakeTest() override { group_->Stop(); }

  // Runs the group until `done`, with a bound.
  void RunUntil(absl::string_view what, const std::function<bool()>& done) {
    for (int i = 0; i < 10'000; ++i) {
      if (done()) return;
      group_->Step();
      t_->PollAll();
      t_->clock.AdvanceMs(2);
    }
    FAIL() << "not " << what << ": " << group_->Ask("status");
  }
  Configuration RecordOfTaker() const {
    const auto record = cluster::DecodeConfiguration(records_.Get("taker").value);
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? *record : Configuration();
  }
  // Replaces the giver's record: it still has `slots`, and has given the others by `moves`.
  void Write(const kv::SlotSet& slots, std::vector<Move> moves = {}) {
    Configuration giver;
    giver.group = 7;
    giver.epoch = ++giver_epoch_;
    giver.hash_seed = kHashSeed;
    giver.layout = cluster::TableLayout::Of(2);
    giver.cluster = "kv";
    giver.slots = slots;
    giver.members = {{kGiver, cluster::Replica::Kind::kPrimary, "fake://giver"}};
    giver.moves = std::move(moves);
    const uint64_t before = records_.Get("giver").revision;
    ASSERT_EQ(records_.Cas("giver", before, cluster::EncodeConfiguration(giver)).outcome, cluster::CasOutcome::kDone);
  }
  // Makes the taker take the slots, until its record contains the move.
  void Take() {
    RunUntil("primary", [this] { return group_->Ask(absl::StrCat("take giver 0-", kSlots - 1)) == "begun\n"; });
    RunUntil("taking", [this] { return !RecordOfTaker().moves.empty(); });
  }
  // Puts an item of a slot that moves into the taker's table, like a copy. It expires in a second.
  void Copy() {
    for (int i = 0; copied_.empty(); ++i) {
      const std::string key = absl::StrCat("key", i);
      if (moving_[kv::ClusterSlotOf(t_->table().HashOf(key))]) copied_ = key;
    }
    const uint64_t hash = t_->table().HashOf(copied_);
    kv::PutParams params;
    params.expiry_ms = t_->ShownTime() / 1000 + 1000;
    kv::LockedPartition lock(t_->locks().at(t_->table().PartitionOf(hash)));
    ASSERT_EQ(t_->table().Put(hash, copied_, "value", params, t_->clock.now_ns).code, kv::Code::kOk);
  }

  kv::SlotSet moving_;
  cluster::SimulatedRecords records_;
  Trouble trouble_;
  uint64_t giver_epoch_ = 0;
  std::string copied_;  // its key
  std::unique_ptr<Group> group_;
  std::unique_ptr<TestWorker> t_;
};

TEST_F(GroupTakeTest, AnAttemptThatFailsSaysSoThoughTheAnswerIsLost) {
  Write(kv::SlotSet());
  Take();
  Copy();
  trouble_.loses_answers = true;
  RunUntil("given up", [this] { return RecordOfTaker().moves.empty(); });
  RunUntil("told", [this] {
    return absl::StrContains(group_->Ask("status"), "failed group giver does not have all of these slots\n");
  });
  EXPECT_EQ(group_->figures().cluster_moves, 0u);
  // Expect: no copy of the failed attempt is left, and another attempt may begin.
  RunUntil("erased", [this] { return t_->table().stats().keys == 0; });
  EXPECT_EQ(group_->Ask("take giver 0-9"), "begun\n");
}

TEST_F(GroupTakeTest, WhatWasTakenExpiresThoughTheAnswerIsLost) {
  Write(moving_);
  Take();
  Copy();
  const Move taking = RecordOfTaker().moves.at(0);
  Write(kv::SlotSet(), {{.id = taking.id, .kind = Move::Kind::kGiven, .group = "taker", .slots = moving_}});
  trouble_.loses_answers = true;
  RunUntil("its own", [this] { return RecordOfTaker().slots == moving_; });
  ASSERT_EQ(t_->table().stats().keys, 1u);
  RunUntil("expired", [this] { return t_->table().stats().keys == 0; });
  EXPECT_EQ(group_->figures().cluster_slots, kSlots);
}

TEST_F(GroupTakeTest, ADirectoryThatDoesNotAnswerIsAskedAgainAfterAPause) {
  RunUntil("primary", [this] { return group_->Ask(absl::StrCat("take giver 0-", kSlots - 1)) == "begun\n"; });
  trouble_.is_gone = true;
  trouble_.requests = 0;
  RunUntil("asked", [this] { return trouble_.requests > 0; });
  // One simulated second has some 500 turns.
  const int before = trouble_.requests;
  int64_t left_ms = 1000;
  RunUntil("a second later", [&left_ms] { return (left_ms -= 2) < 0; });
  EXPECT_GT(trouble_.requests, before);  // it continues to try
  EXPECT_LE(trouble_.requests, before + 60);
  trouble_.is_gone = false;
  RunUntil("taking", [this] { return !RecordOfTaker().moves.empty(); });
}

// The record cannot be changed: neither an outcome that is unknown nor a refusal makes the primary ask in each turn.
TEST_F(GroupTakeTest, ARecordThatCannotBeChangedIsTriedAgainAfterAPause) {
  RunUntil("primary", [this] { return group_->Ask("resize 2 1") == "begun\n"; });
  RunUntil("resized", [this] { return RecordOfTaker().replicas == 2; });
  for (const bool refuses : {false, true}) {
    trouble_ = {.refuses = refuses, .is_gone = true};
    ASSERT_EQ(group_->Ask(refuses ? "resize 4 1" : "resize 3 1"), "begun\n");
    int64_t left_ms = 1000;
    RunUntil("a second later", [&left_ms] { return (left_ms -= 2) < 0; });
    EXPECT_GT(trouble_.requests, 2);  // it continues to try
    EXPECT_LE(trouble_.requests, 60);
    trouble_.is_gone = false;
    RunUntil("resized", [&] { return RecordOfTaker().replicas == (refuses ? 4u : 3u); });
  }
}

}  // namespace
}  // namespace farlook::server
