#include "client/cli/terminal/explain.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/encoding.h"

namespace farlook::cli {
namespace {

using Code = absl::StatusCode;

bool IsCounter(Action action) { return action == Action::kReadCounter || action == Action::kChangeCounter; }
bool IsWrite(Action action) { return action != Action::kRead && action != Action::kReadCounter; }

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

// Returns what is unknown about a write without a reply.
absl::string_view WhatBecameOfTheWrite(Action action) {
  if (!IsWrite(action)) return "";
  if (IsCounter(action)) {
    return "; the change may have been done, or may still be, once: `counter KEY` prints the value";
  }
  return "; the write may have been done, or may still be, once: get the key to see";
}

// Returns the message without the words that Client::Connect puts before the server's or transport's text.
absl::string_view CauseOf(const absl::Status& status) {
  absl::string_view text = status.message();
  if (absl::StartsWith(text, "cannot connect to ")) {
    if (const size_t end = text.find(": "); end != absl::string_view::npos) text.remove_prefix(end + 2);
  }
  return text;
}

std::string InParentheses(absl::string_view cause) { return cause.empty() ? "" : absl::StrCat(" (", cause, ")"); }

// The server did not begin the operation in time: nothing is unknown.
bool WasNotBegun(const absl::Status& status) { return absl::StrContains(status.message(), "nothing was done"); }

std::string Unavailable(absl::string_view cause, const Options& options) {
  if (absl::StrContains(cause, "shutting down")) {
    return absl::StrCat("the server at ", options.address,
                        " is shutting down, and nothing was done: try again later, or wait for it with --wait");
  }
  if (absl::StrContains(cause, "is starting")) return absl::StrCat(cause, "; try again, or wait for it with --wait");
  // A server may be running there: starting another does not help.
  if (absl::StrContains(cause, "stopped or overloaded")) {
    return absl::StrCat("the server at ", options.address,
                        " does not answer: it is stopped or overloaded; let it go on, or wait for it with --wait");
  }
  // Starting a server does not help: this host does not know the name.
  if (absl::StrContains(cause, "does not resolve")) {
    return absl::StrCat(options.address, " cannot be reached: ", cause);
  }
  const bool has_no_details = absl::StrContains(cause, "within the time given");
  if (has_no_details || absl::StrContains(cause, " in time (")) {
    return absl::StrCat("no server answers at ", options.address,
                        " in time: it is stopped, overloaded, out of reach or not there; --wait waits for it",
                        InParentheses(has_no_details ? "" : cause));
  }
  // No server could listen there either.
  if (absl::StrContains(cause, "Not a directory")) {
    return absl::StrCat("no server can be at ", options.address,
                        ": a part of the path is a file; give another --address", InParentheses(cause));
  }
  if (absl::StartsWith(options.address, "farlook://")) {
    return absl::StrCat("the cluster ", options.address, " cannot be used: ", cause,
                        "; see that a server of each group runs, or give another --address");
  }
  return absl::StrCat("no server answers at ", options.address, ": start it with kv_server --listen=", options.address,
                      ", or give another --address", InParentheses(cause));
}

std::string Exhausted(absl::string_view cause, const Options& options) {
  if (cause.empty()) return "the server's memory is full: delete keys, or start kv_server with more --memory";
  // It refuses clients: the cause says which limit that is.
  const bool of_clients = absl::StrContains(cause, "--max_clients");
  if (of_clients || absl::StrContains(cause, "--max_kept_sessions")) {
    return absl::StrCat(
        "the server at ", options.address, " is full: ", cause, "; --wait waits for room",
        of_clients ? "; run kv_cli clients on its host, as root or the server's user, to list them" : "");
  }
  return std::string(cause);  // the text says what is short, of the server or of this process, and what helps
}

std::string NotAllowed(absl::string_view cause, bool of_connection, const Options& options) {
  // Without the right to connect, the right to write does not matter.
  if (options.read_only && !of_connection) {
    return absl::StrCat("--read_only forbids writes: omit it to write", InParentheses(cause));
  }
  return absl::StrCat("the server at ", options.address, " does not allow this: ask its operator",
                      InParentheses(cause));
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
  switch (status.code()) {
    case Code::kNotFound:
      return NotFound(key, action);
    case Code::kAlreadyExists:
      if (IsCounter(action)) return absl::StrCat("counter ", key, " exists already: left as it is");
      return absl::StrCat("key ", key, " exists already: left as it is; put or replace would overwrite it");
    case Code::kAborted:
      return absl::StrCat("key ", key, " has another version",
                          operation.version() == 0 ? "" : absl::StrCat(" now, ", operation.version()),
                          ": left as it is; get it again and retry with its new version");
    case Code::kDeadlineExceeded:
      return absl::StrCat("key ", key, ": ", Explain(status, options),
                          WasNotBegun(status) ? "" : WhatBecameOfTheWrite(action));
    case Code::kUnknown:
      return absl::StrCat("key ", key, ": the connection broke before the answer came", InParentheses(status.message()),
                          WhatBecameOfTheWrite(action));
    case Code::kInvalidArgument:
      return absl::StrCat("key ", key, ": ", status.message().empty() ? "key or value is too long" : status.message());
    case Code::kOutOfRange:
      return absl::StrCat("counter ", key, ": ", status.message());
    case Code::kFailedPrecondition:
      // With another message, the connection was replaced by an unusable one, for the reason in the message.
      if (!status.message().empty() && !absl::StartsWith(status.message(), "the key names")) {
        return absl::StrCat("key ", key, ": ", Explain(status, options));
      }
      if (IsCounter(action)) return absl::StrCat("key ", key, " names a value, not a counter: get prints it");
      return absl::StrCat("key ", key, " names a counter, not a value: `counter KEY` prints it");
    case Code::kResourceExhausted:
      return absl::StrCat("key ", key, IsWrite(action) ? " was not stored: " : ": ", Explain(status, options));
    default:
      return absl::StrCat("key ", key, ": ", Explain(status, options));
  }
}

std::string Explain(const absl::Status& status, const Options& options) {
  const absl::string_view cause = CauseOf(status);
  switch (status.code()) {
    case Code::kUnavailable:
      return Unavailable(cause, options);
    case Code::kDeadlineExceeded:
      if (WasNotBegun(status)) {
        return absl::StrCat("the server came to it after its time of ", options.timeout_ms,
                            " ms, and did nothing: it is overloaded; --timeout_ms=N waits longer");
      }
      return absl::StrCat("no answer within ", options.timeout_ms,
                          " ms: the server is stopped, overloaded or out of reach; --timeout_ms=N waits longer",
                          InParentheses(cause));
    case Code::kResourceExhausted:
      return Exhausted(cause, options);
    case Code::kPermissionDenied:
      return NotAllowed(cause, cause.size() != status.message().size() || absl::StrContains(cause, "connect to "),
                        options);
    case Code::kCancelled:
      return "interrupted";
    case Code::kNotFound:            // says what there is
    case Code::kInvalidArgument:     // says what is wrong with the call
    case Code::kFailedPrecondition:  // of a server of another release, of a device: says what to do
    case Code::kUnauthenticated:     // says which side has not proved its identity
    case Code::kUnimplemented:       // of a server of an earlier release: says what to do
    case Code::kDataLoss:            // says that nothing was written, and to try again
      return std::string(cause);
    default:
      return status.ToString();
  }
}

}  // namespace farlook::cli
