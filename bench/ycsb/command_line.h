// The command line of ycsb, in YCSB's own form.
#ifndef FARLOOK_BENCH_YCSB_COMMAND_LINE_H_
#define FARLOOK_BENCH_YCSB_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/common/properties.h"
#include "bench/stores/db_registry.h"

namespace farlook::bench {

struct CommandLine {
  bool help = false;
  std::string json_path;  // empty: none

  // From the files in their order, then those given with -p and by options (threadcount, target, db, status).
  Properties properties;
  bool load = false;  // -load
  bool run = false;   // -t; with -load, the load comes first
};

// `args` without the program's name. INVALID_ARGUMENT for an unknown option or a missing value; or a properties file's
// error.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args);

// The text that --help prints.
std::string HelpText(const DbRegistry& registry);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_COMMAND_LINE_H_
