#include "client/cli/command.h"

#include "absl/strings/str_cat.h"
#include "client/cli/explain.h"

namespace farlook::cli {

ExitCode Context::Fail(ExitCode code, absl::string_view message) const {
  console.Error(absl::StrCat(command, ": ", message));
  return code;
}

ExitCode Context::Fail(const AsyncOperation& operation, Action action) const {
  NoteStatus(operation.status());
  return Fail(ExitCodeOf(operation.status()), Explain(operation, action, options));
}

ExitCode Context::Fail(const absl::Status& status) const {
  NoteStatus(status);
  return Fail(ExitCodeOf(status), Explain(status, options));
}

void Context::NoteStatus(const absl::Status& status) const {
  if (status.code() == absl::StatusCode::kUnavailable && server_gone != nullptr) *server_gone = true;
}

}  // namespace farlook::cli
