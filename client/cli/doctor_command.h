// `doctor`: what stops this host, or the way to a server, and what mends it.
#ifndef FARLOOK_CLIENT_CLI_DOCTOR_COMMAND_H_
#define FARLOOK_CLIENT_CLI_DOCTOR_COMMAND_H_

#include "client/cli/command.h"
#include "client/cli/exit_code.h"

namespace farlook::cli {

ExitCode RunDoctor(Context& context);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_DOCTOR_COMMAND_H_
