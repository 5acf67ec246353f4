// What `kv_cli help` prints.
#ifndef FARLOOK_CLIENT_CLI_HELP_H_
#define FARLOOK_CLIENT_CLI_HELP_H_

#include <string>

#include "client/cli/command.h"

namespace farlook::cli {

// All of kv_cli: the commands, the common flags, the exit codes.
std::string HelpOverview();
// The commands, and how lines of a session are written.
std::string HelpInSession();
// One command, with its flags.
std::string HelpOn(const Command& command);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_HELP_H_
