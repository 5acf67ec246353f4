#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/input.h"
#include "client/cli/input/json_line.h"
#include "farlook/async.h"
#include "kv/layout/limits.h"

namespace farlook::cli {
namespace {

// Calls `act(key)` for each operand as a key. Returns the worst result.
template <typename Act>
ExitCode ForEachKey(const Context& context, Act act) {
  ExitCode worst = ExitCode::kOk;
  for (const Operand& operand : context.operands) {
    absl::StatusOr<std::string> key = DecodeKey(operand.text, context.options.key_encoding);
    const ExitCode code =
        key.ok()
            ? act(*std::move(key))
            : context.Fail(ExitCode::kUsage, absl::StrCat("key ", Quoted(operand.text), ": ", key.status().message()));
    worst = Worst(worst, code);
  }
  return worst;
}

absl::StatusOr<std::string> ReadValue(const std::string& path, int stdin_fd) {
  absl::StatusOr<Input> input = Input::Open(path, stdin_fd);
  if (!input.ok()) return input.status();
  // No server accepts more; reading on would only fill memory.
  return input->ReadAll(kv::kMaxValueBytes);
}

// Takes the value from the operand at `position`, a file, or standard input. On an error prints it, stores the exit
// code and returns false.
bool TakeValue(const Context& context, size_t position, std::string* value, ExitCode* code) {
  const bool has_operand = context.operands.size() > position;
  const auto usage = [&](absl::string_view message) {
    *code = context.Fail(ExitCode::kUsage, message);
    return false;
  };
  if (has_operand && context.options.file.has_value()) {
    return usage("the value is given twice, as an operand and with --file");
  }
  if (has_operand && !context.operands[position].is_stdin()) {
    *value = context.operands[position].text;
    return true;
  }
  const std::string path = context.options.file.value_or("-");
  if (path == "-" && context.mode != Mode::kOneShot) {
    return usage(
        "standard input provides the commands: give the value as an operand (after -- if it is a dash), or "
        "--file=FILE");
  }
  if (path == "-" && !has_operand && !context.options.file.has_value() && context.console.in_is_terminal()) {
    return usage("give a value, --file=FILE, or - to type it here and end it with Ctrl-D");
  }
  absl::StatusOr<std::string> read = ReadValue(path, context.console.in_fd());
  if (!read.ok()) {
    *code =
        context.Fail(read.status().code() == absl::StatusCode::kCancelled ? ExitCode::kInterrupted : ExitCode::kError,
                     read.status().message());
    return false;
  }
  *value = *std::move(read);
  return true;
}

void PrintWritten(const Context& context, const PutOperation& put) {
  Output& out = context.console.out();
  if (context.options.json) {
    out.WriteLine(JsonLine().Bytes("key", put.key()).Number("version", put.version()).ToString());
  } else if (context.options.print_version) {
    out.WriteLine(absl::StrCat(put.version()));
  } else if (context.mode == Mode::kInteractive) {
    out.WriteLine(absl::StrCat("stored, version ", put.version()));
  }
}

// Executes a write with the first operand as its key and the operand at `value_position` as its value.
ExitCode Write(const Context& context, Action action, const Condition& condition, size_t value_position) {
  absl::StatusOr<std::string> key = DecodeKey(context.operands[0].text, context.options.key_encoding);
  if (!key.ok()) {
    return context.Fail(ExitCode::kUsage,
                        absl::StrCat("key ", Quoted(context.operands[0].text), ": ", key.status().message()));
  }
  if (context.options.keep_ttl && context.options.ttl_ms != 0) {
    return context.Fail(ExitCode::kUsage, "either --ttl or --keep_ttl");
  }
  std::string value;
  ExitCode code = ExitCode::kOk;
  if (!TakeValue(context, value_position, &value, &code)) return code;
  PutOperation put(*key, std::move(value),
                   {.condition = condition,
                    .timeout_ms = context.options.timeout_ms,
                    .ttl_ms = context.options.ttl_ms,
                    .keep_ttl = context.options.keep_ttl,
                    .keep = context.options.keep});
  context.store->Run(&put);
  if (!put.status().ok()) return context.Fail(put, action);
  PrintWritten(context, put);
  return ExitCode::kOk;
}

void PrintValue(const Context& context, const GetOperation& get) {
  Output& out = context.console.out();
  if (context.options.json) {
    JsonLine line;
    line.Bytes("key", get.key());
    if (!context.options.print_version) line.Bytes("value", get.value());
    out.WriteLine(line.Number("version", get.version()).ToString());
  } else if (context.options.print_version) {
    out.WriteLine(absl::StrCat(get.version()));
  } else {
    context.PrintValue(get.value());
  }
}

}  // namespace

ExitCode RunGet(Context& context) {
  if (context.operands.size() > 1 && !context.options.json && !context.options.print_version) {
    return context.Fail(ExitCode::kUsage, "several values in a row cannot be separated: give one key, or --json");
  }
  return ForEachKey(context, [&](const std::string& key) {
    GetOperation get(key, {.timeout_ms = context.options.timeout_ms});
    context.store->Run(&get);
    if (!get.status().ok()) return context.Fail(get, Action::kRead);
    PrintValue(context, get);
    return ExitCode::kOk;
  });
}

ExitCode RunExists(Context& context) {
  return ForEachKey(context, [&](const std::string& key) {
    ExistsOperation operation(key, {.timeout_ms = context.options.timeout_ms});
    context.store->Run(&operation);
    const bool exists = operation.status().ok();
    if (!exists && !absl::IsNotFound(operation.status())) return context.Fail(operation, Action::kRead);
    if (context.options.json) {
      context.console.out().WriteLine(JsonLine().Bytes("key", key).Bool("exists", exists).ToString());
    } else {
      context.console.out().WriteLine(exists ? "true" : "false");
    }
    return ExitCodeOf(operation.status());
  });
}

ExitCode RunDelete(Context& context) {
  if (context.options.scan.prefix.has_value()) return RunDeletePrefix(context);
  if (context.operands.empty()) return context.Fail(ExitCode::kUsage, "give keys, or --prefix=PREFIX");
  return ForEachKey(context, [&](const std::string& key) {
    DeleteOperation remove(key, {.timeout_ms = context.options.timeout_ms});
    context.store->Run(&remove);
    if (!remove.status().ok()) return context.Fail(remove, Action::kWrite);
    if (context.options.json) {
      context.console.out().WriteLine(JsonLine().Bytes("key", key).Bool("deleted", true).ToString());
    } else if (context.mode == Mode::kInteractive) {
      context.console.out().WriteLine("deleted");
    }
    return ExitCode::kOk;
  });
}

ExitCode RunPut(Context& context) { return Write(context, Action::kWrite, Condition::Always(), 1); }
ExitCode RunInsert(Context& context) { return Write(context, Action::kWrite, Condition::IfAbsent(), 1); }
ExitCode RunReplace(Context& context) { return Write(context, Action::kReplace, Condition::IfPresent(), 1); }

ExitCode RunCompareAndSet(Context& context) {
  uint64_t version;
  if (!absl::SimpleAtoi(context.operands[1].text, &version) || version == 0) {
    return context.Fail(
        ExitCode::kUsage,
        absl::StrCat(Quoted(context.operands[1].text),
                     " is no version: `get --print_version KEY` prints one; insert stores what does not exist"));
  }
  return Write(context, Action::kCompareAndSet, Condition::IfVersion(version), 2);
}

}  // namespace farlook::cli
