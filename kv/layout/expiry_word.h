// The expiry word of an item: when its key ends, bound to the item's version.
//
//       63  62                           40 39                                                  0
//      +---+-------------------------------+-----------------------------------------------------+
//      | settled, mix of version and time  | time: milliseconds of the server's clock, 0: never  |
//      +---+-------------------------------+-----------------------------------------------------+
//       `----------- tag, 24 bits --------'
//
// The word is outside of the item's checksum, so that it can be changed without rewriting the item. The tag binds it to
// its version: a word of another version, or a half-written change, is rejected. The lowest bit of a tag is 1. So no
// item's word is 0, and a tag with all its bits inverted is never a valid tag. The inverted tag marks a Touch in
// progress: readers treat it as torn, and recovery treats it as the old time.
//
// The server's clock is in microseconds since 2020-01-01 00:00 UTC. An item has expired when the clock is at least
// 1,000 times the item's time.
#ifndef FARLOOK_KV_LAYOUT_EXPIRY_WORD_H_
#define FARLOOK_KV_LAYOUT_EXPIRY_WORD_H_

#include <bit>
#include <cstdint>

namespace farlook::kv {

inline constexpr int kExpiryTimeBits = 40;
inline constexpr uint64_t kExpiryTimeMask =
    (uint64_t{1} << kExpiryTimeBits) - 1;  // and the latest time, in the year 2054

// The word of an item that never expires. REQUIRES DEAD bit clear.
constexpr uint64_t NeverExpires(uint64_t version) {
  return (version * 0x9e37'79b9'7f4a'7c15 | uint64_t{1} << kExpiryTimeBits) & ~kExpiryTimeMask;
}

// Returns whether `word` is NeverExpires(version). REQUIRES DEAD bit clear.
constexpr bool IsNeverFor(uint64_t version, uint64_t word) {
  // Rotated first, since the masks above are long constants.
  return std::rotr(word, kExpiryTimeBits) == (version * 0x9e37'79b9'7f4a'7c15 >> kExpiryTimeBits | 1);
}

// The word of an item that expires at `time_ms` (0: never). REQUIRES DEAD bit clear, time_ms <= kExpiryTimeMask.
constexpr uint64_t ExpiryWord(uint64_t version, uint64_t time_ms) {
  return NeverExpires(version + time_ms * 0xd6e8'feb8'6659'fd93) | time_ms;
}

constexpr uint64_t ExpiryTimeMs(uint64_t word) { return word & kExpiryTimeMask; }

// Returns whether the word was written for this version. REQUIRES DEAD bit clear.
constexpr bool ExpiryFits(uint64_t version, uint64_t word) { return word == ExpiryWord(version, ExpiryTimeMs(word)); }

// Inverts the tag and keeps the time. Applied twice, it gives the original word.
constexpr uint64_t InvertTag(uint64_t word) { return word ^ ~kExpiryTimeMask; }

// Returns whether an item that expires at `time_ms` has expired when the server's clock shows `clock_us`.
constexpr bool HasExpired(uint64_t time_ms, uint64_t clock_us) { return time_ms != 0 && clock_us >= time_ms * 1000; }

static_assert(IsNeverFor(7, NeverExpires(7)) && !IsNeverFor(7, ExpiryWord(7, 1)) && !IsNeverFor(7, NeverExpires(8)));
static_assert(NeverExpires(1) == ExpiryWord(1, 0) && ExpiryFits(1, NeverExpires(1)));
static_assert(!ExpiryFits(1, 0) && !ExpiryFits(1, InvertTag(ExpiryWord(1, 5))));

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_EXPIRY_WORD_H_
