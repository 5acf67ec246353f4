// A command of kv_cli: its name, its help and its function.
#ifndef FARLOOK_CLIENT_CLI_CONTEXT_COMMAND_H_
#define FARLOOK_CLIENT_CLI_CONTEXT_COMMAND_H_

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
#include "client/cli/context/store.h"
#include "client/cli/input/arguments.h"
#include "client/cli/input/options.h"
#include "client/cli/terminal/console.h"
#include "client/cli/terminal/explain.h"
#include "farlook/async.h"
#include "farlook/options.h"

namespace farlook::cli {

// The way in which a command was started.
enum class Mode {
  kOneShot,      // it is the whole of kv_cli's command line
  kBatch,        // a line of a session that reads standard input
  kInteractive,  // a line of a session on a terminal
};

// Returns the store at the address in `options`; called at most once for each command. The store lives as long as the
// source. INVALID_ARGUMENT: the address is wrong.
using StoreSource = std::function<absl::StatusOr<Store*>(const Options& options)>;

// The inputs and outputs of a command.
struct Context {
  absl::string_view command;
  const Options& options;
  absl::Span<const Operand> operands;
  Store* store;  // null if the command needs none
  const StoreSource& connect;
  Console& console;
  Mode mode;
  bool* server_gone = nullptr;  // if not null: set when the server does not answer at all

  // Prints "<command>: <message>" as an error and returns `code`. With --json also prints an object with `error` and
  // `message`, so that each request has a line on stdout; likewise below.
  ExitCode Fail(ExitCode code, absl::string_view message) const;
  // Prints the error of `operation`, which failed; returns its code.
  ExitCode Fail(const AsyncOperation& operation, Action action) const;
  // The same for an operation without a key.
  ExitCode Fail(const absl::Status& status) const;
  // Returns the cluster's groups that the command is about: the one in the options, or all. Without a cluster: ""
  // alone.
  absl::StatusOr<std::vector<std::string>> GroupNames() const;
  // For a command about one server: returns its group, as in GroupNames(), or the exit code after an error was printed.
  std::variant<std::string, ExitCode> OneGroup() const;
  ServerOptions At(const std::string& group) const { return {.timeout_ms = options.timeout_ms, .group = group}; }
  // Sets *server_gone if `status` says so. Fail() does it too.
  void NoteStatus(const absl::Status& status) const;
  // Prints a value as text: its exact bytes, or on a terminal without --raw Printable(). A line feed follows if a
  // person or the reader of a session must see where it ends.
  void PrintValue(absl::string_view value) const;
  void Answer(absl::string_view error, absl::string_view message, std::optional<absl::string_view> key) const;
};

// The rights that kv_cli requests when it is started for one command. A session of several commands may write.
enum class Access {
  kWrite,
  kRead,
  kOperate,  // reads, as an operator or a probe: a full server keeps places for these
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
  Access access = Access::kWrite;
};

// With --json, prints the reply to an invalid request: no command, an unknown one, or operands that do not fit. The
// message for people is printed separately.
void AnswerUsageError(Console& console, absl::string_view message);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONTEXT_COMMAND_H_
