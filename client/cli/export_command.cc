#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/commands.h"
#include "client/cli/encoding.h"
#include "client/cli/input.h"
#include "client/cli/pair_format.h"
#include "client/cli/transfer.h"
#include "kv/limits.h"

namespace farlook::cli {
namespace {

// The longest key, each byte written as \xHH.
constexpr size_t kMaxLineBytes = 4 * kv::kMaxKeyBytes + 1;

void ExportKey(const Context& context, absl::string_view text, uint64_t line, Transfer* transfer) {
  absl::StatusOr<std::string> key = DecodeKey(text, context.options.key_encoding);
  if (!key.ok()) return transfer->Reject(absl::StrCat("key ", Quoted(text), ": ", key.status().message()), line);
  transfer->Get(*key, line);
}

void ExportList(const Context& context, const Input& input, Transfer* transfer) {
  TransferLines(context, input, kMaxLineBytes, transfer, [&](absl::string_view key, uint64_t line) {
    // A raw key may end so; in the other encodings it is of an editor that ends lines in its own way.
    if (context.options.key_encoding != KeyEncoding::kRaw) absl::ConsumeSuffix(&key, "\r");
    if (!key.empty()) ExportKey(context, key, line, transfer);
  });
}

void ExportOperands(const Context& context, Transfer* transfer) {
  for (const Operand& operand : context.operands) {
    if (transfer->going_on()) ExportKey(context, operand.text, /*line=*/0, transfer);
  }
  transfer->Finish();
}

}  // namespace

ExitCode RunExport(Context& context) {
  const bool from_list = context.operands.empty();
  if (!from_list && context.options.keys.has_value()) {
    return context.Fail(ExitCode::kUsage, "keys are given twice, as operands and with --keys");
  }
  const std::string path = context.options.keys.value_or("-");
  if (from_list && path == "-" && context.mode != Mode::kOneShot) {
    return context.Fail(ExitCode::kUsage, "standard input holds the commands: give keys, or --keys=FILE");
  }
  if (from_list && !context.options.keys.has_value() && context.console.in_is_terminal()) {
    return context.Fail(ExitCode::kUsage,
                        "give keys, or a list of them with --keys=FILE: the table has no scan that would find them");
  }

  Transfer transfer(context, [&](const GetOperation& get) {
    context.console.out().WriteLine(FormatPair(get.key(), get.value(), get.version(), context.options.format));
  });
  if (from_list) {
    const absl::StatusOr<Input> input = Input::Open(path, context.console.in_fd());
    if (!input.ok()) return context.Fail(ExitCode::kError, input.status().message());
    ExportList(context, *input, &transfer);
  } else {
    ExportOperands(context, &transfer);
  }
  context.console.out().Flush();
  if (context.mode == Mode::kOneShot && !context.console.out().reader_gone()) {
    context.console.Note(absl::StrCat("exported ", FormatSummary(transfer.figures(), transfer.ElapsedSeconds()),
                                      transfer.figures().failures == 0
                                          ? ""
                                          : absl::StrCat("; ", transfer.figures().failures, " not found or failed")));
  }
  return transfer.code();
}

}  // namespace farlook::cli
