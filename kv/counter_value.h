// What the 8 bytes of a counter's cell mean.
//
// NIC atomics are blind: an add that comes late, after its counter was deleted, still happens. So a delete first adds
// 2^63, which takes the value far away from every live one, and whoever changes a cell looks at what it held before:
//
//     -2^63        -2^62        -2^61            0            2^61         2^62         2^63
//       |   dead     | out of range |          live            | out of range |   dead    |
//
// The poisoned value of a live counter is at least 2^61 away from "not dead": no fewer than 2^21 late adds of the
// largest delta could bring it back, and each client makes at most those that it had in flight.
#ifndef FARLOOK_KV_COUNTER_VALUE_H_
#define FARLOOK_KV_COUNTER_VALUE_H_

#include <cstdint>

namespace farlook::kv {

inline constexpr int64_t kCounterEnd = int64_t{1} << 61;       // live: [-kCounterEnd, kCounterEnd)
inline constexpr int64_t kDeadBegin = int64_t{1} << 62;        // dead: outside [-kDeadBegin, kDeadBegin)
inline constexpr int64_t kMaxCounterDelta = int64_t{1} << 40;  // of one add, either way
inline constexpr uint64_t kPoison = uint64_t{1} << 63;         // a delete adds this

// Atomics that all clients together may have in flight. A server lets in --max_clients, and grants each its share with
// the Welcome.
inline constexpr int64_t kMaxAtomicsInFlight = int64_t{1} << 20;
static_assert(
    2 * kMaxAtomicsInFlight * kMaxCounterDelta <= kCounterEnd,
    "adds in flight take no live value past the end of what is out of range, and no poisoned one back; nor "
    "with those of as many clients again, who lost their connections while they were stopped within an atomic");

// The share of each of so many clients: at least 1. REQUIRES: 1 <= clients <= kMaxAtomicsInFlight.
constexpr uint32_t AtomicsOfEach(int64_t clients) { return static_cast<uint32_t>(kMaxAtomicsInFlight / clients); }
static_assert(kCounterEnd + kCounterEnd == kDeadBegin);

enum class CellState : uint8_t {
  kLive,
  kOutOfRange,  // too many adds: stays so until they are taken back, or a message resets it
  kDead,        // of a deleted counter, or of none
};

constexpr CellState StateOf(int64_t value) {
  if (value >= -kCounterEnd && value < kCounterEnd) return CellState::kLive;
  return value >= -kDeadBegin && value < kDeadBegin ? CellState::kOutOfRange : CellState::kDead;
}

// What the cell holds after an add: modulo 2^64.
constexpr int64_t AddedTo(int64_t value, int64_t delta) {
  return static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(delta));
}

// What added to `from` gives `to`, modulo 2^64 too: a poisoned cell holds what cannot be negated.
constexpr int64_t Difference(int64_t to, int64_t from) {
  return static_cast<int64_t>(static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
}

// What became of an add that found `old` in the cell: live if it counts; otherwise it must be taken back (out of range)
// or forgotten (dead).
constexpr CellState StateOfAdd(int64_t old, int64_t delta) {
  const CellState before = StateOf(old);
  return before == CellState::kLive ? StateOf(AddedTo(old, delta)) : before;
}

constexpr bool ValidDelta(int64_t delta) { return delta >= -kMaxCounterDelta && delta <= kMaxCounterDelta; }

}  // namespace farlook::kv

#endif  // FARLOOK_KV_COUNTER_VALUE_H_
