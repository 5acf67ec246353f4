// Makes of a plan one of a kind, in which what is rare among all runs is frequent.
#ifndef FARLOOK_TESTS_SIM_FOCUS_H_
#define FARLOOK_TESTS_SIM_FOCUS_H_

#include "tests/sim/plan.h"

namespace farlook::sim {

void FocusOn(Focus focus, Plan* plan);

// What tcp:// is to those who use it.
void TakeSockets(Plan* plan);

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_FOCUS_H_
