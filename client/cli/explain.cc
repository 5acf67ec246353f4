#include "client/cli/explain.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/encoding.h"

namespace farlook::cli {
namespace {

using Code = absl::StatusCode;

bool IsCounter(Action action) { return action == Action::kReadCounter || action == Action::kChangeCounter; }

std::string NotFound(const std::string& key, Action action) {
  switch (action) {
    case Action::kReadCounter:
    case Action::kChangeCounter:
      return absl::StrCat("no such counter ", key);
    case Action::kReplace:
      return absl::StrCat("no such key ", key, ": nothing was stored; insert or put would");
    case Action::kCompareAndSet:
      return absl::StrCat("no such key ", key, ": nothing was stored; insert stores what does not exist");
    default:
      return absl::StrCat("no such key ", key);
  }
}

// What a write that got no answer leaves open.
absl::string_view WhatBecameOfTheWrite(Action action) {
  if (action == Action::kRead || action == Action::kReadCounter) return "";
  if (IsCounter(action)) {
    return "; the change may have been done, or may still be, once: `counter KEY` prints the value";
  }
  return "; the write may have been done, or may still be, once: get the key to see";
}

}  // namespace

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return ExitCode::kConditionFailed;
    case absl::StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    default:
      return ExitCode::kError;
  }
}

std::string Explain(const AsyncOperation& operation, Action action, const Options& options) {
  const std::string key = Quoted(operation.key());
  const absl::Status& status = operation.status();
  const std::string cause = status.message().empty() ? "" : absl::StrCat(" (", status.message(), ")");
  switch (status.code()) {
    case Code::kNotFound:
      return NotFound(key, action);
    case Code::kAlreadyExists:
      if (IsCounter(action)) return absl::StrCat("counter ", key, " exists already: left as it is");
      return absl::StrCat("key ", key, " exists already: left as it is; put or replace would overwrite it");
    case Code::kAborted:
      return absl::StrCat("key ", key, " has another version",
                          operation.version() == 0 ? "" : absl::StrCat(" now, ", operation.version()),
                          ": left as it is; get it again and decide anew");
    case Code::kDeadlineExceeded:
      return absl::StrCat("key ", key, ": ", Explain(status, options), WhatBecameOfTheWrite(action));
    case Code::kUnknown:
      return absl::StrCat("key ", key, ": the connection broke before the answer came", cause,
                          WhatBecameOfTheWrite(action));
    case Code::kInvalidArgument:
      return absl::StrCat("key ", key, ": ", status.message().empty() ? "key or value is too long" : status.message());
    case Code::kOutOfRange:
      return absl::StrCat("counter ", key, ": ", status.message());
    case Code::kFailedPrecondition:
      if (IsCounter(action)) return absl::StrCat("key ", key, " names a value, not a counter");
      return absl::StrCat("key ", key, " names a counter, not a value", cause);
    case Code::kResourceExhausted:
      return absl::StrCat("key ", key, " was not stored: ", Explain(status, options));
    default:
      return absl::StrCat("key ", key, ": ", Explain(status, options));
  }
}

std::string Explain(const absl::Status& status, const Options& options) {
  const std::string cause = status.message().empty() ? "" : absl::StrCat(" (", status.message(), ")");
  switch (status.code()) {
    case Code::kUnavailable:
      return absl::StrCat("no server answers at ", options.address,
                          ": start it with kv_server --listen=", options.address, ", or give another --address", cause);
    case Code::kDeadlineExceeded:
      return absl::StrCat("no answer within ", options.timeout_ms,
                          " ms: the server is stopped, overloaded or out of reach; --timeout_ms=N waits longer", cause);
    case Code::kResourceExhausted:
      // Else it is this process that lacks something, and the message says what.
      if (!status.message().empty() && !absl::StartsWith(status.message(), "the server")) {
        return std::string(status.message());
      }
      return absl::StrCat("the server's memory is full: delete keys, or start kv_server with more --memory", cause);
    case Code::kPermissionDenied:
      if (options.read_only) return absl::StrCat("not with --read_only: leave it out to write", cause);
      return absl::StrCat("the server at ", options.address, " does not allow this", cause);
    case Code::kInvalidArgument:
    case Code::kUnimplemented:
      return std::string(status.message());
    case Code::kCancelled:
      return "interrupted";
    default:
      return status.ToString();
  }
}

}  // namespace farlook::cli
