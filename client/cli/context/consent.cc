#include "client/cli/context/consent.h"

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/input/input.h"

namespace farlook::cli {
namespace {

// CANCELLED: Ctrl-C was pressed.
absl::StatusOr<bool> Ask(const Context& context, absl::string_view question) {
  Output& terminal = context.console.err().is_terminal() ? context.console.err() : context.console.out();
  terminal.Write(question);
  terminal.Flush();
  const Input input = Input::Borrow(context.console.in_fd(), "standard input");
  std::string answer;
  char bytes[256];
  while (answer.find('\n') == std::string::npos) {
    const absl::StatusOr<size_t> count = input.Read(bytes, sizeof bytes);
    if (!count.ok() || *count == 0) terminal.WriteLine("");
    terminal.Flush();
    if (!count.ok()) return count.status();
    if (*count == 0) break;
    answer.append(bytes, *count);
  }
  const std::string word = absl::AsciiStrToLower(absl::StripAsciiWhitespace(answer));
  return word == "y" || word == "yes";
}

}  // namespace

bool CanAsk(const Context& context) {
  return context.mode != Mode::kBatch && context.console.in_is_terminal() &&
         (context.console.err().is_terminal() || context.console.out().is_terminal());
}

ExitCode Agree(const Context& context, absl::string_view what) {
  if (context.options.yes) return ExitCode::kOk;
  if (!CanAsk(context)) {
    return context.Fail(ExitCode::kUsage, absl::StrCat("nothing was done: there is no terminal to confirm ", what,
                                                       " on; add --yes to carry it out"));
  }
  const absl::StatusOr<bool> agreed = Ask(context, "go on? [y/N] ");
  if (absl::IsCancelled(agreed.status())) return context.Fail(ExitCode::kInterrupted, "interrupted: nothing was done");
  if (!agreed.ok()) return context.Fail(agreed.status());
  return *agreed
             ? ExitCode::kOk
             : context.Fail(ExitCode::kConditionFailed, absl::StrCat("nothing was done: ", what, " was not confirmed"));
}

}  // namespace farlook::cli
