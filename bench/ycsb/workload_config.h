// The contents of a workload file, checked: the core properties of YCSB 0.17 by their standard names.
#ifndef FARLOOK_BENCH_YCSB_WORKLOAD_CONFIG_H_
#define FARLOOK_BENCH_YCSB_WORKLOAD_CONFIG_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "bench/common/properties.h"
#include "bench/ycsb/key_chooser.h"

namespace farlook::bench {

// The defaults are YCSB's.
struct WorkloadConfig {
  int64_t operation_count = 0;  // 0: until the time has passed
  KeySpace keys;                // also recordcount, insertstart, insertcount
  Distribution request_distribution = Distribution::kUniform;

  size_t field_count = 10;
  int64_t field_length = 100;     // bytes
  bool read_all_fields = true;    // otherwise one at random
  bool write_all_fields = false;  // otherwise one at random
  bool data_integrity = false;

  // Relative weights.
  double read_proportion = 0.95;
  double update_proportion = 0.05;
  double insert_proportion = 0;
  double read_modify_write_proportion = 0;
};

// Returns INVALID_ARGUMENT naming the property if a value is malformed or out of range, or values contradict each
// other. The same if the workload needs a feature that a hash table does not have (scans).
absl::StatusOr<WorkloadConfig> ReadWorkloadConfig(PropertyReader* reader);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_WORKLOAD_CONFIG_H_
