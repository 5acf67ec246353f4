// Runs one command: checks its flags and operands, connects to a store if needed, calls it, and checks that its output
// was written.
#ifndef FARLOOK_CLIENT_CLI_COMMANDS_RUNNER_H_
#define FARLOOK_CLIENT_CLI_COMMANDS_RUNNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cli/context/command.h"
#include "client/cli/context/store.h"
#include "client/cli/input/arguments.h"
#include "client/cli/input/options.h"
#include "client/cli/terminal/console.h"
#include "client/cli/terminal/explain.h"

namespace farlook::cli {

class Runner {
 public:
  Runner(Mode mode, Console* console, StoreSource source)
      : mode_(mode), console_(*console), source_(std::move(source)) {}

  // The first operand of `arguments` is the command. REQUIRES: there is one. All errors are printed.
  ExitCode Run(const Arguments& arguments);
  // The same for words that are not parsed yet.
  ExitCode Run(absl::Span<const std::string> words, const Options& defaults);

  // Returns whether the last command failed because the server does not answer at all.
  bool server_gone() const { return server_gone_; }

 private:
  ExitCode UsageError(absl::string_view message, absl::string_view command, const Options& options);
  // Returns why `arguments` do not fit `command`; OK if they do.
  absl::Status Check(const Command& command, const Arguments& arguments) const;

  const Mode mode_;
  Console& console_;
  const StoreSource source_;
  bool server_gone_ = false;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_COMMANDS_RUNNER_H_
