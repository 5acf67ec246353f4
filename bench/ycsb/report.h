// A phase's result, as YCSB's lines and as JSON.
#ifndef FARLOOK_BENCH_YCSB_REPORT_H_
#define FARLOOK_BENCH_YCSB_REPORT_H_

#include <string>
#include <vector>

#include "bench/common/environment.h"
#include "bench/ycsb/phase.h"
#include "nlohmann/json_fwd.hpp"

namespace farlook::bench {

// The origin of a result, in addition to the machine.
struct RunDescription {
  std::string db;
  std::vector<std::string> command_line;
  std::vector<double> percentiles = {50, 90, 95, 99, 99.9};
};

// Lines "[SECTION], Name, value" in the form of YCSB 0.17. Latencies are microseconds with three decimals, that is
// nanoseconds. Additional sections are [MACHINE] and [RUN] (the origin of the figure), [CPU] and "Intended-".
std::string TextReport(const RunDescription& run, const Environment& environment, const PhaseResult& result);

// The same as an object of the list "phases" of JsonReport. Times are nanoseconds, CPU times seconds.
nlohmann::json JsonPhase(const RunDescription& run, const PhaseResult& result);

// {"machine": {...}, "run": {...}, "phases": [...]}
nlohmann::json JsonReport(const RunDescription& run, const Environment& environment,
                          const std::vector<nlohmann::json>& phases);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_REPORT_H_
