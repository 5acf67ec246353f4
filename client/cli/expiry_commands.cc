// touch, persist, ttl, gettouch: when items expire.
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/encoding.h"
#include "client/cli/json_line.h"
#include "client/cli/options.h"
#include "client/cli/output.h"
#include "farlook/async.h"

namespace farlook::cli {
namespace {

// The first operand as a key. If it is none, says so, stores the exit code and returns false.
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

ExitCode PrintTouched(const Context& context, const AsyncOperation& operation, absl::string_view said) {
  if (!operation.status().ok()) return context.Fail(operation, Action::kWrite);
  Output& out = context.console.out();
  if (context.options.json) {
    out.WriteLine(JsonLine().Bytes("key", operation.key()).Number("version", operation.version()).ToString());
  } else if (context.mode == Mode::kInteractive) {
    out.WriteLine(said);
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
  Output& out = context.console.out();
  if (context.options.json) {
    out.WriteLine(
        JsonLine().Bytes("key", get.key()).Bytes("value", get.value()).Number("version", get.version()).ToString());
    return ExitCode::kOk;
  }
  out.Write(get.value());
  // As get prints it.
  if (out.is_terminal() || context.mode != Mode::kOneShot) out.Write("\n");
  return ExitCode::kOk;
}

}  // namespace farlook::cli
