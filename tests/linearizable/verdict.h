// What the log of a test's processes says.
#ifndef FARLOOK_TESTS_LINEARIZABLE_VERDICT_H_
#define FARLOOK_TESTS_LINEARIZABLE_VERDICT_H_

#include "tests/linearizable/board.h"

namespace farlook {

// Expects that each key's history is linearizable and that nobody noted a violation; that a history with one wrong
// answer more is not; and that there was something to judge. Prints how much. `wipe`, if not null: when the table began
// anew.
void ExpectLinearizable(const Board& board, const history::Operation* wipe = nullptr);

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_VERDICT_H_
