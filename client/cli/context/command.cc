#include "client/cli/context/command.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/input/json_line.h"
#include "client/cli/terminal/explain.h"

namespace farlook::cli {
namespace {

// Returns the name used in JSON: "not_found".
std::string NameOf(const absl::Status& status) {
  return absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
}
absl::string_view NameOf(ExitCode code) {
  switch (code) {
    case ExitCode::kOk:
      return "ok";
    case ExitCode::kNotFound:
      return "not_found";
    case ExitCode::kConditionFailed:
      return "aborted";
    case ExitCode::kUsage:
      return "invalid_argument";
    case ExitCode::kInterrupted:
      return "cancelled";
    default:
      return "failed";
  }
}

}  // namespace

void AnswerUsageError(Console& console, absl::string_view message) {
  console.out().WriteLine(JsonLine().Bytes("error", NameOf(ExitCode::kUsage)).Bytes("message", message).ToString());
  (void)console.out().Flush().ok();  // the caller sees the error again
}

ExitCode Context::Fail(ExitCode code, absl::string_view message) const {
  Answer(NameOf(code), message, /*key=*/std::nullopt);
  console.Error(absl::StrCat(command, ": ", message));
  return code;
}

void Context::Answer(absl::string_view error, absl::string_view message, std::optional<absl::string_view> key) const {
  // The standard output of these commands is data, or a summary.
  if (!options.json || command == "import" || command == "export") return;
  JsonLine line;
  if (key.has_value()) line.Bytes("key", *key);
  console.out().WriteLine(line.Bytes("error", error).Bytes("message", message).ToString());
}

ExitCode Context::Fail(const AsyncOperation& operation, Action action) const {
  NoteStatus(operation.status());
  const std::string message = Explain(operation, action, options);
  Answer(NameOf(operation.status()), message, operation.key());
  console.Error(absl::StrCat(command, ": ", message));
  return ExitCodeOf(operation.status());
}

ExitCode Context::Fail(const absl::Status& status) const {
  NoteStatus(status);
  const std::string message = Explain(status, options);
  Answer(NameOf(status), message, /*key=*/std::nullopt);
  console.Error(absl::StrCat(command, ": ", message));
  return ExitCodeOf(status);
}

absl::StatusOr<std::vector<std::string>> Context::GroupNames() const {
  if (!options.group.empty()) return std::vector<std::string>{options.group};
  const absl::StatusOr<std::vector<ClusterGroup>> groups = store->Groups(At(""));
  if (!groups.ok()) return groups.status();
  std::vector<std::string> names;
  for (const ClusterGroup& group : *groups) names.push_back(group.name);
  if (names.empty()) names.emplace_back();
  return names;
}

std::variant<std::string, ExitCode> Context::OneGroup() const {
  const absl::StatusOr<std::vector<std::string>> groups = GroupNames();
  if (!groups.ok()) return Fail(groups.status());
  if (groups->size() == 1) return groups->front();
  return Fail(ExitCode::kUsage,
              absl::StrCat("name a group of the cluster: --group=", absl::StrJoin(*groups, ", or --group=")));
}

void Context::PrintValue(absl::string_view value) const {
  Output& out = console.out();
  out.Write(out.is_terminal() && !options.raw ? Printable(value) : std::string(value));
  if (out.is_terminal() || mode != Mode::kOneShot) out.Write("\n");
}

void Context::NoteStatus(const absl::Status& status) const {
  if (status.code() == absl::StatusCode::kUnavailable && server_gone != nullptr) *server_gone = true;
}

}  // namespace farlook::cli
