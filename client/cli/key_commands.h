// The commands on single keys: get, exists, delete, put, insert, replace, cas.
#ifndef FARLOOK_CLIENT_CLI_KEY_COMMANDS_H_
#define FARLOOK_CLIENT_CLI_KEY_COMMANDS_H_

#include "client/cli/command.h"
#include "client/cli/exit_code.h"

namespace farlook::cli {

ExitCode RunGet(Context& context);
ExitCode RunExists(Context& context);
ExitCode RunDelete(Context& context);
ExitCode RunPut(Context& context);
ExitCode RunInsert(Context& context);
ExitCode RunReplace(Context& context);
ExitCode RunCompareAndSet(Context& context);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_KEY_COMMANDS_H_
