// Deliberate breaks of the protocol, one at a time: simulation must find each, and prints the seed that did.
//
// rewrite.py describes each break. Breaks that are rare among all runs are sought in runs of one kind. A seed whose run
// fails without the break as well does not count.
//
// first_seeds.txt names the seed to begin with, one that found the break before: a rare break costs minutes otherwise.
// Any change of the product can draw other runs from the same seed. Then the search goes on with the seeds that follow,
// and record_seeds.py writes down the new ones.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <string>

#include "gtest/gtest.h"
#include "tests/sim/run.h"

namespace farlook::sim {
namespace {

struct Mutation {
  Break which;
  const char* name;
  Focus focus = Focus::kAll;
};

// One break needs a server that dies and restarts during a client's call: some run in a thousand has that.
constexpr uint64_t kMaxSeeds = 3'000;

constexpr Mutation kMutations[] = {
    {Break::kAliveBeforeSlot, "NewItemAliveBeforeItsSlotPointsToIt", Focus::kExpiry},
    {Break::kOldDeadLast, "SlotBeforeTheOldItemIsDead", Focus::kExpiry},
    {Break::kNoSecondLook, "NoSecondLookBeforeNotFound"},
    {Break::kDeadBitForgotten, "DeadBitForgotten", Focus::kDeadlines},
    {Break::kChecksumWithoutVersion, "ChecksumWithoutTheVersion", Focus::kDeadlines},
    {Break::kVersionReused, "VersionReused"},
    {Break::kSlotsClearedFirst, "SlotsClearedBeforeTheDescriptions"},
    {Break::kNoQuarantine, "QuarantineSkipped", Focus::kGrowth},
    {Break::kOldDirectoryBelieved, "NotFoundBelievedWithAnOldDirectory"},
    {Break::kKeyWithoutLength, "KeyComparedWithoutItsLength"},
    {Break::kReplyOfAnotherNumber, "ReplyCachedUnderTheWrongNumber"},
    {Break::kCreditsOffByOne, "CreditsOffByOne"},
    {Break::kSessionOfAStranger, "SessionResumedByAStranger"},
    {Break::kDeleteClearsSlotFirst, "DeleteClearsTheSlotFirst"},
    {Break::kMovedStaysAlive, "WhereAnItemWasMovedFromItStaysAlive", Focus::kMoves},
    {Break::kLateNotFound, "LateNotFoundBelieved", Focus::kSlowGrowth},
    {Break::kRetiredStays, "RetiredSegmentKeepsItsDescriptions"},
    {Break::kExecutedAgain, "RequestSentAgainIsExecutedAgain"},
    {Break::kUnknownSentAgain, "UnknownWriteSentInANewSession"},
    {Break::kOverflowIgnored, "OverflowBucketNotLookedAt"},
    {Break::kChecksumIgnored, "ChecksumNotVerified"},
    {Break::kDeadIsAbsent, "DeadItemTakenForAbsent"},
    {Break::kFloorTooHigh, "FloorJumpsOverAnUnansweredRequest"},
    {Break::kItemDeadBeforePoison, "CountersItemDeadBeforeItsCellIsPoisoned", Focus::kCounters},
    {Break::kPoisonForgotten, "PoisonForgotten"},
    {Break::kCellReusedAtOnce, "CounterCellReusedAtOnce"},
    {Break::kCellQuarantineSkipped, "QuarantineOfCellsSkipped"},
    {Break::kNoticeIgnored, "NoticeOfDeletionIgnored"},
    {Break::kAcknowledgedAtOnce, "NoticeAcknowledgedBeforeAtomicsEnd", Focus::kCounters},
    {Break::kCellsOutliveConnection, "CellsOfTheLastConnectionUsed"},
    {Break::kAtomicRepeated, "AtomicOfUnknownOutcomeRepeated"},
    {Break::kCellGrantedFromMemory, "CellToldInAReplyFromMemory", Focus::kCounters},
    {Break::kHolderNotEnrolled, "CellToldToAConnectionThatIsNotWaitedFor"},
    {Break::kGateNotWaitedFor, "ClientStoppedWithinAnAtomicNotWaitedFor", Focus::kCounters},
    {Break::kVersionsBeginAnew, "VersionsBeginAnewWithTheTable"},
    {Break::kAliveNotAsked, "ReadAtOnceFromAServerThatIsGone"},
    {Break::kCopiedAgain, "ValueOfAGetAtOnceIsNotTheOneThatWasVerified", Focus::kCalls},
    {Break::kChecksumIgnoredAtOnce, "ChecksumNotVerifiedOfAGetAtOnce", Focus::kCalls},
    {Break::kChecksumIgnoredAtOnce, "ChecksumNotVerifiedOfAReadAtOnce", Focus::kReadsAtOnce},
    {Break::kOldDirectoryBelievedAtOnce, "NotFoundAtOnceBelievedWithAnOldDirectory", Focus::kCalls},
    {Break::kOverflowIgnoredAtOnce, "OverflowBucketNotLookedAtAtOnce", Focus::kCalls},
    {Break::kEpochNotLookedAtAtOnce, "NotFoundAtOnceBelievedInMemoryThatLeftTheIndex", Focus::kShrinks},
    {Break::kChecksumIgnored, "ChecksumOfALongItemNotVerified", Focus::kLong},
    {Break::kPatienceWithoutEnd, "WhoAcknowledgesNothingIsWaitedForForEver", Focus::kCounters},
    {Break::kOrderOfWritesDropped, "SmallWriteOvertakesAPulledOne"},
    {Break::kEpochNotLookedAt, "NotFoundBelievedInMemoryThatLeftTheIndex", Focus::kShrinks},
    {Break::kMemoryLeavesAtOnce, "MemoryLeavesTheIndexWithTheEpoch", Focus::kShrinks},
    {Break::kPutsReversed, "PutsOfOneMessageAreDoneInReverse"},
    {Break::kUnlikePutsTogether, "PutsOfOtherConditionsGoAlong"},
    {Break::kOverIsBegun, "WriteBegunWhenItsTimeIsOver", Focus::kDeadlines},
    {Break::kGoodbyeIgnored, "SessionKeptAfterAGoodbye"},
    {Break::kGoodbyeNotSent, "ClientEndsWithoutAGoodbye"},
    {Break::kSilentForgotten, "SessionForgottenWithoutAGoodbye"},
    {Break::kDeadlineNotSent, "RequestDoesNotSayWhenItIsOver", Focus::kDeadlines},
    {Break::kEndedSentForEver, "EndedRequestIsRepeatedWithoutADeadline", Focus::kDeadlines},
    {Break::kClockUpdatedOnce, "ServersClockHeardOnlyOnce", Focus::kDeadlines},
    {Break::kAcknowledgedNothing, "HelloAcknowledgesNothing", Focus::kBreaks},
    {Break::kAcknowledgedAll, "HelloAcknowledgesWhatHasNoAnswer", Focus::kBreaks},
    {Break::kSessionNotTakenUp, "ClientReconnectsWithoutItsSession"},
    {Break::kDeadPlaceIsAbsent, "DeadItemAtARememberedPlaceTakenForAbsent"},
    {Break::kKeptIsEvicted, "KeptItemIsEvicted", Focus::kCaches},
    {Break::kEvictedStaysAlive, "EvictedItemStaysAlive", Focus::kCaches},
    {Break::kExpiredIsFound, "ExpiredItemIsFound", Focus::kExpiry},
    {Break::kTtlNotKept, "TtlIsNotKept", Focus::kExpiry},
    {Break::kEvictedStaysAlive, "EvictedItemOfThoseThatExpireStaysAlive", Focus::kExpiry},
    {Break::kClocksNotAllowedFor, "DifferenceOfClocksNotAllowedFor", Focus::kExpiry},
    {Break::kLiveIsSwept, "LiveItemIsSwept", Focus::kExpiry},
    {Break::kLiveCounterIsSwept, "LiveCounterIsSwept", Focus::kExpiry},
    {Break::kPackMisnumbered, "GetsOfOneMessageAreAnsweredUnderEachOthersNumbers", Focus::kSockets},
    {Break::kEpochWordsIgnored, "MembersWordsNotLookedAt", Focus::kGroup},
    {Break::kLeaseNotWaitedFor, "LeaseNotWaitedFor", Focus::kGroup},
    {Break::kPromotesWithoutShut, "PromotedWithAnOpenWord", Focus::kGroup},
    {Break::kOpensBeforeCertainty, "OpensBeforeItsProposalIsCertain", Focus::kGroup},
    {Break::kNewSetOnly, "AcknowledgedByTheNextMembersOnly", Focus::kGroup},
    {Break::kProvenByOneWord, "RoundProvenByOneWord", Focus::kGroup},
    {Break::kWordsOfTheRoundBefore, "WordsOfTheRoundBeforeCount", Focus::kGroup},
    {Break::kCommittedAtOnce, "AcknowledgedBeforeTheBackupHasIt", Focus::kGroup},
    {Break::kTailNotShared, "ServesBeforeTheOthersHaveItsLog", Focus::kGroup},
    {Break::kJoinerNotFilled, "JoinerIsAMemberBeforeItIsFilled", Focus::kGroup},
    {Break::kWriteUnderWayNotCopied, "WriteUnderWayNotCopiedToAJoiner", Focus::kGroup},
    {Break::kOutcomesNotMirrored, "OutcomesNotMirrored", Focus::kGroup},
    {Break::kNewKeyUnderWayNotCopied, "WriteUnderWayOfANewKeyNotCopiedToAJoiner", Focus::kGroup},
    {Break::kCopiesNotCommitted, "JoinerIsAMemberBeforeOthersHaveItsCopies", Focus::kGroup},
    {Break::kVersionsNotSent, "VersionsUsedAgainByTheNextPrimary", Focus::kGroup},
    {Break::kSlotsNotClosed, "SlotsServedWhileTheyAreGiven", Focus::kSlots},
    {Break::kLastOfSlotsNotAccepted, "SlotsGivenBeforeTheTakerHasAll", Focus::kSlots},
    {Break::kSlotsOwnedAtOnce, "SlotsServedBeforeTheGiversLeaseIsOver", Focus::kSlots},
    {Break::kFormerCopiesStay, "CopiesOfAFormerAttemptStay", Focus::kSlots},
    {Break::kVersionsOfSlotsNotSent, "VersionsUsedAgainByWhoTookSlots", Focus::kSlots},
    {Break::kGivenIsErased, "ItemsErasedBeforeTheTakerIsCertain", Focus::kSlots},
    {Break::kTakenIsForgotten, "MoveForgottenBeforeTheGiverKnows", Focus::kSlots},
    {Break::kSettledUnseen, "MoveSettledBeforeItIsSeenToBeGiven", Focus::kSlowSlots},
    {Break::kTakerNotForgotten, "TakerLeftToWaitForWhatNobodyGives", Focus::kSlowSlots},
    {Break::kForeignStays, "ItemsOfSlotsThatWereGivenStay", Focus::kSlots},
    {Break::kWaitingGetsNotWithdrawn, "WaitingGetReadAtTheFormerOwner", Focus::kSlots},
    {Break::kFollowingNotRefused, "WritesBeforeWhatWasRefused", Focus::kBusySlots},
    {Break::kOrderNotKept, "WritesSentAgainBeforeWhatWasRefused", Focus::kBusySlots},
    {Break::kHeldInOrderOfRefusals, "WhatIsRefusedLateBeginsAnewLate", Focus::kBusySlots},
    {Break::kEndsByAnothersClock, "EndsByTheClockOfAnotherMember", Focus::kGroupItems},
    {Break::kEndForgotten, "EndForgottenByTheNextPrimary", Focus::kGroupItems},
    {Break::kArmIgnored, "SleepsThoughALookIsDue", Focus::kSleepers},
    {Break::kEndNotRecorded, "ToldOverBeforeMembersAre", Focus::kGroupItems},
    {Break::kRemovedErases, "ARemovedMemberErasesItsCopyAtOnce", Focus::kGroup},
    {Break::kRoomNotReported, "RoomNotReported", Focus::kFullGroups},
    {Break::kRoomWithoutIndex, "RoomReportedWithoutTheIndex", Focus::kFullGroups},
};

[[maybe_unused]] void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

// The contents of first_seeds.txt.
const std::map<std::string, uint64_t>& FirstSeeds() {
  static const auto* const seeds = [] {
    auto* const read = new std::map<std::string, uint64_t>;
    std::ifstream file("tests/sim/first_seeds.txt");
    EXPECT_TRUE(file.is_open());
    std::string name;
    uint64_t seed;
    while (file >> name >> seed) read->emplace(name, seed);
    return read;
  }();
  return *seeds;
}

class MutationTest : public testing::TestWithParam<Mutation> {};

TEST_P(MutationTest, IsFound) {
  const Mutation& mutation = GetParam();
  const auto known = FirstSeeds().find(mutation.name);
  const uint64_t first = known == FirstSeeds().end() ? 1 : known->second;
  for (uint64_t seed = first; seed < first + kMaxSeeds; ++seed) {
    const RunResult result = RunPlan(DrawPlan(seed, mutation.focus), mutation.which);
    if (result.violation.empty() || !RunPlan(DrawPlan(seed, mutation.focus)).violation.empty()) continue;
    std::printf("%s: found by seed %d: %s\n", mutation.name, static_cast<int>(seed), result.violation.c_str());
    RecordProperty("seed", static_cast<int>(seed));
    return;
  }
  FAIL() << "not found in " << kMaxSeeds << " seeds";
}

TEST(FirstSeedsTest, AreOfBreaksThatExist) {
  for (const auto& [name, seed] : FirstSeeds()) {
    EXPECT_TRUE(std::any_of(std::begin(kMutations), std::end(kMutations), [&name = name](const Mutation& mutation) {
      return name == mutation.name;
    })) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Breaks, MutationTest, testing::ValuesIn(kMutations),
                         [](const testing::TestParamInfo<Mutation>& test) { return test.param.name; });

}  // namespace
}  // namespace farlook::sim
