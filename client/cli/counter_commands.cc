#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/encoding.h"
#include "client/cli/json_line.h"

namespace farlook::cli {
namespace {

using Type = Request::Type;

// The request for the key that is the first operand; says what is wrong with it otherwise.
std::optional<Request> MakeRequest(const Context& context, Type type) {
  const std::string& text = context.operands[0].text;
  absl::StatusOr<std::string> key = DecodeKey(text, context.options.key_encoding);
  if (!key.ok()) {
    context.Fail(ExitCode::kUsage, absl::StrCat("key ", Quoted(text), ": ", key.status().message()));
    return std::nullopt;
  }
  Request request;
  request.type = type;
  request.key = *std::move(key);
  request.timeout_ms = context.options.timeout_ms;
  return request;
}

// The number that the operand at `position` is, or `otherwise` if there is none; says so if it is no number.
std::optional<int64_t> NumberAt(const Context& context, size_t position, int64_t otherwise) {
  if (context.operands.size() <= position) return otherwise;
  int64_t number;
  const std::string& text = context.operands[position].text;
  if (absl::SimpleAtoi(text, &number)) return number;
  context.Fail(ExitCode::kUsage, absl::StrCat(Quoted(text), " is no number"));
  return std::nullopt;
}

void PrintValue(const Context& context, const Request& request, int64_t value) {
  Output& out = context.console.out();
  if (context.options.json) {
    JsonLine line;
    out.WriteLine(line.Bytes("key", request.key).NumberOrBytes("counter", absl::StrCat(value)).ToString());
  } else {
    out.WriteLine(absl::StrCat(value));
  }
}

ExitCode Add(Context& context, int64_t sign) {
  const std::optional<int64_t> delta = NumberAt(context, 1, 1);
  if (!delta.has_value()) return ExitCode::kUsage;
  if (*delta == std::numeric_limits<int64_t>::min()) return context.Fail(ExitCode::kUsage, "at most 2^40 at once");
  std::optional<Request> request = MakeRequest(context, Type::kFetchAdd);
  if (!request.has_value()) return ExitCode::kUsage;
  request->operand = sign * *delta;
  context.store->Run(&*request);
  if (!request->status.ok()) return context.Fail(*request);
  PrintValue(context, *request, request->counter + request->operand);
  return ExitCode::kOk;
}

ExitCode Read(Context& context, Request& request) {
  context.store->Run(&request);
  if (!request.status.ok()) return context.Fail(request);
  PrintValue(context, request, request.counter);
  return ExitCode::kOk;
}

ExitCode Create(Context& context, Request& request) {
  const std::optional<int64_t> initial = NumberAt(context, 2, 0);
  if (!initial.has_value()) return ExitCode::kUsage;
  request.type = Type::kCreateCounter;
  request.operand = *initial;
  context.store->Run(&request);
  return request.status.ok() ? ExitCode::kOk : context.Fail(request);
}

ExitCode Swap(Context& context, Request& request) {
  const std::optional<int64_t> expected = NumberAt(context, 2, 0), desired = NumberAt(context, 3, 0);
  if (!expected.has_value() || !desired.has_value()) return ExitCode::kUsage;
  request.type = Type::kCompareSwap;
  request.expected = *expected;
  request.operand = *desired;
  context.store->Run(&request);
  if (!request.status.ok()) return context.Fail(request);
  if (request.counter != *expected) {
    return context.Fail(ExitCode::kConditionFailed,
                        absl::StrCat("counter ", Quoted(request.key), " is ", request.counter, ": left as it is"));
  }
  return ExitCode::kOk;
}

ExitCode Delete(Context& context, Request& request) {
  request.type = Type::kDeleteCounter;
  context.store->Run(&request);
  return request.status.ok() ? ExitCode::kOk : context.Fail(request);
}

}  // namespace

ExitCode RunIncrement(Context& context) { return Add(context, 1); }
ExitCode RunDecrement(Context& context) { return Add(context, -1); }

ExitCode RunCounter(Context& context) {
  std::optional<Request> request = MakeRequest(context, Type::kReadCounter);
  if (!request.has_value()) return ExitCode::kUsage;
  const size_t operands = context.operands.size();
  if (operands == 1) return Read(context, *request);
  const std::string& what = context.operands[1].text;
  if (what == "create" && operands <= 3) return Create(context, *request);
  if (what == "swap" && operands == 4) return Swap(context, *request);
  if (what == "delete" && operands == 2) return Delete(context, *request);
  return context.Fail(ExitCode::kUsage,
                      "say counter KEY, counter KEY create [INITIAL], counter KEY swap EXPECTED "
                      "DESIRED, or counter KEY delete");
}

}  // namespace farlook::cli
