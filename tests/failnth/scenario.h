// A server and its client in one process: start-up, connect, load, shutdown, while one call fails somewhere.
#ifndef FARLOOK_TESTS_FAILNTH_SCENARIO_H_
#define FARLOOK_TESTS_FAILNTH_SCENARIO_H_

#include <string>

#include "tests/failnth/calls.h"

namespace farlook::failnth {

enum class Phase { kStartUp, kConnect, kLoad, kShutdown };

// Runs it with that call failing, counted from the beginning of the phase to its end. Returns "" or the error:
//   * the failed call gave a status, and the same tried again succeeded: start, connection, operation. Interruptions
//     (EINTR), and shortages while a message is sent, had no visible effect;
//   * acknowledged writes are there, and failed ones were done once or not;
//   * afterwards there are no descriptors, mappings, threads and files that were not there before.
// The caller checks whether it ends, and how.
std::string RunScenario(const std::string& address, Phase phase, const Choice& choice, Report* report);

}  // namespace farlook::failnth

#endif  // FARLOOK_TESTS_FAILNTH_SCENARIO_H_
