// One member, event by event; tests/sim has groups of them.
#include "cluster/member.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "cluster/directory.h"
#include "gtest/gtest.h"
#include "kv/layout/epoch_word.h"
#include "kv/wire/cluster_map.h"

namespace farlook::cluster {
namespace {

using Kind = Action::Kind;
using Role = Member::Role;

constexpr absl::Time kStart = absl::UnixEpoch();
constexpr absl::Duration kLease = absl::Milliseconds(100);

Configuration Of(uint64_t epoch, uint64_t primary, const std::vector<uint64_t>& backups) {
  Configuration configuration;
  configuration.group = 7;
  configuration.epoch = epoch;
  configuration.lease_us = 100'000;
  configuration.members.push_back({.incarnation = primary, .kind = Replica::Kind::kPrimary, .address = "a"});
  for (const uint64_t backup : backups) configuration.members.push_back({.incarnation = backup, .address = "b"});
  return configuration;
}

std::vector<Kind> Kinds(const Actions& actions) {
  std::vector<Kind> kinds;
  for (const Action& action : actions) kinds.push_back(action.kind);
  return kinds;
}

class MemberTest : public testing::Test {
 protected:
  // Returns the actions that the last event requested, without carrying them out.
  Actions Took() { return std::exchange(actions_, {}); }
  void Learn(uint64_t revision, const Configuration& configuration) {
    ASSERT_TRUE(member_.Learn(revision, configuration, &actions_).ok());
  }
  // A backup of 1 in epoch 5 that suspects it.
  void Suspect() {
    Learn(10, Of(5, 1, {2, 3}));
    Took();
    ASSERT_TRUE(member_.Promote({}, false, &actions_).ok());
  }

  Member member_{2};
  Actions actions_;
};

// Its memory can no longer be READ: it is not suspected, and the end of a lease is not waited for.
TEST_F(MemberTest, OfAPrimaryThatHasLeftTheRecordSaysSo) {
  Configuration before = Of(5, 1, {2, 3});
  before.history = 3;
  const auto left = Member::AfterLeaving(before, 1);
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(left->epoch, 6u);
  EXPECT_TRUE(left->primary_left);
  EXPECT_EQ(left->members, before.members);
  EXPECT_FALSE(Member::AfterLeaving(before, 2).has_value()) << "a backup";
  EXPECT_FALSE(Member::AfterLeaving(*left, 1).has_value()) << "it is said";
  EXPECT_FALSE(Member::AfterLeaving(Of(5, 1, {}), 1).has_value()) << "nobody is there to be told";
  Learn(10, before);
  Learn(11, *left);
  EXPECT_EQ(member_.role(), Role::kBackup);
  EXPECT_EQ(member_.word(), EpochWord::Open(6));
  Took();
  ASSERT_TRUE(member_.Promote({}, false, &actions_).ok());
  Took();
  member_.Stored(kStart, &actions_);
  const auto next = DecodeConfiguration(Took().back().record);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE(next->primary_left) << "of the next primary nobody says so";
  EXPECT_EQ(next->Find(1), nullptr);
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 12}, &actions_);
  Took();
  member_.TailAccepted(7, kStart, &actions_);
  EXPECT_TRUE(member_.Serves());
  EXPECT_EQ(member_.configuration().history, before.history) << "the table continues";
}

// Only the group's name and shape stay; the lost members' memory may still be READ.
TEST_F(MemberTest, AJoinerBeginsAnewWhereAllAreLost) {
  EXPECT_TRUE(absl::IsFailedPrecondition(member_.BeginAnew("c", Limits(), false, &actions_))) << "there is no group";
  Learn(10, Of(5, 1, {3}));
  Took();
  ASSERT_TRUE(member_.BeginAnew("c", {.max_value_bytes = 5, .memory_bytes = 6}, false, &actions_).ok());
  Took();
  member_.Stored(kStart, &actions_);
  const Actions sent = Took();
  ASSERT_EQ(Kinds(sent), std::vector<Kind>{Kind::kCas});
  EXPECT_EQ(sent[0].expected, 10u);
  const auto next = DecodeConfiguration(sent[0].record);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->epoch, 6u);
  EXPECT_EQ(next->group, 7u);
  ASSERT_EQ(next->members.size(), 1u);
  EXPECT_EQ(next->primary().incarnation, 2u);
  EXPECT_EQ(next->primary().address, "c");
  EXPECT_EQ(next->limits, (Limits{.max_value_bytes = 5, .memory_bytes = 6}));
  EXPECT_EQ(next->history, 6u) << "its table is empty";
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 11}, &actions_);
  member_.TailAccepted(6, kStart, &actions_);
  EXPECT_FALSE(member_.Serves()) << "a lease may be out";
  member_.Tick(kStart + kLease, &actions_);
  EXPECT_TRUE(member_.Serves());
}

TEST_F(MemberTest, AMemberBeginsNothingAnew) {
  Learn(10, Of(5, 1, {2}));
  EXPECT_TRUE(absl::IsFailedPrecondition(member_.BeginAnew("c", Limits(), true, &actions_)));
}

// Another one was first.
TEST_F(MemberTest, OfTwoThatBeginAnewOneJoinsTheOther) {
  Learn(10, Of(5, 1, {3}));
  ASSERT_TRUE(member_.BeginAnew("c", Limits(), true, &actions_).ok());
  member_.Stored(kStart, &actions_);
  member_.Swapped({.outcome = CasOutcome::kConflict}, &actions_);
  Learn(11, Of(6, 4, {}));
  EXPECT_EQ(member_.role(), Role::kJoining);
  EXPECT_FALSE(member_.is_proposing());
}

TEST_F(MemberTest, ABackupIsOpenInTheEpochThatItLearned) {
  Learn(10, Of(5, 1, {2}));
  const Actions actions = Took();
  ASSERT_EQ(Kinds(actions), std::vector<Kind>{Kind::kStoreWord});
  EXPECT_EQ(actions[0].word, EpochWord::Open(5));
  EXPECT_TRUE(member_.Accepts(1, 5));
  // Expect: it accepts no other member's records, and none of another epoch.
  EXPECT_FALSE(member_.Accepts(3, 5));
  EXPECT_FALSE(member_.Accepts(1, 4));
  EXPECT_FALSE(member_.Accepts(1, 6));
}

TEST_F(MemberTest, OldAnswersAreIgnored) {
  Learn(10, Of(5, 1, {2}));
  Took();
  Learn(9, Of(4, 3, {2}));
  Learn(10, Of(5, 1, {2}));
  EXPECT_TRUE(Took().empty());
  EXPECT_EQ(member_.epoch(), 5);
}

TEST_F(MemberTest, WordIsShutBeforeAnythingIsProposedAndStaysSo) {
  Suspect();
  Actions actions = Took();
  ASSERT_EQ(Kinds(actions), std::vector<Kind>{Kind::kStoreWord});
  EXPECT_EQ(actions[0].word, EpochWord::Shut(5));
  EXPECT_FALSE(member_.Accepts(1, 5));
  member_.Stored(kStart, &actions_);
  actions = Took();
  ASSERT_EQ(Kinds(actions), std::vector<Kind>{Kind::kCas});
  EXPECT_EQ(actions[0].expected, 10);
  EXPECT_EQ(DecodeConfiguration(actions[0].record)->primary().incarnation, 2);
  EXPECT_EQ(DecodeConfiguration(actions[0].record)->Find(1), nullptr);
  // Expect: while the answer is awaited it asks for nothing; when it is lost, for the same again.
  member_.Retry(&actions_);
  EXPECT_TRUE(Took().empty());
  member_.Swapped({.outcome = CasOutcome::kUnknown}, &actions_);
  EXPECT_EQ(member_.word(), EpochWord::Shut(5));
  EXPECT_FALSE(member_.Promote({}, false, &actions_).ok());
  member_.Retry(&actions_);
  const Actions again = Took();
  ASSERT_EQ(Kinds(again), (std::vector<Kind>{Kind::kRead, Kind::kCas}));
  EXPECT_EQ(again[1].record, actions[0].record);
  // Expect: a proposal that was certainly not done this time may have been done before.
  member_.Swapped({.outcome = CasOutcome::kNotDone}, &actions_);
  EXPECT_EQ(member_.word(), EpochWord::Shut(5));
}

TEST_F(MemberTest, WhatWasSurelyNeverDoneIsGivenUp) {
  Suspect();
  Took();
  member_.Stored(kStart, &actions_);
  Took();
  member_.Swapped({.outcome = CasOutcome::kNotDone}, &actions_);
  const Actions actions = Took();
  ASSERT_EQ(Kinds(actions), std::vector<Kind>{Kind::kStoreWord});
  EXPECT_EQ(actions[0].word, EpochWord::Open(5));
  EXPECT_FALSE(member_.is_proposing());
}

TEST_F(MemberTest, APromoterServesAfterTheTailIsAcceptedAndTheLeaseIsOver) {
  Suspect();
  Took();
  member_.Stored(kStart, &actions_);
  Took();
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 11}, &actions_);
  EXPECT_EQ(Kinds(Took()), std::vector<Kind>{Kind::kShareTail});
  EXPECT_EQ(member_.role(), Role::kPromoting);
  EXPECT_EQ(member_.MustAccept(), std::vector<uint64_t>{3});
  member_.Tick(kStart + kLease * 2, &actions_);
  EXPECT_TRUE(Took().empty());
  member_.TailAccepted(5, kStart + kLease, &actions_);  // of another epoch
  member_.TailAccepted(6, kStart + kLease - absl::Microseconds(1), &actions_);
  EXPECT_TRUE(Took().empty());
  EXPECT_EQ(member_.word(), EpochWord::Shut(5));
  member_.Tick(kStart + kLease, &actions_);
  const Actions actions = Took();
  ASSERT_EQ(Kinds(actions), (std::vector<Kind>{Kind::kPublishTail, Kind::kStoreWord, Kind::kServe}));
  EXPECT_EQ(actions[1].word, EpochWord::Open(6));
  EXPECT_TRUE(member_.Serves());
}

// It stays shut from the proposal on, and waits again: the removed member's memory may have been READ until then.
TEST_F(MemberTest, APromoterDropsWhoeverDoesNotAnswer) {
  Suspect();
  Took();
  member_.Stored(kStart, &actions_);
  Took();
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 11}, &actions_);
  Took();
  ASSERT_TRUE(member_.Remove(3, &actions_).ok());
  Actions actions = Took();
  ASSERT_EQ(Kinds(actions), std::vector<Kind>{Kind::kStoreWord});
  EXPECT_EQ(actions[0].word, EpochWord::Shut(6));
  member_.Stored(kStart + kLease, &actions_);
  Took();
  // Expect: all had accepted the tail meanwhile, and yet it waits for the outcome.
  member_.TailAccepted(6, kStart + kLease * 3, &actions_);
  EXPECT_TRUE(Took().empty());
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 12}, &actions_);
  EXPECT_EQ(Kinds(Took()), std::vector<Kind>{Kind::kShareTail});
  EXPECT_TRUE(member_.MustAccept().empty());
  member_.TailAccepted(7, kStart + kLease * 2 - absl::Microseconds(1), &actions_);
  EXPECT_TRUE(Took().empty());
  member_.Tick(kStart + kLease * 2, &actions_);
  actions = Took();
  ASSERT_EQ(Kinds(actions), (std::vector<Kind>{Kind::kPublishTail, Kind::kStoreWord, Kind::kServe}));
  EXPECT_EQ(actions[1].word, EpochWord::Open(7));
}

TEST_F(MemberTest, APromoterThatCouldNotDropAnyoneStaysShut) {
  Suspect();
  Took();
  member_.Stored(kStart, &actions_);
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 11}, &actions_);
  ASSERT_TRUE(member_.Remove(3, &actions_).ok());
  member_.Stored(kStart, &actions_);
  Took();
  member_.Swapped({.outcome = CasOutcome::kNotDone}, &actions_);
  EXPECT_TRUE(Took().empty());
  EXPECT_EQ(member_.word(), EpochWord::Shut(6));
  EXPECT_FALSE(member_.Add({.incarnation = 4, .address = "b"}, &actions_).ok());
}

TEST_F(MemberTest, ALostAnswerIsSettledByTheRecord) {
  Suspect();
  member_.Stored(kStart, &actions_);
  const Actions actions = Took();
  member_.Swapped({.outcome = CasOutcome::kUnknown}, &actions_);
  Learn(11, *DecodeConfiguration(actions.back().record));
  EXPECT_EQ(Kinds(Took()), std::vector<Kind>{Kind::kShareTail});
}

TEST_F(MemberTest, WhoLosesIsABackupOfTheWinner) {
  Suspect();
  member_.Stored(kStart, &actions_);
  Took();
  Learn(11, Of(6, 3, {2}));
  EXPECT_EQ(Kinds(Took()), std::vector<Kind>{Kind::kStoreWord});
  // Expect: the answer to its own proposal, which comes now, changes nothing; a new proposal waits for it.
  EXPECT_FALSE(member_.Promote({}, false, &actions_).ok());
  member_.Swapped({.outcome = CasOutcome::kConflict}, &actions_);
  EXPECT_TRUE(Took().empty());
  EXPECT_EQ(member_.word(), EpochWord::Open(6));
  EXPECT_TRUE(member_.Promote({}, false, &actions_).ok());
}

TEST_F(MemberTest, ABackupThatWasRemovedKeepsItsCopyAndAcceptsNothing) {
  Learn(10, Of(5, 1, {2}));
  Took();
  Learn(11, Of(6, 1, {3}));
  EXPECT_EQ(Kinds(Took()), std::vector<Kind>{Kind::kStoreWord});
  EXPECT_EQ(member_.role(), Member::Role::kRemoved);
  EXPECT_EQ(member_.word(), EpochWord::Shut(5));
  EXPECT_FALSE(member_.Accepts(1, 6));
  EXPECT_FALSE(member_.Promote({}, false, &actions_).ok());
  Learn(12, Of(7, 3, {4}));
  EXPECT_TRUE(Took().empty());
  EXPECT_EQ(member_.role(), Member::Role::kRemoved);
  // Expect: an operator can have the group begin with it, in the next epoch.
  ASSERT_TRUE(member_.BeginAnew("b", Limits(), true, &actions_).ok());
  EXPECT_EQ(member_.word(), EpochWord::Shut(7));
  member_.Stored(kStart, &actions_);
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 13}, &actions_);
  EXPECT_EQ(member_.role(), Member::Role::kPromoting);
  EXPECT_EQ(member_.epoch(), 8u);
}

TEST_F(MemberTest, ABackupThatWasRemovedIsNoMemberAgain) {
  Learn(10, Of(5, 1, {2}));
  Learn(11, Of(6, 1, {3}));
  Took();
  Learn(12, Of(7, 1, {2, 3}));
  EXPECT_EQ(Kinds(Took()), std::vector<Kind>{Kind::kStepDown});
  EXPECT_FALSE(member_.Accepts(1, 7));
}

TEST_F(MemberTest, APrimaryAsksAllOfBothSetsWhileItProposes) {
  Configuration first = Of(1, 2, {});
  ASSERT_TRUE(member_.Create(first, &actions_).ok());
  member_.Stored(kStart, &actions_);
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 4}, &actions_);
  member_.TailAccepted(1, kStart + kLease, &actions_);
  ASSERT_TRUE(member_.Serves());
  Took();
  ASSERT_TRUE(member_.Add({.incarnation = 3, .address = "b"}, &actions_).ok());
  EXPECT_EQ(member_.MustAccept(), std::vector<uint64_t>{3});
  EXPECT_TRUE(member_.Serves());
  member_.Stored(kStart, &actions_);
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 5}, &actions_);
  EXPECT_EQ(member_.word(), EpochWord::Open(2));
  ASSERT_TRUE(member_.Remove(3, &actions_).ok());
  EXPECT_EQ(member_.MustAccept(), std::vector<uint64_t>{3});
  // Expect: only a backup promotes, only a member is removed.
  EXPECT_FALSE(member_.Promote({}, false, &actions_).ok());
}

// Every proposal keeps the group's cluster, slots and hash seed.
TEST_F(MemberTest, EveryChangeKeepsTheClusterAndItsSlots) {
  const auto in_cluster = [](Configuration configuration) {
    configuration.cluster = "kv";
    configuration.slots = *kv::ParseSlots("5-9");
    configuration.hash_seed = 3;
    configuration.moves = {{.id = 8, .kind = Move::Kind::kGiven, .group = "g", .slots = *kv::ParseSlots("1")}};
    return configuration;
  };
  const auto check_proposed = [this, &in_cluster](const char* what) {
    member_.Stored(kStart, &actions_);
    const Actions actions = Took();
    const auto proposed = DecodeConfiguration(actions.back().record);
    ASSERT_TRUE(proposed.ok()) << what;
    EXPECT_EQ(proposed->cluster, "kv") << what;
    EXPECT_EQ(proposed->slots, in_cluster({}).slots) << what;
    EXPECT_EQ(proposed->hash_seed, 3u) << what;
    EXPECT_EQ(proposed->moves, in_cluster({}).moves) << what;
  };
  Learn(10, in_cluster(Of(5, 1, {3})));
  ASSERT_TRUE(member_.BeginAnew("c", Limits(), true, &actions_).ok());
  check_proposed("to begin anew");
  member_.Swapped({.outcome = CasOutcome::kConflict}, &actions_);
  Learn(11, in_cluster(Of(6, 1, {2, 3})));
  Took();
  ASSERT_TRUE(member_.Promote({}, true, &actions_).ok());
  check_proposed("a promotion");
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 12}, &actions_);
  ASSERT_TRUE(member_.Remove(3, &actions_).ok());
  check_proposed("a removal");
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 13}, &actions_);
  member_.TailAccepted(8, kStart, &actions_);
  ASSERT_TRUE(member_.Serves());
  ASSERT_TRUE(member_.Add({.incarnation = 4, .address = "b"}, &actions_).ok());
  check_proposed("an addition");
}

TEST_F(MemberTest, OnlyAPrimaryReassignsSlotsAndOneThatBeginsAnewTakesNone) {
  Configuration configuration = Of(5, 1, {3});
  configuration.cluster = "kv";
  configuration.slots = *kv::ParseSlots("5-9");
  const Move taking = {.id = 8, .kind = Move::Kind::kTaking, .group = "g", .slots = *kv::ParseSlots("1")};
  const Move given = {.id = 9, .kind = Move::Kind::kGiven, .group = "g", .slots = *kv::ParseSlots("2")};
  configuration.moves = {taking, given};
  Learn(10, configuration);
  EXPECT_TRUE(absl::IsFailedPrecondition(member_.Reassign({}, {}, &actions_)));
  // Copied items are lost with the members; the owner of the items keeps them.
  ASSERT_TRUE(member_.BeginAnew("c", Limits(), true, &actions_).ok());
  member_.Stored(kStart, &actions_);
  Actions actions = Took();
  EXPECT_EQ(DecodeConfiguration(actions.back().record)->moves, std::vector<Move>{given});
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 11}, &actions_);
  EXPECT_TRUE(absl::IsFailedPrecondition(member_.Reassign({}, {}, &actions_))) << "it does not serve yet";
  member_.TailAccepted(6, kStart, &actions_);
  ASSERT_TRUE(member_.Serves());
  Took();
  EXPECT_TRUE(absl::IsInvalidArgument(member_.Reassign(*kv::ParseSlots("2"), {given}, &actions_)));
  ASSERT_TRUE(member_.Reassign(*kv::ParseSlots("5-7"), {}, &actions_).ok());
  EXPECT_EQ(Kinds(actions_), std::vector<Kind>{Kind::kStoreWord}) << "as before any other change";
  EXPECT_FALSE(actions_[0].word.is_open());
  member_.Stored(kStart, &actions_);
  actions = Took();
  const auto proposed = DecodeConfiguration(actions.back().record);
  ASSERT_TRUE(proposed.ok());
  EXPECT_EQ(proposed->epoch, 7u);
  EXPECT_EQ(proposed->slots, *kv::ParseSlots("5-7"));
  EXPECT_TRUE(proposed->moves.empty());
  EXPECT_EQ(member_.configuration().slots, configuration.slots) << "until that is certain";
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 12}, &actions_);
  EXPECT_EQ(member_.configuration().slots, *kv::ParseSlots("5-7"));
  EXPECT_TRUE(member_.word().is_open());
}

TEST_F(MemberTest, OnlyAPrimaryHasItsGroupResized) {
  Learn(10, Of(5, 1, {3}));
  EXPECT_TRUE(absl::IsFailedPrecondition(member_.Resize(3, 2, &actions_)));
  ASSERT_TRUE(member_.BeginAnew("c", Limits(), true, &actions_).ok());
  member_.Stored(kStart, &actions_);
  member_.Swapped({.outcome = CasOutcome::kDone, .revision = 11}, &actions_);
  member_.TailAccepted(6, kStart, &actions_);
  Took();
  for (const auto& [replicas, min_insync] : {std::pair{0u, 0u}, {2u, 3u}, {2u, 0u}, {17u, 1u}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(member_.Resize(replicas, min_insync, &actions_))) << replicas;
  }
  ASSERT_TRUE(member_.Resize(3, 2, &actions_).ok());
  EXPECT_FALSE(member_.Resize(4, 2, &actions_).ok()) << "one change at a time";
  member_.Stored(kStart, &actions_);
  const auto proposed = DecodeConfiguration(Took().back().record);
  ASSERT_TRUE(proposed.ok());
  EXPECT_EQ(std::pair(proposed->replicas, proposed->min_insync), std::pair(3u, 2u));
  EXPECT_EQ(proposed->members, member_.configuration().members);
}

TEST_F(MemberTest, AnotherGroupOfThatNameIsRefused) {
  Learn(10, Of(5, 1, {2}));
  Took();
  Configuration other = Of(6, 1, {2});
  other.group = 8;
  EXPECT_TRUE(absl::IsFailedPrecondition(member_.Learn(11, other, &actions_)));
  EXPECT_TRUE(absl::IsDataLoss(member_.Learn(11, Of(5, 1, {2}), &actions_)));
  EXPECT_TRUE(Took().empty());
  EXPECT_EQ(member_.revision(), 10);
}

TEST_F(MemberTest, WhoIsNoMemberProposesNothing) {
  EXPECT_FALSE(member_.Promote({}, false, &actions_).ok());
  Learn(10, Of(5, 1, {3}));
  EXPECT_FALSE(member_.Promote({}, false, &actions_).ok());
  EXPECT_FALSE(member_.Add({.incarnation = 4, .address = "b"}, &actions_).ok());
  EXPECT_FALSE(member_.Create(Of(1, 2, {}), &actions_).ok());
  // Expect: it may be filled.
  EXPECT_TRUE(member_.Accepts(1, 5));
}

}  // namespace
}  // namespace farlook::cluster
