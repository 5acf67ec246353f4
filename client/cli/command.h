// A command of kv_cli: its name, its help and its code.
#ifndef FARLOOK_CLIENT_CLI_COMMAND_H_
#define FARLOOK_CLIENT_CLI_COMMAND_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/arguments.h"
#include "client/cli/console.h"
#include "client/cli/explain.h"
#include "client/cli/options.h"
#include "client/cli/store.h"
#include "farlook/async.h"
#include "farlook/options.h"

namespace farlook::cli {

// How a command was begun.
enum class Mode {
  kOneShot,      // it is the whole of kv_cli's command line
  kBatch,        // a line of a session that reads standard input
  kInteractive,  // a line of a session on a terminal
};

// Gives the store that `options` name; called at most once for each command. The store lives as long as the source.
// INVALID_ARGUMENT: the address is wrong.
using StoreSource = std::function<absl::StatusOr<Store*>(const Options& options)>;

// What a command works with.
struct Context {
  absl::string_view command;
  const Options& options;
  absl::Span<const Operand> operands;
  Store* store;  // null if the command needs none
  const StoreSource& connect;
  Console& console;
  Mode mode;
  bool* server_gone = nullptr;  // if not null: set when the server does not answer at all

  // Prints "<command>: <message>" as an error and returns `code`. With --json also an object with `error` and
  // `message`, so that each request has a line on stdout; likewise below.
  ExitCode Fail(ExitCode code, absl::string_view message) const;
  // Prints what `operation`, which failed, met with; returns its code.
  ExitCode Fail(const AsyncOperation& operation, Action action) const;
  // The same for an operation without a key.
  ExitCode Fail(const absl::Status& status) const;
  // Which groups of a cluster the command is about: what the options say, or all. Of no cluster: "" alone.
  absl::StatusOr<std::vector<std::string>> GroupNames() const;
  // For a command that is about one server: its group, as GroupNames(). Else it has failed, with this code.
  std::variant<std::string, ExitCode> OneGroup() const;
  ServerOptions At(const std::string& group) const { return {.timeout_ms = options.timeout_ms, .group = group}; }
  // Sets *server_gone if that is what `status` says. Fail() does it too.
  void NoteStatus(const absl::Status& status) const;
  void Answer(absl::string_view error, absl::string_view message, std::optional<absl::string_view> key) const;
};

struct Command {
  absl::string_view name;
  absl::string_view operands;  // for help: "KEY [VALUE]"
  absl::string_view summary;   // one line
  absl::string_view details;
  std::vector<absl::string_view> flags;  // of Flag::Scope::kCommand
  size_t min_operands;
  size_t max_operands;
  bool needs_store;
  ExitCode (*run)(Context& context);
  bool for_operators = false;  // so that kv_cli which was started for it comes as an operator
};

// With --json, the answer to a request that is none: no command, an unknown one, or operands that do not fit. The
// message for people is printed besides.
void AnswerUsageError(Console& console, absl::string_view message);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_COMMAND_H_
