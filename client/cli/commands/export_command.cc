#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/commands/commands.h"
#include "client/cli/context/transfer.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/input.h"
#include "client/cli/input/pair_format.h"
#include "farlook/scan.h"
#include "kv/layout/limits.h"

namespace farlook::cli {
namespace {

// The longest key, each byte written as \xHH.
constexpr size_t kMaxLineBytes = 4 * kv::kMaxKeyBytes + 1;

void ExportKey(const Context& context, absl::string_view text, uint64_t line, Transfer* transfer) {
  absl::StatusOr<std::string> key = DecodeKey(text, context.options.key_encoding);
  if (!key.ok()) return transfer->Reject(absl::StrCat("key ", Quoted(text), ": ", key.status().message()), line);
  transfer->Read(*key, line);
}

// Returns the number of keys.
uint64_t ExportList(const Context& context, const Input& input, Transfer* transfer) {
  uint64_t keys = 0;
  TransferLines(context, input, kMaxLineBytes, transfer, [&](absl::string_view key, uint64_t line) {
    // A raw key may end in this byte; in the other encodings it comes from an editor's line ends.
    if (context.options.key_encoding != KeyEncoding::kRaw) absl::ConsumeSuffix(&key, "\r");
    if (key.empty()) return;
    ++keys;
    ExportKey(context, key, line, transfer);
  });
  return keys;
}

void ExportOperands(const Context& context, Transfer* transfer) {
  for (const Operand& operand : context.operands) {
    if (transfer->going_on()) ExportKey(context, operand.text, /*line=*/0, transfer);
  }
  transfer->Finish();
}

constexpr double kWhole = 1 << 20;  // for the progress bar

// Counters that are deleted after the scan has found them are left out.
ExitCode ExportPrefix(const Context& context, Transfer* transfer) {
  ScanOptions scan;
  if (!TakeScanOptions(context, *context.options.scan.prefix, &scan)) return ExitCode::kUsage;
  scan.values = true;
  transfer->LeaveOutAbsent();
  std::string cursor;
  const absl::Status status = context.store->Scan(
      scan,
      [&](const ScannedItem& item, double done) {
        transfer->SetInput(static_cast<uint64_t>(done * kWhole), static_cast<uint64_t>(kWhole));
        if (item.counter) {
          transfer->Read(std::string(item.key), /*line=*/0);  // its number is not in the item
        } else {
          transfer->Take({.key = std::string(item.key),
                          .value = std::string(item.value),
                          .ttl_ms = item.left_ms == kForever ? 0 : item.left_ms,
                          .keep = item.keep,
                          .version = item.version});
        }
        return transfer->going_on() && context.console.out().status().ok() && !context.console.out().reader_gone();
      },
      &cursor);
  transfer->Finish();
  return status.ok() ? ExitCode::kOk : context.Fail(status);
}

}  // namespace

ExitCode RunExport(Context& context) {
  const bool by_prefix = context.options.scan.prefix.has_value();
  if (by_prefix && (!context.operands.empty() || context.options.transfer.keys.has_value())) {
    return context.Fail(ExitCode::kUsage, "give keys or --prefix, not both");
  }
  const bool from_list = context.operands.empty() && !by_prefix;
  if (!from_list && context.options.transfer.keys.has_value()) {
    return context.Fail(ExitCode::kUsage, "keys are given twice, as operands and with --keys");
  }
  const std::string path = context.options.transfer.keys.value_or("-");
  if (from_list && path == "-" && context.mode != Mode::kOneShot) {
    return context.Fail(ExitCode::kUsage, "standard input provides the commands: give keys, or --keys=FILE");
  }
  if (from_list && !context.options.transfer.keys.has_value() && context.console.in_is_terminal()) {
    return context.Fail(ExitCode::kUsage,
                        "give keys, a list of them with --keys=FILE, or --prefix=PREFIX; an empty prefix has all keys");
  }

  Transfer transfer(context, [&](const Pair& pair) {
    context.console.out().WriteLine(FormatPair(pair, context.options.transfer.format));
  });
  ExitCode code = ExitCode::kOk;
  if (by_prefix) {
    code = ExportPrefix(context, &transfer);
    if (code == ExitCode::kUsage) return code;
  } else if (from_list) {
    const absl::StatusOr<Input> input = Input::Open(path, context.console.in_fd());
    if (!input.ok()) return context.Fail(ExitCode::kError, input.status().message());
    // An empty file is no backup: an empty list of keys must not pass for one.
    if (ExportList(context, *input, &transfer) == 0 && transfer.going_on()) {
      return context.Fail(ExitCode::kUsage,
                          absl::StrCat(path == "-" ? "standard input" : path, " names no key: nothing was exported"));
    }
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
  return Worst(code, transfer.code());
}

}  // namespace farlook::cli
