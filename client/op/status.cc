#include "client/op/status.h"

#include "absl/strings/str_cat.h"

namespace farlook::client {

absl::Status StatusOf(kv::Code code) {
  switch (code) {
    case kv::Code::kOk:
      return absl::OkStatus();
    case kv::Code::kNotFound:
      return absl::NotFoundError(kAbsent);
    case kv::Code::kExists:
      return absl::AlreadyExistsError(
          "the key is present, and was left as it is; a put without this condition overwrites it");
    case kv::Code::kVersionMismatch:
      return absl::AbortedError(
          "the key has another version, and was left as it is; Get it again and retry with its new version");
    case kv::Code::kNoMemory:
      return absl::ResourceExhaustedError(
          "the server's memory is full; delete keys, or start kv_server with more --memory");
    case kv::Code::kIndexFull:
      return absl::ResourceExhaustedError(
          "the server's index is full for keys whose hashes collide with this one's; use another key");
    case kv::Code::kTooLarge:
      return absl::InvalidArgumentError("the value is longer than the server's limit, its --max_value_bytes");
    case kv::Code::kReadOnly:
      return absl::PermissionDeniedError(
          "this client may only read: it connected with read_only, or its user lacks the role write");
    case kv::Code::kBadValue:
      return absl::DataLossError(
          "the server could not read the value from the client intact; nothing was written: try again");
    case kv::Code::kOutcomeUnknown:
      return absl::UnknownError(
          "the server no longer knows whether it executed this request; read the key to find out");
    case kv::Code::kWrongKind:
      return absl::FailedPreconditionError("the key names a counter; use the calls for counters, or another key");
    case kv::Code::kShuttingDown:
      return absl::UnavailableError("the server is shutting down; nothing was done: try again later");
    case kv::Code::kOutOfRange:
      return absl::OutOfRangeError("the counter is out of its range");
    case kv::Code::kExpired:
      return absl::DeadlineExceededError("its deadline passed before the server began it: nothing was done");
    case kv::Code::kUnsupported:
      return absl::UnimplementedError("the server does not support this request: nothing was done; upgrade the server");
    case kv::Code::kNotAllowed:
      return absl::PermissionDeniedError("this needs the role admin, which the client's user lacks");
    case kv::Code::kMoved:
      return absl::FailedPreconditionError("another group of the cluster has this key: nothing was done");
    case kv::Code::kLater:
    case kv::Code::kBusy:
    case kv::Code::kTimeIsOver:
    case kv::Code::kMakingRoom:
      break;  // not in replies
  }
  return absl::InternalError("the server sent a code that this client does not know; use one of the same release");
}

absl::Status NoRoomFor(uint64_t value_bytes, uint64_t region_bytes) {
  if (value_bytes <= region_bytes / 16) return StatusOf(kv::Code::kNoMemory);
  return absl::ResourceExhaustedError(absl::StrCat(
      "the server has no room for a value of ", value_bytes, " bytes, which is more than a sixteenth of its ",
      region_bytes, " bytes of memory and must lie in one piece; start kv_server with --memory=", 16 * value_bytes,
      " or more, or put shorter values"));
}

absl::Status CounterStatusOf(kv::Code code) {
  switch (code) {
    case kv::Code::kNotFound:
      return absl::NotFoundError("there is no counter of this key; CreateCounter makes one");
    case kv::Code::kExists:
      return absl::AlreadyExistsError("there is a counter of this key already, and it was left as it is");
    case kv::Code::kNoMemory:
      return absl::ResourceExhaustedError(
          "the server has no memory for another counter; delete counters, or start kv_server with more "
          "--counter_memory");
    case kv::Code::kWrongKind:
      return absl::FailedPreconditionError("the key names a value, not a counter");
    default:
      return StatusOf(code);
  }
}

}  // namespace farlook::client
