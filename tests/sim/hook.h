// What the simulated copies of kv/, server/, cluster/ and client/ call: their sources are the product's, rewritten by
// rewrite.py, which puts Store() in the place of the store in kv/words.h, and Broken() where a mutation is. The product
// has neither.
#ifndef FARLOOK_TESTS_SIM_HOOK_H_
#define FARLOOK_TESTS_SIM_HOOK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

namespace farlook::sim {

// Deliberate breaks of the protocol, of which at most one is in force. rewrite.py says what each does.
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
  kCellToldFromMemory,
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
  kGoodbyeNotHeard,
  kGoodbyeNotSaid,
  kSilentForgotten,
  kDeadlineNotSaid,
  kEndedSentForEver,
  kClockHeardOnce,
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
  kCommittedAtOnce,
  kTailNotShared,
  kJoinerNotFilled,
  kWriteUnderWayNotCopied,
  kOutcomesNotMirrored,
  kNewKeyUnderWayNotCopied,
  kVersionsNotTold,
  kCopiesNotCommitted,
  kSlotsNotClosed,
  kLastOfSlotsNotAccepted,
  kSlotsOwnedAtOnce,
  kFormerCopiesStay,
  kVersionsOfSlotsNotTold,
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
  kEndForgotten,
  kCount,
};
inline Break active_break = Break::kNone;
inline bool Broken(Break which) { return active_break == which; }

// The memory of all servers, and what is called instead of a store to it.
inline char* arena = nullptr;
inline size_t arena_bytes = 0;
inline void (*store)(uint64_t* at, uint64_t value) = nullptr;

// What is called instead of a copy of mapped memory.
inline std::function<void(char* to, const char* from, size_t bytes)> load;
inline void Load(char* to, const char* from, size_t bytes) { load(to, from, bytes); }

inline void Store(void* at, uint64_t value) {
  if (static_cast<size_t>(static_cast<char*>(at) - arena) < arena_bytes) {
    store(static_cast<uint64_t*>(at), value);
  } else {
    std::memcpy(at, &value, sizeof value);  // private: an image that is being put together
  }
}

// Whether memory leaves the index as soon as it is not wanted.
inline bool index_memory_leaves = false;

// What becomes of memory that leaves the index: an item's, which imitates the buckets of the segment that lay there,
// empty. Anybody who may write could put such a value.
struct RetiredSegment {
  char* memory;
  uint64_t description;  // of its first bucket
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
