// import: stores many pairs.
#ifndef FARLOOK_CLIENT_CLI_IMPORT_COMMAND_H_
#define FARLOOK_CLIENT_CLI_IMPORT_COMMAND_H_

#include "client/cli/command.h"
#include "client/cli/exit_code.h"

namespace farlook::cli {

ExitCode RunImport(Context& context);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_IMPORT_COMMAND_H_
