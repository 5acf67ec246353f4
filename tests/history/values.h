// Values that identify the write that wrote them, and show whether they are whole.
//
// A value begins with the number of its write, 8 bytes; the rest follows from the number. A counter that is created or
// swapped gets the number of that write times 2^44. The sum of later adds stays below 2^43 either way, so that a
// counter always identifies its write. An add to another counter's cell shows in both.
#ifndef FARLOOK_TESTS_HISTORY_VALUES_H_
#define FARLOOK_TESTS_HISTORY_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace farlook::history {

inline constexpr int kCounterShift = 44;
// The number of adds to one counter, times the largest delta, must stay below 2^43.
inline constexpr int64_t kMaxDelta = int64_t{1} << 33;

// Longest value: more than two pages of a server's memory.
inline constexpr uint32_t kMaxValueBytes = 5 << 20;

// REQUIRES write > 0, 8 <= bytes <= kMaxValueBytes.
std::string MakeValue(uint64_t write, uint32_t bytes);
// Returns the number of the write that a value names; 0: none.
uint64_t WriteOfValue(absl::string_view value);
// Returns whether a value is what MakeValue() made for that write.
bool IsWhole(absl::string_view value, uint64_t write);

// REQUIRES write < 2^17.
constexpr int64_t FirstNumberOf(uint64_t write) { return static_cast<int64_t>(write) << kCounterShift; }
constexpr uint64_t WriteOfNumber(int64_t number) {
  return static_cast<uint64_t>((number + (int64_t{1} << (kCounterShift - 1))) >> kCounterShift);
}

}  // namespace farlook::history

#endif  // FARLOOK_TESTS_HISTORY_VALUES_H_
