// The commands on counters: incr, decr, counter.
#ifndef FARLOOK_CLIENT_CLI_COUNTER_COMMANDS_H_
#define FARLOOK_CLIENT_CLI_COUNTER_COMMANDS_H_

#include "client/cli/command.h"
#include "client/cli/exit_code.h"

namespace farlook::cli {

ExitCode RunIncrement(Context& context);
ExitCode RunDecrement(Context& context);
ExitCode RunCounter(Context& context);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_COUNTER_COMMANDS_H_
