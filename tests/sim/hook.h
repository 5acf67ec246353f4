// The hooks that the simulated copies of kv/, server/, cluster/ and client/ call. Their sources are the product's,
// rewritten by rewrite.py: it replaces the store in kv/layout/words.h by Store(), and inserts Broken() at each
// mutation. The product has neither.
#ifndef FARLOOK_TESTS_SIM_HOOK_H_
#define FARLOOK_TESTS_SIM_HOOK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

namespace farlook::sim {

// Deliberate breaks of the protocol, at most one of which is in force. rewrite.py describes each.
enum class Break : uint8_t {
  kNone,
  kAliveBeforeSlot,
  kOldDeadLast,
  kNoSecondLook,
  kDeadBitForgotten,
  kChecksumWithoutVersion,
  kVersionReused,
  kSlotsClearedFirst,
  kNoQuarantine,
  kOldDirectoryBelieved,
  kKeyWithoutLength,
  kReplyOfAnotherNumber,
  kCreditsOffByOne,
  kSessionOfAStranger,
  kDeleteClearsSlotFirst,
  kMovedStaysAlive,
  kLateNotFound,
  kRetiredStays,
  kExecutedAgain,
  kUnknownSentAgain,
  kOverflowIgnored,
  kChecksumIgnored,
  kDeadIsAbsent,
  kFloorTooHigh,
  kItemDeadBeforePoison,
  kPoisonForgotten,
  kCellReusedAtOnce,
  kCellQuarantineSkipped,
  kNoticeIgnored,
  kAcknowledgedAtOnce,
  kCellsOutliveConnection,
  kAtomicRepeated,
  kCellGrantedFromMemory,
  kHolderNotEnrolled,
  kGateNotWaitedFor,
  kVersionsBeginAnew,
  kAliveNotAsked,
  kCopiedAgain,
  kChecksumIgnoredAtOnce,
  kOldDirectoryBelievedAtOnce,
  kOverflowIgnoredAtOnce,
  kEpochNotLookedAtAtOnce,
  kPatienceWithoutEnd,
  kOrderOfWritesDropped,
  kPutsReversed,
  kUnlikePutsTogether,
  kOverIsBegun,
  kEpochNotLookedAt,
  kMemoryLeavesAtOnce,
  kGoodbyeIgnored,
  kGoodbyeNotSent,
  kSilentForgotten,
  kDeadlineNotSent,
  kEndedSentForEver,
  kClockUpdatedOnce,
  kAcknowledgedNothing,
  kAcknowledgedAll,
  kSessionNotTakenUp,
  kDeadPlaceIsAbsent,
  kKeptIsEvicted,
  kEvictedStaysAlive,
  kExpiredIsFound,
  kTtlNotKept,
  kClocksNotAllowedFor,
  kLiveIsSwept,
  kLiveCounterIsSwept,
  kPackMisnumbered,
  kEpochWordsIgnored,
  kLeaseNotWaitedFor,
  kPromotesWithoutShut,
  kOpensBeforeCertainty,
  kNewSetOnly,
  kProvenByOneWord,
  kWordsOfTheRoundBefore,
  kCommittedAtOnce,
  kTailNotShared,
  kJoinerNotFilled,
  kWriteUnderWayNotCopied,
  kOutcomesNotMirrored,
  kNewKeyUnderWayNotCopied,
  kVersionsNotSent,
  kCopiesNotCommitted,
  kSlotsNotClosed,
  kLastOfSlotsNotAccepted,
  kSlotsOwnedAtOnce,
  kFormerCopiesStay,
  kVersionsOfSlotsNotSent,
  kGivenIsErased,
  kTakenIsForgotten,
  kSettledUnseen,
  kTakerNotForgotten,
  kForeignStays,
  kWaitingGetsNotWithdrawn,
  kFollowingNotRefused,
  kOrderNotKept,
  kHeldInOrderOfRefusals,
  kEndsByAnothersClock,
  kEndNotRecorded,
  kRemovedErases,
  kRoomNotReported,
  kRoomWithoutIndex,
  kArmIgnored,
  kEndForgotten,
  kCount,
};
inline Break active_break = Break::kNone;
inline bool Broken(Break which) { return active_break == which; }

// The memory of all servers, and the hook that replaces a store to it.
inline char* arena = nullptr;
inline size_t arena_bytes = 0;
inline void (*store)(uint64_t* at, uint64_t value) = nullptr;

// The hook that replaces a copy of mapped memory.
inline std::function<void(char* to, const char* from, size_t bytes)> load;
inline void Load(char* to, const char* from, size_t bytes) { load(to, from, bytes); }

inline void Store(void* at, uint64_t value) {
  if (static_cast<size_t>(static_cast<char*>(at) - arena) < arena_bytes) {
    store(static_cast<uint64_t*>(at), value);
  } else {
    std::memcpy(at, &value, sizeof value);  // private memory: an image that is being assembled
  }
}

// Set when a backup fails since it has no room for a record, or its index has none.
inline bool backup_is_full = false;

// If true, memory leaves the index as soon as it is unused.
inline bool index_memory_leaves = false;

// Memory that left the index: it becomes an item's that imitates the buckets of the former segment, empty. Any client
// that may write could put such a value.
struct RetiredSegment {
  char* memory;
  uint64_t description;  // of the segment's first bucket
};
inline std::map<std::pair<const void*, uint64_t>, RetiredSegment> retired_segments;  // by pool and offset
inline void Retiring(const void* pool, uint64_t offset, char* memory) {
  uint64_t description;
  std::memcpy(&description, memory, sizeof description);
  retired_segments[{pool, offset}] = {memory, description};
}
inline void Left(const void* pool, uint64_t offset, uint64_t bytes) {
  constexpr uint64_t kBuckets = 256, kBucketBytes = 128, kIdMask = ~uint64_t{0} << 34, kMagic = uint64_t{0xb5} << 24;
  const uint64_t end = offset + bytes;
  for (auto at = retired_segments.lower_bound({pool, offset});
       at != retired_segments.end() && at->first < std::pair<const void*, uint64_t>(pool, end);
       at = retired_segments.erase(at)) {
    for (uint64_t bucket = 0; bucket < kBuckets; ++bucket) {
      char* const words = at->second.memory + bucket * kBucketBytes;
      for (uint64_t i = 1; i < kBucketBytes / 8; ++i) Store(words + 8 * i, 0);
      Store(words, (at->second.description & kIdMask) | kMagic | bucket << 16);
    }
  }
}

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_HOOK_H_
