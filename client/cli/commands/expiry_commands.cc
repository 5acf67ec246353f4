// touch, persist, ttl, gettouch: the expiry of items.
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/json_line.h"
#include "client/cli/input/options.h"
#include "client/cli/terminal/output.h"
#include "farlook/async.h"

namespace farlook::cli {
namespace {

// Sets `*key` to the first operand. On an error prints it, stores the exit code and returns false.
bool TakeKey(const Context& context, std::string* key, ExitCode* code) {
  absl::StatusOr<std::string> decoded = DecodeKey(context.operands[0].text, context.options.key_encoding);
  if (decoded.ok()) {
    *key = *std::move(decoded);
    return true;
  }
  *code = context.Fail(ExitCode::kUsage,
                       absl::StrCat("key ", Quoted(context.operands[0].text), ": ", decoded.status().message()));
  return false;
}

// The same, and the second operand as a time.
bool TakeKeyAndTtl(const Context& context, std::string* key, int64_t* ttl_ms, ExitCode* code) {
  if (!TakeKey(context, key, code)) return false;
  const absl::StatusOr<int64_t> parsed = ParseTtl(context.operands[1].text);
  if (!parsed.ok()) {
    *code = context.Fail(ExitCode::kUsage, parsed.status().message());
    return false;
  }
  *ttl_ms = *parsed;
  return true;
}

ExitCode PrintTouched(const Context& context, const AsyncOperation& operation, absl::string_view text) {
  if (!operation.status().ok()) return context.Fail(operation, Action::kWrite);
  Output& out = context.console.out();
  if (context.options.json) {
    out.WriteLine(JsonLine().Bytes("key", operation.key()).Number("version", operation.version()).ToString());
  } else if (context.mode == Mode::kInteractive) {
    out.WriteLine(text);
  }
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunTouch(Context& context) {
  std::string key;
  int64_t ttl_ms = 0;
  ExitCode code = ExitCode::kOk;
  if (!TakeKeyAndTtl(context, &key, &ttl_ms, &code)) return code;
  TouchOperation touch(key, ttl_ms, {.timeout_ms = context.options.timeout_ms});
  context.store->Run(&touch);
  return PrintTouched(context, touch, "touched");
}

ExitCode RunPersist(Context& context) {
  std::string key;
  ExitCode code = ExitCode::kOk;
  if (!TakeKey(context, &key, &code)) return code;
  PersistOperation persist(key, {.timeout_ms = context.options.timeout_ms});
  context.store->Run(&persist);
  return PrintTouched(context, persist, "never expires");
}

ExitCode RunTtl(Context& context) {
  std::string key;
  ExitCode code = ExitCode::kOk;
  if (!TakeKey(context, &key, &code)) return code;
  TtlOperation ttl(key, {.timeout_ms = context.options.timeout_ms});
  context.store->Run(&ttl);
  if (!ttl.status().ok()) return context.Fail(ttl, Action::kRead);
  const bool never = ttl.left_ms() == kForever;
  Output& out = context.console.out();
  if (context.options.json) {
    JsonLine line;
    line.Bytes("key", ttl.key()).Bool("expires", !never);
    if (!never) line.Number("left_ms", static_cast<uint64_t>(ttl.left_ms()));
    out.WriteLine(line.Number("version", ttl.version()).ToString());
  } else {
    out.WriteLine(never ? "never" : absl::StrCat(ttl.left_ms(), "ms"));
  }
  return ExitCode::kOk;
}

ExitCode RunGetAndTouch(Context& context) {
  std::string key;
  int64_t ttl_ms = 0;
  ExitCode code = ExitCode::kOk;
  if (!TakeKeyAndTtl(context, &key, &ttl_ms, &code)) return code;
  GetAndTouchOperation get(key, ttl_ms, {.timeout_ms = context.options.timeout_ms});
  context.store->Run(&get);
  if (!get.status().ok()) return context.Fail(get, Action::kWrite);
  if (context.options.json) {
    context.console.out().WriteLine(
        JsonLine().Bytes("key", get.key()).Bytes("value", get.value()).Number("version", get.version()).ToString());
  } else {
    context.PrintValue(get.value());
  }
  return ExitCode::kOk;
}

}  // namespace farlook::cli
