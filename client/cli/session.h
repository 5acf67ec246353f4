// kv_cli without a command: commands line by line from standard input, over one connection.
#ifndef FARLOOK_CLIENT_CLI_SESSION_H_
#define FARLOOK_CLIENT_CLI_SESSION_H_

#include "client/cli/commands/runner.h"
#include "client/cli/input/options.h"
#include "client/cli/terminal/console.h"
#include "client/cli/terminal/explain.h"

namespace farlook::cli {

// Reads a file or a pipe. Errors are printed with the number of their line, and the session continues until the input
// ends or the server is gone. Returns the worst exit code of all lines.
ExitCode RunBatch(const Options& options, Console* console, StoreSource source);

// Reads a terminal. Returns the result of connecting and leaving, not of the commands, whose errors the user has seen.
ExitCode RunInteractive(const Options& options, Console* console, StoreSource source);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_SESSION_H_
