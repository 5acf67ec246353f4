// Breaks of the rules of docs/cluster.md, for tests: those of Member and ReadLease are put into their sources by
// put_breaks.py, the others are in group_run.cc, which plays the parts around them.
#ifndef FARLOOK_CLUSTER_BREAKS_H_
#define FARLOOK_CLUSTER_BREAKS_H_

#include <cstdint>

namespace farlook::cluster {

enum class Break : uint8_t {
  kNone,
  // Of Member.
  kWithoutShut,
  kNoWait,
  kOpensBeforeCertainty,
  kOldSetOnly,
  kNewSetOnly,
  kNonMemberPromotes,
  // Of ReadLease.
  kProvenByOneWord,
  kWordsOfTheRoundBefore,
  kRoundUnderWay,
  kAnyWordLetsRead,
  // Around them.
  kVisibleEarly,
  kAdapterAcknowledges,
  kTailNotAccepted,
  kTailNotCut,
  kJoinerNotFilled,
  kOldConnections,
  kPrimaryWordOnly,
  kBackupWordsOnly,
  kReadsBeforeOpen,
  kNoLease,
  kSaysTooEarlyThatItLeft,
  kLast = kSaysTooEarlyThatItLeft,
};

// Process-wide; tests of it have one thread.
inline Break broken = Break::kNone;

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_BREAKS_H_
