// The configuration of a run: properties that are not the workload's own, checked.
#ifndef FARLOOK_BENCH_YCSB_RUN_CONFIG_H_
#define FARLOOK_BENCH_YCSB_RUN_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/common/properties.h"
#include "bench/ycsb/command_line.h"
#include "bench/ycsb/phase.h"
#include "bench/ycsb/workload_config.h"

namespace farlook::bench {

struct RunConfig {
  std::string db;
  std::vector<PhaseOptions> phases;  // one or two
  std::vector<double> percentiles;
  std::vector<std::string> warnings;  // sentences for stderr
};

// INVALID_ARGUMENT naming the property, as ReadWorkloadConfig.
absl::StatusOr<RunConfig> ReadRunConfig(const CommandLine& line, const WorkloadConfig& workload,
                                        PropertyReader* reader);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_RUN_CONFIG_H_
