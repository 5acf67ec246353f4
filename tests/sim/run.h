// One simulated run, from its plan to its verdict; and how a failing run is made small enough to be read.
#ifndef FARLOOK_TESTS_SIM_RUN_H_
#define FARLOOK_TESTS_SIM_RUN_H_

#include <cstdint>
#include <string>

#include "tests/sim/hook.h"
#include "tests/sim/plan.h"

namespace farlook::sim {

struct RunResult {
  std::string violation;   // empty: all is well
  std::string trace;       // of a violation: what led to it, one line each
  bool undecided = false;  // the checker gave a history up

  // Counts of events, to see that the intended ones happen.
  uint64_t operations = 0;
  uint64_t events = 0;
  uint64_t splits = 0;
  uint64_t merges = 0;
  uint64_t moved_items = 0;
  uint64_t moved_in_growth = 0;  // by servers whose segments split too
  uint64_t read_retries = 0;
  uint64_t cached_hits = 0;
  uint64_t stale_locations = 0;
  uint64_t pauses = 0;           // between two stores
  uint64_t ended_in_pauses = 0;  // operations
  uint64_t server_gets = 0;
  uint64_t hostile_connections = 0;
  uint64_t long_found = 0;     // values longer than a page of the server's memory
  uint64_t ended_at_once = 0;  // gets, on one host
  uint64_t read_at_once = 0;   // and between two: done when the call that began them returned
  uint64_t directory_refreshes = 0;
  uint64_t reconnects = 0;
  uint64_t resent_requests = 0;
  uint64_t pulled_values = 0;
  uint64_t timeouts = 0;
  uint64_t restarts = 0;
  uint64_t epochs = 0;      // of groups
  uint64_t slot_moves = 0;  // completed moves between groups
  uint64_t no_memory = 0;   // replies
  uint64_t atomics = 0;     // on counters' cells, and READs of them
  uint64_t counter_requests = 0;
  uint64_t dead_cells = 0;       // that atomics met
  uint64_t unknown_atomics = 0;  // whose completion was lost
  uint64_t wrong_answers = 0;    // of histories
  uint64_t occurred = 0;         // a bit for each Fault that struck
};

// The same plan gives the same result.
RunResult RunPlan(const Plan& plan, Break broken = Break::kNone, bool noting = false);

// Returns the plan with the fewest operations, clients, keys and faults found that fails too. REQUIRES RunPlan(plan)
// fails.
Plan ShrinkPlan(const Plan& plan, Break broken = Break::kNone);

// Returns the command that runs the plan again.
std::string CommandFor(const Plan& plan, Break broken = Break::kNone);

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_RUN_H_
