// The list of all commands.
#ifndef FARLOOK_CLIENT_CLI_COMMANDS_H_
#define FARLOOK_CLIENT_CLI_COMMANDS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/command.h"

namespace farlook::cli {

// In the order in which help shows them. Live for ever.
absl::Span<const Command> Commands();
// Null if there is none.
const Command* FindCommand(absl::string_view name);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_COMMANDS_H_
