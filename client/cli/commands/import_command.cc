#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/context/transfer.h"
#include "client/cli/input/input.h"
#include "client/cli/input/json_line.h"
#include "client/cli/input/pair_format.h"
#include "kv/layout/limits.h"

namespace farlook::cli {
namespace {

// The longest key and value that any server accepts, each byte written as \u00xx.
constexpr size_t kMaxLineBytes = 6 * (kv::kMaxValueBytes + kv::kMaxKeyBytes) + 4096;

void ImportLine(const Context& context, absl::string_view text, uint64_t line, Transfer* transfer) {
  absl::StatusOr<Pair> pair = ParsePair(text, context.options.transfer.format);
  if (!pair.ok()) return transfer->Reject(absl::StrCat("the line ", pair.status().message()), line);
  transfer->Write(*std::move(pair), line);
}

}  // namespace

ExitCode RunImport(Context& context) {
  const bool from_stdin = context.operands.empty() || context.operands[0].is_stdin();
  if (from_stdin && context.mode != Mode::kOneShot) {
    return context.Fail(ExitCode::kUsage, "standard input provides the commands: give a FILE");
  }
  if (context.operands.empty() && context.console.in_is_terminal()) {
    return context.Fail(ExitCode::kUsage, "give a FILE, or - to type the lines here and end them with Ctrl-D");
  }
  const absl::StatusOr<Input> input = from_stdin ? Input::Borrow(context.console.in_fd(), "standard input")
                                                 : Input::Open(context.operands[0].text, context.console.in_fd());
  if (!input.ok()) return context.Fail(ExitCode::kError, input.status().message());

  Transfer transfer(context);
  const uint64_t lines =
      TransferLines(context, *input, kMaxLineBytes, &transfer,
                    [&](absl::string_view text, uint64_t line) { ImportLine(context, text, line, &transfer); });
  if (lines < static_cast<uint64_t>(context.options.transfer.start_line) && transfer.going_on()) {
    context.Fail(ExitCode::kOk, absl::StrCat("nothing to do: the input has ", lines, " lines, --start_line is ",
                                             context.options.transfer.start_line));
  }

  const ProgressFigures& figures = transfer.figures();
  const uint64_t failed = figures.failures - transfer.existing();
  if (context.options.json) {
    JsonLine line;
    line.Number("imported", figures.pairs).Number("existing", transfer.existing()).Number("failed", failed);
    if (transfer.resume_line() != 0) line.Number("resume_line", transfer.resume_line());
    context.console.out().WriteLine(line.Number("seconds", transfer.ElapsedSeconds()).ToString());
  } else {
    context.console.Note(absl::StrCat(
        "imported ", FormatSummary(figures, transfer.ElapsedSeconds()),
        transfer.existing() == 0 ? "" : absl::StrCat("; ", transfer.existing(), " existed and were left as they were"),
        failed == 0 ? "" : absl::StrCat("; ", failed, " failed")));
  }
  return transfer.code();
}

}  // namespace farlook::cli
