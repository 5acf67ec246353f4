#include "client/cli/commands/runner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/encoding.h"
#include "client/cli/terminal/explain.h"

namespace farlook::cli {
namespace {

absl::Status CheckFlag(const Command& command, const Flag& flag, Mode mode) {
  if (flag.scope == Flag::Scope::kStart && mode != Mode::kOneShot) {
    return absl::InvalidArgumentError(absl::StrCat("--", flag.name, " can only be given when kv_cli starts"));
  }
  const bool listed = std::find(command.flags.begin(), command.flags.end(), flag.name) != command.flags.end();
  if (flag.scope != Flag::Scope::kCommand || listed) return absl::OkStatus();
  std::vector<absl::string_view> others;
  for (const Command& other : Commands()) {
    if (std::find(other.flags.begin(), other.flags.end(), flag.name) != other.flags.end()) others.push_back(other.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag.name, " is not for ", command.name, ", only for ", absl::StrJoin(others, ", ")));
}

}  // namespace

ExitCode Runner::UsageError(absl::string_view message, absl::string_view command, const Options& options) {
  if (options.json) AnswerUsageError(console_, message);
  console_.Error(absl::StrCat(message, "; see: ", mode_ == Mode::kOneShot ? "kv_cli " : "", "help",
                              command.empty() ? "" : " ", command));
  return ExitCode::kUsage;
}

absl::Status Runner::Check(const Command& command, const Arguments& arguments) const {
  for (const Flag* flag : arguments.flags) {
    if (absl::Status status = CheckFlag(command, *flag, mode_); !status.ok()) return status;
  }
  const size_t operands = arguments.operands.size() - 1;
  if (operands < command.min_operands) {
    return absl::InvalidArgumentError(absl::StrCat("operands are missing: ", command.name, " ", command.operands));
  }
  if (operands > command.max_operands) {
    return absl::InvalidArgumentError(absl::StrCat("too many operands: ", command.name,
                                                   command.operands.empty() ? "" : " ", command.operands,
                                                   " (quote what contains spaces)"));
  }
  return absl::OkStatus();
}

ExitCode Runner::Run(absl::Span<const std::string> words, const Options& defaults) {
  const absl::StatusOr<Arguments> arguments = ParseArguments(words, defaults);
  if (!arguments.ok()) {
    Options options = defaults;
    options.json = options.json || std::find(words.begin(), words.end(), "--json") != words.end();
    return UsageError(arguments.status().message(), "", options);
  }
  if (arguments->operands.empty()) return UsageError("no command", "", arguments->options);
  return Run(*arguments);
}

ExitCode Runner::Run(const Arguments& arguments) {
  server_gone_ = false;
  const std::string& name = arguments.operands[0].text;
  const Command* command = FindCommand(name);
  if (command == nullptr) return UsageError(UnknownCommand(name), "", arguments.options);
  if (arguments.options.help) {
    console_.out().Write(HelpAnswer(HelpOn(*command), arguments.options.json));
  } else if (absl::Status status = Check(*command, arguments); !status.ok()) {
    return UsageError(absl::StrCat(command->name, ": ", status.message()), command->name, arguments.options);
  }

  ExitCode code = ExitCode::kOk;
  if (!arguments.options.help) {
    Context context{command->name,
                    arguments.options,
                    absl::MakeConstSpan(arguments.operands).subspan(1),
                    /*store=*/nullptr,
                    source_,
                    console_,
                    mode_,
                    &server_gone_};
    if (command->needs_store) {
      Options options = arguments.options;
      if (mode_ == Mode::kOneShot) {
        options.read_only = options.read_only || command->access != Access::kWrite;
        options.as_operator = command->access == Access::kOperate;
      }
      absl::StatusOr<Store*> store = source_(options);
      if (!store.ok() && store.status().code() == absl::StatusCode::kInvalidArgument) {
        return UsageError(store.status().message(), "", arguments.options);
      }
      if (!store.ok()) return context.Fail(store.status());
      context.store = *store;
    }
    code = command->run(context);
    console_.HideStatusLine();
  }
  if (!console_.out().Flush().ok()) {
    if (!console_.out().reader_gone()) console_.Error(console_.out().status().message());
    code = Worst(code, ExitCode::kError);
  }
  return code;
}

}  // namespace farlook::cli
