// The origin of a figure: printed with every result, so that it can be traced.
#ifndef FARLOOK_BENCH_COMMON_ENVIRONMENT_H_
#define FARLOOK_BENCH_COMMON_ENVIRONMENT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farlook::bench {

struct Environment {
  std::string cpu;  // the processor's model, from /proc/cpuinfo
  int cpus = 0;     // that this process may run on
  double memory_gib = 0;
  std::string kernel;    // release
  std::string compiler;  // and its options: optimization, sanitizers, assertions
  std::string commit;    // see FindCommit
};

Environment DescribeEnvironment();

// $FARLOOK_COMMIT if set; otherwise the commit that is checked out at or above `directory` (the program may have been
// built from another one); otherwise "unknown".
std::string FindCommit(const std::string& directory);

// The first "model name" in the text of /proc/cpuinfo, or "unknown".
std::string CpuModel(absl::string_view cpuinfo);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_ENVIRONMENT_H_
