// kv_cli without a command: commands line by line from standard input, over one connection.
#ifndef FARLOOK_CLIENT_CLI_SESSION_H_
#define FARLOOK_CLIENT_CLI_SESSION_H_

#include "client/cli/console.h"
#include "client/cli/explain.h"
#include "client/cli/options.h"
#include "client/cli/runner.h"

namespace farlook::cli {

// From a file or a pipe. Errors are printed with the number of their line, and the session goes on, until the input
// ends, or the server is gone. Returns the worst exit code of all lines.
ExitCode RunBatch(const Options& options, Console* console, StoreSource source);

// On a terminal. Returns how connecting and leaving went, not the commands: whoever typed them saw their errors.
ExitCode RunInteractive(const Options& options, Console* console, StoreSource source);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_SESSION_H_
