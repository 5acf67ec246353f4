// export: prints many pairs, for import.
#ifndef FARLOOK_CLIENT_CLI_EXPORT_COMMAND_H_
#define FARLOOK_CLIENT_CLI_EXPORT_COMMAND_H_

#include "client/cli/command.h"
#include "client/cli/exit_code.h"

namespace farlook::cli {

ExitCode RunExport(Context& context);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_EXPORT_COMMAND_H_
