// Whether a key's history is linearizable: whether all operations can be put in one order, each at a moment between its
// begin and its end, in which every answer is what a register with versions would have said.
//
// The search is Wing and Gong's ("Testing and verifying concurrent objects"), with Lowe's memory of the places where it
// was already ("Testing for linearizability"). Keys are independent, so each is checked by itself. An operation that
// does not change the key and fits now may be put here without loss, so only writes make it branch; an unknown outcome
// is an operation that may be put at any later place, or left out.
//
// The order has to respect the clock, the order of what each client did (Operation::began), and that of the writes of
// one session. A version belongs to one write: whoever is told it (a get, an insert that found the key there, a
// compare-and-set that failed, and one that succeeded) met that write's value. Where the write's own outcome is
// unknown, the first to be told binds the version to it. A table that begins anew
// does not use its old versions again.
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

// The part of a history that is a violation which a reader can follow: cut after the moment when it was one, without
// the reads that do not matter. REQUIRES Check() says kViolation.
KeyHistory Shrink(KeyHistory history);

}  // namespace farlook::history

#endif  // FARLOOK_TESTS_HISTORY_CHECK_H_
