// The shared state of the storm's processes, and the work of each. Counters of few keys are created, added to and
// deleted all the time, so that their cells pass from one to the other.
//
// Values are tagged. A counter's first value bears the number of its creation, which is unique and identifies the key;
// each add goes to a field of its key. An add to another counter's cell shows in both counters:
//
//     60          42 41 40 39      30 29      20 19      10 9        0
//    +--------------+-----+----------+----------+----------+----------+
//    | creation     | key | adds of 3| adds of 2| adds of 1| adds of 0|
//    +--------------+-----+----------+----------+----------+----------+
#ifndef FARLOOK_TESTS_COUNTERS_STORM_H_
#define FARLOOK_TESTS_COUNTERS_STORM_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace farlook {

inline constexpr int kStormKeys = 4;
inline constexpr int kStormFieldBits = 10;
inline constexpr uint32_t kStormCreations = 1u << 18;  // at most, in one storm

// In memory that all processes map. Creations are numbered over all keys; number n belongs to key n % kStormKeys.
struct StormBoard {
  std::atomic<bool> stop;
  std::atomic<uint32_t> creations;   // the next number to give out, of key 0; `stride` is added
  uint32_t stride;                   // kStormKeys, times the hosts
  std::atomic<uint64_t> adds;        // that succeeded
  std::atomic<uint64_t> deletes;     // likewise
  std::atomic<uint64_t> unknown;     // adds of unknown outcome
  std::atomic<uint64_t> atomics;     // on cells; the others went by message
  std::atomic<uint64_t> dead_cells;  // atomics that met a dead cell
  std::atomic<uint64_t> violations;  // see `first_violation`
  char first_violation[256];
  std::atomic<uint32_t> done[kStormCreations];   // adds that succeeded, by creation
  std::atomic<uint32_t> final[kStormCreations];  // 1 + the adds that the counter held when it was deleted; 0: not known
};

// Checks a value that a counter of `key` held; returns its creation, or 0 after a violation was noted.
uint32_t CheckStormValue(StormBoard* board, int key, int64_t value, absl::string_view what);

// One client in a loop, until board->stop. Ends the process when it cannot connect.
void RunStormClient(StormBoard* board, const std::string& address, uint32_t seed);

}  // namespace farlook

#endif  // FARLOOK_TESTS_COUNTERS_STORM_H_
