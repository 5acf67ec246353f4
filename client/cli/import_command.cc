#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/input.h"
#include "client/cli/json_line.h"
#include "client/cli/pair_format.h"
#include "client/cli/transfer.h"
#include "kv/limits.h"

namespace farlook::cli {
namespace {

// The longest key and value that any server takes, each byte written as \u00xx.
constexpr size_t kMaxLineBytes = 6 * (kv::kMaxValueBytes + kv::kMaxKeyBytes) + 4096;

void ImportLine(const Context& context, const std::string& text, uint64_t line, Transfer* transfer) {
  absl::StatusOr<Pair> pair = ParsePair(text, context.options.format);
  if (!pair.ok()) return transfer->Reject(absl::StrCat("the line ", pair.status().message()), line);
  Request request;
  request.type = context.options.insert_only ? Request::Type::kInsert : Request::Type::kPut;
  request.key = std::move(pair->key);
  request.value = std::move(pair->value);
  request.timeout_ms = context.options.timeout_ms;
  transfer->Start(std::move(request), line);
}

void ImportAll(const Context& context, const Input& input, Transfer* transfer) {
  LineReader reader(&input, kMaxLineBytes);
  const uint64_t total_bytes = input.file_bytes();
  const auto start_line = static_cast<uint64_t>(context.options.start_line);
  std::string text;
  while (transfer->going_on()) {
    if (!reader.ready()) transfer->Settle();
    const LineReader::Result result = reader.Next(&text);
    if (result == LineReader::Result::kEnd) break;
    if (result == LineReader::Result::kError) {
      transfer->Stop(ExitCodeOf(reader.status()), reader.status().message(), reader.line_number() + 1);
      break;
    }
    transfer->SetInput(reader.consumed_bytes(), total_bytes);
    if (reader.line_number() < start_line) continue;
    if (result == LineReader::Result::kTooLong) {
      transfer->Reject(absl::StrCat("the line is longer than ", kMaxLineBytes, " bytes"), reader.line_number());
    } else if (!text.empty()) {
      ImportLine(context, text, reader.line_number(), transfer);
    }
  }
  transfer->Finish();
  if (reader.line_number() < start_line && transfer->going_on()) {
    context.Fail(ExitCode::kOk, absl::StrCat("nothing to do: the input has ", reader.line_number(),
                                             " lines, --start_line is ", start_line));
  }
}

}  // namespace

ExitCode RunImport(Context& context) {
  const bool from_stdin = context.operands.empty() || context.operands[0].is_stdin();
  if (from_stdin && context.mode != Mode::kOneShot) {
    return context.Fail(ExitCode::kUsage, "standard input holds the commands: give a FILE");
  }
  if (context.operands.empty() && context.console.in_is_terminal()) {
    return context.Fail(ExitCode::kUsage, "give a FILE, or - to type the lines here and end them with Ctrl-D");
  }
  const absl::StatusOr<Input> input = from_stdin ? Input::Borrow(context.console.in_fd(), "standard input")
                                                 : Input::Open(context.operands[0].text, context.console.in_fd());
  if (!input.ok()) return context.Fail(ExitCode::kError, input.status().message());

  Transfer transfer(context, [](const Request&) {});
  ImportAll(context, *input, &transfer);

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
