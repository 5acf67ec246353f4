#include "client/cli/explain.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/encoding.h"

namespace farlook::cli {
namespace {

using Type = Request::Type;
using Code = absl::StatusCode;

bool IsWrite(Type type) { return type != Type::kGet && type != Type::kExists && type != Type::kReadCounter; }

std::string NotFound(const Request& request) {
  std::string missing = absl::StrCat("no such key ", Quoted(request.key));
  if (IsCounter(request.type)) return absl::StrCat("no such counter ", Quoted(request.key));
  switch (request.type) {
    case Type::kReplace:
      return absl::StrCat(missing, ": nothing was stored; insert or put would");
    case Type::kCompareAndSet:
      return absl::StrCat(missing, ": nothing was stored; insert stores what does not exist");
    default:
      return missing;
  }
}

// What a write that got no answer leaves open.
absl::string_view WhatBecameOfTheWrite(const Request& request) {
  if (!IsWrite(request.type)) return "";
  if (IsCounter(request.type)) {
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

std::string Explain(const Request& request, const Options& options) {
  const std::string key = Quoted(request.key);
  const absl::Status& status = request.status;
  const std::string cause = status.message().empty() ? "" : absl::StrCat(" (", status.message(), ")");
  switch (status.code()) {
    case Code::kNotFound:
      return NotFound(request);
    case Code::kAlreadyExists:
      if (IsCounter(request.type)) return absl::StrCat("counter ", key, " exists already: left as it is");
      return absl::StrCat("key ", key, " exists already: left as it is; put or replace would overwrite it");
    case Code::kAborted:
      return absl::StrCat("key ", key, " has another version",
                          request.version == 0 ? "" : absl::StrCat(" now, ", request.version),
                          ": left as it is; get it again and decide anew");
    case Code::kDeadlineExceeded:
      return absl::StrCat("key ", key, ": ", Explain(status, options), WhatBecameOfTheWrite(request));
    case Code::kUnknown:
      return absl::StrCat("key ", key, ": the connection broke before the answer came", cause,
                          WhatBecameOfTheWrite(request));
    case Code::kInvalidArgument:
      return absl::StrCat("key ", key, ": ", status.message().empty() ? "key or value is too long" : status.message());
    case Code::kOutOfRange:
      return absl::StrCat("counter ", key, ": ", status.message());
    case Code::kFailedPrecondition:
      if (IsCounter(request.type)) return absl::StrCat("key ", key, " names a value, not a counter");
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
