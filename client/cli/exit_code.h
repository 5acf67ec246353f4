// What kv_cli's exit status says. Documented in its help; scripts rely on it.
#ifndef FARLOOK_CLIENT_CLI_EXIT_CODE_H_
#define FARLOOK_CLIENT_CLI_EXIT_CODE_H_

#include <algorithm>

#include "absl/status/status.h"

namespace farlook::cli {

enum class ExitCode : int {
  kOk = 0,
  kNotFound = 1,         // a key does not exist
  kConditionFailed = 2,  // insert: the key exists; cas: it has another version
  kError = 3,            // anything else: no server, no answer in time, no memory, ...
  kUsage = 64,           // the command line is wrong; nothing was done. EX_USAGE of sysexits.h
  kInterrupted = 130,    // Ctrl-C, as shells report it
};

inline ExitCode Worst(ExitCode a, ExitCode b) { return std::max(a, b); }

inline ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return ExitCode::kConditionFailed;
    case absl::StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    default:
      return ExitCode::kError;
  }
}

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_EXIT_CODE_H_
