// Makes every nth call of a kind fail, each in a separate process.
#ifndef FARLOOK_TESTS_FAILNTH_CAMPAIGN_H_
#define FARLOOK_TESTS_FAILNTH_CAMPAIGN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/failnth/calls.h"

namespace farlook::failnth {

struct Summary {
  uint64_t runs = 0;
  std::map<std::string, uint64_t> by_name;  // runs in which the call failed
  uint64_t ended = 0;                       // runs that the failure ended with a message
  std::vector<std::string> failures;
};

struct Plan {
  Kind kind;
  uint64_t of_each_place = 0;  // not 0: at most this many calls of each place of the program
  bool may_end = false;        // the process may end itself, as std::terminate() does, which says so
  size_t at_once = 6;          // runs; they sleep more than they compute
};

// Runs the scenario (scenario.h), for each of its phases, with n = 1, 2, ... until there is no nth call any more. With
// `of_each_place`, n covers only the first calls of each place in a run without failures. The first call of each place
// of the program is tried with every error that it may return, later calls with the first error. Prints errors.
// REQUIRES: the process has one thread.
Summary FailEveryNth(const Plan& plan);

void Print(const Summary& summary);

}  // namespace farlook::failnth

#endif  // FARLOOK_TESTS_FAILNTH_CAMPAIGN_H_
