#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/json_line.h"
#include "farlook/async.h"

namespace farlook::cli {
namespace {

// Returns the first operand as a key; prints an error if it is none.
std::optional<std::string> KeyOf(const Context& context) {
  const std::string& text = context.operands[0].text;
  absl::StatusOr<std::string> key = DecodeKey(text, context.options.key_encoding);
  if (key.ok()) return *std::move(key);
  context.Fail(ExitCode::kUsage, absl::StrCat("key ", Quoted(text), ": ", key.status().message()));
  return std::nullopt;
}

// A single command gains nothing from an atomic: a message is executed exactly once.
CounterOptions OptionsOf(const Context& context) {
  return {.exactly_once = true, .timeout_ms = context.options.timeout_ms};
}

// Returns the operand at `position` as a number, or `otherwise` if there is none; prints an error if it is no number.
std::optional<int64_t> NumberAt(const Context& context, size_t position, int64_t otherwise) {
  if (context.operands.size() <= position) return otherwise;
  int64_t number;
  const std::string& text = context.operands[position].text;
  if (absl::SimpleAtoi(text, &number)) return number;
  context.Fail(ExitCode::kUsage, absl::StrCat(Quoted(text), " is no number"));
  return std::nullopt;
}

void PrintValue(const Context& context, const std::string& key, int64_t value) {
  Output& out = context.console.out();
  if (context.options.json) {
    JsonLine line;
    out.WriteLine(line.Bytes("key", key).NumberOrBytes("counter", absl::StrCat(value)).ToString());
  } else {
    out.WriteLine(absl::StrCat(value));
  }
}

ExitCode Add(Context& context, int64_t sign) {
  const std::optional<int64_t> number = NumberAt(context, 1, 1);
  if (!number.has_value()) return ExitCode::kUsage;
  if (*number == std::numeric_limits<int64_t>::min()) return context.Fail(ExitCode::kUsage, "at most 2^40 at once");
  const std::optional<std::string> key = KeyOf(context);
  if (!key.has_value()) return ExitCode::kUsage;
  const int64_t delta = sign * *number;
  if (!context.options.create && (context.options.ttl_ms != 0 || context.options.initial != 0)) {
    return context.Fail(ExitCode::kUsage, "--ttl and --initial require --create");
  }
  CounterOptions options = OptionsOf(context);
  options.create = context.options.create;
  options.initial = context.options.initial;
  options.ttl_ms = context.options.ttl_ms;
  FetchAddOperation add(*key, delta, options);
  context.store->Run(&add);
  if (!add.status().ok()) return context.Fail(add, Action::kChangeCounter);
  PrintValue(context, *key, add.value() + delta);
  return ExitCode::kOk;
}

ExitCode Read(Context& context, const std::string& key) {
  ReadCounterOperation read(key, OptionsOf(context));
  context.store->Run(&read);
  if (!read.status().ok()) return context.Fail(read, Action::kReadCounter);
  PrintValue(context, key, read.value());
  return ExitCode::kOk;
}

ExitCode Create(Context& context, const std::string& key) {
  const std::optional<int64_t> initial = NumberAt(context, 2, 0);
  if (!initial.has_value()) return ExitCode::kUsage;
  CounterOptions options = OptionsOf(context);
  options.ttl_ms = context.options.ttl_ms;
  CreateCounterOperation create(key, *initial, options);
  context.store->Run(&create);
  return create.status().ok() ? ExitCode::kOk : context.Fail(create, Action::kChangeCounter);
}

ExitCode Swap(Context& context, const std::string& key) {
  const std::optional<int64_t> expected = NumberAt(context, 2, 0), desired = NumberAt(context, 3, 0);
  if (!expected.has_value() || !desired.has_value()) return ExitCode::kUsage;
  CompareSwapOperation swap(key, *expected, *desired, OptionsOf(context));
  context.store->Run(&swap);
  if (!swap.status().ok()) return context.Fail(swap, Action::kChangeCounter);
  if (swap.value() != *expected) {
    return context.Fail(ExitCode::kConditionFailed,
                        absl::StrCat("counter ", Quoted(key), " is ", swap.value(), ": left as it is"));
  }
  return ExitCode::kOk;
}

ExitCode Delete(Context& context, const std::string& key) {
  DeleteCounterOperation remove(key, OptionsOf(context));
  context.store->Run(&remove);
  return remove.status().ok() ? ExitCode::kOk : context.Fail(remove, Action::kChangeCounter);
}

}  // namespace

ExitCode RunIncrement(Context& context) { return Add(context, 1); }
ExitCode RunDecrement(Context& context) { return Add(context, -1); }

ExitCode RunCounter(Context& context) {
  const std::optional<std::string> key = KeyOf(context);
  if (!key.has_value()) return ExitCode::kUsage;
  const size_t operands = context.operands.size();
  if (operands == 1) return Read(context, *key);
  const std::string& what = context.operands[1].text;
  if (what == "create" && operands <= 3) return Create(context, *key);
  if (what == "swap" && operands == 4) return Swap(context, *key);
  if (what == "delete" && operands == 2) return Delete(context, *key);
  return context.Fail(ExitCode::kUsage,
                      "use counter KEY, counter KEY create [INITIAL], counter KEY swap EXPECTED "
                      "DESIRED, or counter KEY delete");
}

}  // namespace farlook::cli
