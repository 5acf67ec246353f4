// The scan of commands that print nothing before its end: with a progress bar, and until Ctrl-C.
#ifndef FARLOOK_CLIENT_CLI_CONTEXT_WALK_H_
#define FARLOOK_CLIENT_CLI_CONTEXT_WALK_H_

#include <functional>

#include "absl/status/status.h"
#include "client/cli/context/command.h"
#include "farlook/scan.h"

namespace farlook::cli {

// Calls `take` for each item, until it returns false or Interrupted() does.
absl::Status Walk(const Context& context, const ScanOptions& options,
                  const std::function<bool(const ScannedItem&)>& take);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONTEXT_WALK_H_
