#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/encoding.h"
#include "client/cli/input.h"
#include "client/cli/json_line.h"
#include "kv/limits.h"

namespace farlook::cli {
namespace {

using Type = Request::Type;

Request MakeRequest(const Context& context, Type type, std::string key) {
  Request request;
  request.type = type;
  request.key = std::move(key);
  request.timeout_ms = context.options.timeout_ms;
  return request;
}

// Of each operand as a key: calls `act(key)`. Returns the worst of what it returned.
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
  // No server takes more; reading on would only fill memory.
  return input->ReadAll(kv::kMaxValueBytes);
}

// The value is the operand at `position`, a file, or standard input. If it is none of them, says so, stores the exit
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
        "standard input holds the commands: give the value as an operand (after -- if it is a dash), or --file=FILE");
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

void PrintWritten(const Context& context, const Request& request) {
  Output& out = context.console.out();
  if (context.options.json) {
    out.WriteLine(JsonLine().Bytes("key", request.key).Number("version", request.version).ToString());
  } else if (context.options.print_version) {
    out.WriteLine(absl::StrCat(request.version));
  } else if (context.mode == Mode::kInteractive) {
    out.WriteLine(absl::StrCat("stored, version ", request.version));
  }
}

// A write whose key is the first operand and whose value stands at `value_position`.
ExitCode Write(const Context& context, Type type, size_t value_position, uint64_t version) {
  absl::StatusOr<std::string> key = DecodeKey(context.operands[0].text, context.options.key_encoding);
  if (!key.ok()) {
    return context.Fail(ExitCode::kUsage,
                        absl::StrCat("key ", Quoted(context.operands[0].text), ": ", key.status().message()));
  }
  Request request = MakeRequest(context, type, *std::move(key));
  request.version = version;
  ExitCode code = ExitCode::kOk;
  if (!TakeValue(context, value_position, &request.value, &code)) return code;
  context.store->Run(&request);
  if (!request.status.ok()) return context.Fail(request);
  PrintWritten(context, request);
  return ExitCode::kOk;
}

void PrintValue(const Context& context, const Request& request) {
  Output& out = context.console.out();
  if (context.options.json) {
    JsonLine line;
    line.Bytes("key", request.key);
    if (!context.options.print_version) line.Bytes("value", request.value);
    out.WriteLine(line.Number("version", request.version).ToString());
  } else if (context.options.print_version) {
    out.WriteLine(absl::StrCat(request.version));
  } else {
    out.Write(request.value);
    // Exact bytes for files and pipes. A person, or who reads the answers of a session, must see where one ends.
    if (out.is_terminal() || context.mode != Mode::kOneShot) out.Write("\n");
  }
}

}  // namespace

ExitCode RunGet(Context& context) {
  if (context.operands.size() > 1 && !context.options.json && !context.options.print_version) {
    return context.Fail(ExitCode::kUsage, "several values in a row could not be told apart: give one key, or --json");
  }
  return ForEachKey(context, [&](std::string key) {
    Request request = MakeRequest(context, Type::kGet, std::move(key));
    context.store->Run(&request);
    if (!request.status.ok()) return context.Fail(request);
    PrintValue(context, request);
    return ExitCode::kOk;
  });
}

ExitCode RunExists(Context& context) {
  return ForEachKey(context, [&](std::string key) {
    Request request = MakeRequest(context, Type::kExists, std::move(key));
    context.store->Run(&request);
    const bool exists = request.status.ok();
    if (!exists && request.status.code() != absl::StatusCode::kNotFound) return context.Fail(request);
    if (context.options.json) {
      context.console.out().WriteLine(JsonLine().Bytes("key", request.key).Bool("exists", exists).ToString());
    } else {
      context.console.out().WriteLine(exists ? "true" : "false");
    }
    return ExitCodeOf(request.status);
  });
}

ExitCode RunDelete(Context& context) {
  return ForEachKey(context, [&](std::string key) {
    Request request = MakeRequest(context, Type::kDelete, std::move(key));
    context.store->Run(&request);
    if (!request.status.ok()) return context.Fail(request);
    if (context.options.json) {
      context.console.out().WriteLine(JsonLine().Bytes("key", request.key).Bool("deleted", true).ToString());
    } else if (context.mode == Mode::kInteractive) {
      context.console.out().WriteLine("deleted");
    }
    return ExitCode::kOk;
  });
}

ExitCode RunPut(Context& context) { return Write(context, Type::kPut, 1, 0); }
ExitCode RunInsert(Context& context) { return Write(context, Type::kInsert, 1, 0); }
ExitCode RunReplace(Context& context) { return Write(context, Type::kReplace, 1, 0); }

ExitCode RunCompareAndSet(Context& context) {
  uint64_t version;
  if (!absl::SimpleAtoi(context.operands[1].text, &version) || version == 0) {
    return context.Fail(
        ExitCode::kUsage,
        absl::StrCat(Quoted(context.operands[1].text),
                     " is no version: `get --print_version KEY` prints one; insert stores what does not exist"));
  }
  return Write(context, Type::kCompareAndSet, 2, version);
}

}  // namespace farlook::cli
