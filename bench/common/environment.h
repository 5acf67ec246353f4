// Where a figure comes from: printed with every result, so that it can be traced.
#ifndef FARLOOK_BENCH_COMMON_ENVIRONMENT_H_
#define FARLOOK_BENCH_COMMON_ENVIRONMENT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farlook::bench {

struct Environment {
  std::string cpu;  // the processor's model, as /proc/cpuinfo has it
  int cpus = 0;     // that this process may run on
  double memory_gib = 0;
  std::string kernel;    // release
  std::string compiler;  // and what it was told: optimization, sanitizers, assertions
  std::string commit;    // see FindCommit
};

Environment DescribeEnvironment();

// $FARLOOK_COMMIT if set; else the commit that is checked out at or above `directory` (which the program may or may not
// have been built from); else "unknown".
std::string FindCommit(const std::string& directory);

// The first "model name" in the text of /proc/cpuinfo, or "unknown".
std::string CpuModel(absl::string_view cpuinfo);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_ENVIRONMENT_H_
