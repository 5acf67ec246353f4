// Checks whether a key's history is linearizable: all operations can be put in one order, each at a moment between its
// begin and its end. In this order every answer is that of a register with versions.
//
// The search is Wing and Gong's ("Testing and verifying concurrent objects"), with Lowe's memory of visited places
// ("Testing for linearizability"). Keys are independent, so each is checked separately. An operation that does not
// change the key and fits now may be placed here without loss, so only writes make it branch. An unknown outcome is an
// operation that may be placed at any later place, or left out.
//
// The order has to respect the clock, the order of each client's operations (Operation::began), and that of the writes
// of one session. A version belongs to one write, and each operation that returns it saw that write's value. These are
// gets, inserts that found the key, and compare-and-sets that failed or succeeded. If the write's own outcome is
// unknown, the first operation that returns the version binds it to the write. A table that begins again does not use
// its old versions again.
#ifndef FARLOOK_TESTS_HISTORY_CHECK_H_
#define FARLOOK_TESTS_HISTORY_CHECK_H_

#include <cstdint>
#include <string>

#include "tests/history/history.h"

namespace farlook::history {

enum class Verdict : uint8_t {
  kLinearizable,
  kViolation,
  kGaveUp,  // max_steps were not enough
};

struct CheckResult {
  Verdict verdict = Verdict::kLinearizable;
  std::string why;  // kViolation: what could not be explained
  uint64_t steps = 0;
};

CheckResult Check(const KeyHistory& history, uint64_t max_steps = 2'000'000);

// Returns a smaller violation that a reader can follow: the history cut after the moment of the violation, without the
// reads that do not matter. REQUIRES Check() returns kViolation.
KeyHistory Shrink(KeyHistory history);

}  // namespace farlook::history

#endif  // FARLOOK_TESTS_HISTORY_CHECK_H_
