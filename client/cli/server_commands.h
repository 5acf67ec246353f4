// The commands on the server as a whole: stat, watch, ping.
#ifndef FARLOOK_CLIENT_CLI_SERVER_COMMANDS_H_
#define FARLOOK_CLIENT_CLI_SERVER_COMMANDS_H_

#include "client/cli/command.h"
#include "client/cli/exit_code.h"

namespace farlook::cli {

ExitCode RunStat(Context& context);
ExitCode RunWatch(Context& context);
ExitCode RunPing(Context& context);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_SERVER_COMMANDS_H_
