// What the simulated copies of kv/, server/ and client/ call: their sources are the product's, rewritten by rewrite.py,
// which puts Store() in the place of the store in kv/words.h, and Broken() where a mutation is. The product has
// neither.
#ifndef FARLOOK_TESTS_SIM_HOOK_H_
#define FARLOOK_TESTS_SIM_HOOK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

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
  kLateNotFoundAtOnce,
  kOldDirectoryAtOnce,
  kPatienceWithoutEnd,
  kOrderOfWritesDropped,
  kOverIsBegun,
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
  kCount,
};
inline Break active_break = Break::kNone;
inline bool Broken(Break which) { return active_break == which; }

// The memory of all servers, and what is called instead of a store to it.
inline char* arena = nullptr;
inline size_t arena_bytes = 0;
inline void (*store)(uint64_t* at, uint64_t value) = nullptr;

inline void Store(void* at, uint64_t value) {
  if (static_cast<size_t>(static_cast<char*>(at) - arena) < arena_bytes) {
    store(static_cast<uint64_t*>(at), value);
  } else {
    std::memcpy(at, &value, sizeof value);  // private: an image that is being put together
  }
}

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_HOOK_H_
