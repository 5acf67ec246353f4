// What a status means to the user: the exit code of kv_cli, and a sentence that says what happened, what became of the
// table, and what can be done.
#ifndef FARLOOK_CLIENT_CLI_EXPLAIN_H_
#define FARLOOK_CLIENT_CLI_EXPLAIN_H_

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "client/cli/options.h"
#include "farlook/async.h"

namespace farlook::cli {

// What kv_cli's exit status says. Documented in its help; scripts rely on it.
enum class ExitCode : int {
  kOk = 0,
  kNotFound = 1,         // a key does not exist
  kConditionFailed = 2,  // insert: the key exists; cas: it has another version
  kError = 3,            // anything else: no server, no answer in time, no memory, ...
  kUsage = 64,           // the command line is wrong; nothing was done. EX_USAGE of sysexits.h
  kInterrupted = 130,    // Ctrl-C, as shells report it
};

inline ExitCode Worst(ExitCode a, ExitCode b) { return std::max(a, b); }

ExitCode ExitCodeOf(const absl::Status& status);

// What an operation was to do, as far as that matters to who reads of its failure.
enum class Action { kRead, kWrite, kReplace, kCompareAndSet, kReadCounter, kChangeCounter };

// Of an operation on a key that failed. REQUIRES: its status is not OK.
std::string Explain(const AsyncOperation& operation, Action action, const Options& options);

// Of an operation that concerns the server, or of connecting to it.
std::string Explain(const absl::Status& status, const Options& options);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_EXPLAIN_H_
