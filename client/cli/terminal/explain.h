// The meaning of a status for the user: the exit code of kv_cli, and a message. The message says what happened, the
// effect on the table, and what can be done.
#ifndef FARLOOK_CLIENT_CLI_TERMINAL_EXPLAIN_H_
#define FARLOOK_CLIENT_CLI_TERMINAL_EXPLAIN_H_

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "client/cli/input/options.h"
#include "farlook/async.h"

namespace farlook::cli {

// The exit status of kv_cli. Documented in its help; scripts rely on it.
enum class ExitCode : int {
  kOk = 0,
  kNotFound = 1,         // a key does not exist
  kConditionFailed = 2,  // insert: the key exists; cas: it has another version
  kError = 3,            // anything else: no server, no reply in time, no memory, ...
  kUsage = 64,           // the command line is wrong; nothing was done. EX_USAGE of sysexits.h
  kInterrupted = 130,    // Ctrl-C, as shells report it
};

inline ExitCode Worst(ExitCode a, ExitCode b) { return std::max(a, b); }

ExitCode ExitCodeOf(const absl::Status& status);

// The kind of an operation, as far as it matters for messages about its failure.
enum class Action { kRead, kWrite, kReplace, kCompareAndSet, kReadCounter, kChangeCounter };

// For an operation on a key that failed. REQUIRES: its status is not OK.
std::string Explain(const AsyncOperation& operation, Action action, const Options& options);

// For an operation on the server, or for connecting to it.
std::string Explain(const absl::Status& status, const Options& options);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_TERMINAL_EXPLAIN_H_
