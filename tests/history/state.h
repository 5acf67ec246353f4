// The state of a key: absent, the value of a write, or a counter that has a number.
#ifndef FARLOOK_TESTS_HISTORY_STATE_H_
#define FARLOOK_TESTS_HISTORY_STATE_H_

#include <cstdint>

namespace farlook::history {

// From 1 on, below kCounterBit: the value of the write with that ordinal in its history.
using State = uint64_t;
inline constexpr State kAbsent = 0;
inline constexpr State kCounterBit = State{1} << 63;

// REQUIRES -2^62 <= value < 2^62: the range of a counter.
constexpr State CounterIs(int64_t value) { return kCounterBit | static_cast<State>(value); }
constexpr bool IsCounter(State state) { return state >= kCounterBit; }
// REQUIRES IsCounter(state).
constexpr int64_t NumberOf(State state) { return static_cast<int64_t>(state << 1) >> 1; }
constexpr bool IsValue(State state) { return state != kAbsent && !IsCounter(state); }

static_assert(NumberOf(CounterIs(-7)) == -7 && NumberOf(CounterIs(7)) == 7);
// Two numbers, two states: the bit that is always set is a copy of the sign, except for the sign itself.
static_assert(CounterIs(-1) != CounterIs((int64_t{1} << 62) - 1));

}  // namespace farlook::history

#endif  // FARLOOK_TESTS_HISTORY_STATE_H_
