// Runs in words: what one was like, why it failed, and what many did in all.
#ifndef FARLOOK_TESTS_SIM_REPORT_H_
#define FARLOOK_TESTS_SIM_REPORT_H_

#include <cstdint>
#include <string>

#include "tests/sim/run.h"

namespace farlook::sim {

std::string Describe(const Plan& plan);

// Shrinks a run that fails, and says what happened in it and how to run it again.
std::string Explain(const Plan& plan, Break broken = Break::kNone);

struct Totals {
  void Add(const RunResult& result);
  std::string ToString() const;

  RunResult sum;
  uint64_t runs = 0;
  uint64_t undecided = 0;
};

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_REPORT_H_
