#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/context/walk.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/interrupt.h"
#include "client/cli/input/json_line.h"
#include "client/cli/terminal/output.h"
#include "farlook/scan.h"

namespace farlook::cli {
namespace {

// Takes the prefix from the first operand, if there is one. Returns false after it printed an error.
bool TakeOptions(const Context& context, ScanOptions* scan) {
  return TakeScanOptions(context, context.operands.empty() ? "" : context.operands[0].text, scan);
}

absl::string_view View(std::string_view bytes) { return absl::string_view(bytes.data(), bytes.size()); }

std::string JsonOf(const ScanFlags& flags, const ScannedItem& item) {
  JsonLine line;
  line.Bytes("key", View(item.key));
  if (item.counter) line.Bool("counter", true);
  if (flags.versions) line.Number("version", item.version);
  if (flags.ttls) {
    line.Bool("expires", item.left_ms != kForever);
    if (item.left_ms != kForever) line.Number("left_ms", static_cast<uint64_t>(item.left_ms));
  }
  if (flags.values && !item.counter) line.Bytes("value", View(item.value));
  return line.ToString();
}

// The key, then tabs and what the flags ask for. Neither key nor value contains a tab or a line feed then.
std::string LineOf(const ScanFlags& flags, const ScannedItem& item) {
  std::string line = Escape(View(item.key));
  if (flags.versions) absl::StrAppend(&line, "\t", item.version);
  if (flags.ttls) absl::StrAppend(&line, "\t", item.left_ms == kForever ? "never" : absl::StrCat(item.left_ms));
  if (flags.values) absl::StrAppend(&line, "\t", item.counter ? "(counter)" : Escape(View(item.value)));
  return line;
}

}  // namespace

bool TakeScanOptions(const Context& context, absl::string_view prefix_text, ScanOptions* scan) {
  scan->timeout_ms = context.options.timeout_ms;
  scan->bytes_per_s = static_cast<uint64_t>(context.options.scan.mib_per_s) << 20;
  if (prefix_text.empty()) return true;
  absl::StatusOr<std::string> prefix = DecodeKey(prefix_text, context.options.key_encoding);
  if (prefix.ok()) {
    scan->prefix = *std::move(prefix);
    return true;
  }
  context.Fail(ExitCode::kUsage, absl::StrCat("prefix ", Quoted(prefix_text), ": ", prefix.status().message()));
  return false;
}

ExitCode RunScan(Context& context) {
  const ScanFlags& flags = context.options.scan;
  ScanOptions scan;
  if (!TakeOptions(context, &scan)) return ExitCode::kUsage;
  scan.values = flags.values;
  scan.cursor = flags.cursor;
  scan.limit = static_cast<uint64_t>(flags.limit);
  CatchInterrupts();
  Output& out = context.console.out();
  std::string cursor;
  const absl::Status status = context.store->Scan(
      scan,
      [&](const ScannedItem& item, double) {
        out.WriteLine(context.options.json ? JsonOf(flags, item) : LineOf(flags, item));
        return out.status().ok() && !out.reader_gone() && !Interrupted();
      },
      &cursor);
  if (!out.status().ok() || out.reader_gone()) return ExitCode::kOk;  // the console reports the former
  ExitCode code = ExitCode::kOk;
  if (absl::IsInvalidArgument(status)) {
    code = context.Fail(ExitCode::kUsage, status.message());
  } else if (!status.ok()) {
    code = context.Fail(status);
  } else if (Interrupted()) {
    code = ExitCode::kInterrupted;
  }
  if (cursor.empty() || cursor == "end" || code == ExitCode::kUsage) return code;
  if (context.options.json) {
    out.WriteLine(JsonLine().Bytes("cursor", cursor).ToString());
  } else {
    out.Flush();
    context.console.Note(absl::StrCat("continue with --cursor=", cursor));
  }
  return code;
}

ExitCode RunCount(Context& context) {
  ScanOptions scan;
  if (!TakeOptions(context, &scan)) return ExitCode::kUsage;
  uint64_t count = 0;
  const absl::Status status = Walk(context, scan, [&count](const ScannedItem&) {
    ++count;
    return true;
  });
  if (!status.ok()) return context.Fail(status);
  if (Interrupted()) return ExitCode::kInterrupted;
  context.console.out().WriteLine(context.options.json ? JsonLine().Number("count", count).ToString()
                                                       : absl::StrCat(count));
  return ExitCode::kOk;
}

}  // namespace farlook::cli
