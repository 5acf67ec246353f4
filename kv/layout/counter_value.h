// The meaning of the 8 bytes of a counter's cell.
//
// NIC atomics are blind: an add that arrives after its counter was deleted is still executed. So a delete first adds
// 2^63, which moves the value far away from every live one. Each change of a cell checks the value that the cell held
// before:
//
//      -2^63        -2^62        -2^61            0            2^61         2^62         2^63
//        |   dead     | out of range |          live            | out of range |   dead    |
//
// The poisoned value of a live counter is at least 2^61 away from "not dead". At least 2^21 late adds of the largest
// delta would be needed to bring it back, and each client makes at most those that it had in flight.
#ifndef FARLOOK_KV_LAYOUT_COUNTER_VALUE_H_
#define FARLOOK_KV_LAYOUT_COUNTER_VALUE_H_

#include <cstdint>

namespace farlook::kv {

inline constexpr int64_t kCounterEnd = int64_t{1} << 61;       // live: [-kCounterEnd, kCounterEnd)
inline constexpr int64_t kDeadBegin = int64_t{1} << 62;        // dead: outside [-kDeadBegin, kDeadBegin)
inline constexpr int64_t kMaxCounterDelta = int64_t{1} << 40;  // of one add, in either direction
inline constexpr uint64_t kPoison = uint64_t{1} << 63;         // a delete adds this

// Atomics that all clients together may have in flight. A server admits --max_clients clients and grants each its share
// with the Welcome.
inline constexpr int64_t kMaxAtomicsInFlight = int64_t{1} << 20;
static_assert(
    2 * kMaxAtomicsInFlight * kMaxCounterDelta <= kCounterEnd,
    "adds in flight take no live value past the end of what is out of range, and no poisoned one back; nor "
    "with those of as many clients again that lost their connections while they were stopped within an atomic");

// The share of one client: at least 1. REQUIRES: 1 <= clients <= kMaxAtomicsInFlight.
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

// The value of the cell after an add: modulo 2^64.
constexpr int64_t AddedTo(int64_t value, int64_t delta) {
  return static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(delta));
}

// The delta that leads from `from` to `to`, modulo 2^64: a poisoned cell may hold a number that cannot be negated.
constexpr int64_t Difference(int64_t to, int64_t from) {
  return static_cast<int64_t>(static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
}

// The effect of an add that found `old` in the cell. kLive: it counts. kOutOfRange: it must be taken back. kDead: it
// must be forgotten.
constexpr CellState StateOfAdd(int64_t old, int64_t delta) {
  const CellState before = StateOf(old);
  return before == CellState::kLive ? StateOf(AddedTo(old, delta)) : before;
}

constexpr bool ValidDelta(int64_t delta) { return delta >= -kMaxCounterDelta && delta <= kMaxCounterDelta; }

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_COUNTER_VALUE_H_
