// Judges the log of a test's processes.
#ifndef FARLOOK_TESTS_LINEARIZABLE_VERDICT_H_
#define FARLOOK_TESTS_LINEARIZABLE_VERDICT_H_

#include "tests/linearizable/board.h"

namespace farlook {

// Expects that each key's history is linearizable, and that no process noted a violation. Also expects that a history
// with one more, wrong answer is not linearizable, and that there were operations to judge. Prints their number.
// `wipe`, if not null: when the table began again.
void ExpectLinearizable(const Board& board, const history::Operation* wipe = nullptr);

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_VERDICT_H_
