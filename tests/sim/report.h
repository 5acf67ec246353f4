// Describes runs: the parameters of one, why it failed, and totals of many.
#ifndef FARLOOK_TESTS_SIM_REPORT_H_
#define FARLOOK_TESTS_SIM_REPORT_H_

#include <array>
#include <cstdint>
#include <string>

#include "tests/sim/plan.h"
#include "tests/sim/run.h"

namespace farlook::sim {

std::string Describe(const Plan& plan);

// Shrinks a failing run, and describes what happened in it and how to run it again.
std::string Explain(const Plan& plan, Break broken = Break::kNone);

struct Totals {
  void Add(const RunResult& result);
  std::string ToString() const;

  // Pairs of faults that never struck in one run: "client_death with strangers", one line each; empty if every pair
  // did.
  std::string PairsNotSeen() const;
  // The least number of runs in which two faults struck together.
  uint64_t RarestPair() const;

  RunResult sum;
  std::array<std::array<uint32_t, kFaults>, kFaults> together{};  // runs in which both struck
  uint64_t runs = 0;
  uint64_t undecided = 0;
};

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_REPORT_H_
