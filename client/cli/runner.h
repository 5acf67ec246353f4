// Runs one command: checks that its flags and operands fit, sees that there is a store if it needs one, calls it, and
// sees that what it printed arrived.
#ifndef FARLOOK_CLIENT_CLI_RUNNER_H_
#define FARLOOK_CLIENT_CLI_RUNNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cli/arguments.h"
#include "client/cli/command.h"
#include "client/cli/console.h"
#include "client/cli/explain.h"
#include "client/cli/options.h"
#include "client/cli/store.h"

namespace farlook::cli {

class Runner {
 public:
  Runner(Mode mode, Console* console, StoreSource source)
      : mode_(mode), console_(*console), source_(std::move(source)) {}

  // The first operand of `arguments` is the command. REQUIRES: there is one. All errors are printed.
  ExitCode Run(const Arguments& arguments);
  // The same for words that are not yet parsed.
  ExitCode Run(absl::Span<const std::string> words, const Options& defaults);

  // Whether the last command met with a server that does not answer at all.
  bool server_gone() const { return server_gone_; }

 private:
  ExitCode UsageError(absl::string_view message, absl::string_view command, const Options& options);
  // Why `arguments` do not fit `command`; OK if they do.
  absl::Status Check(const Command& command, const Arguments& arguments) const;

  const Mode mode_;
  Console& console_;
  const StoreSource source_;
  bool server_gone_ = false;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_RUNNER_H_
