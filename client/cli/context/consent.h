// The question before a command that cannot be undone.
#ifndef FARLOOK_CLIENT_CLI_CONTEXT_CONSENT_H_
#define FARLOOK_CLIENT_CLI_CONTEXT_CONSENT_H_

#include "absl/strings/string_view.h"
#include "client/cli/context/command.h"
#include "client/cli/terminal/explain.h"

namespace farlook::cli {

// Returns whether there is a terminal to ask on.
bool CanAsk(const Context& context);
// Returns OK with --yes, or after the person at the terminal said yes. Otherwise prints that nothing was done, and
// returns the code with which the command ends. `what` is named in this message: "the plan".
ExitCode Agree(const Context& context, absl::string_view what);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONTEXT_CONSENT_H_
