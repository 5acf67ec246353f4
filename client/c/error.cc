#include "client/c/error.h"

#include <new>
#include <string>
#include <utility>

#include "farlook.h"

namespace farlook::c {
namespace {

thread_local absl::Status last_error;
// What farlook_error() returned.
thread_local std::string last_text;

// Programs that were built against farlook.h have its numbers in them.
#define FARLOOK_SAME(c_name, absl_name) \
  static_assert(FARLOOK_##c_name == -static_cast<int>(absl::StatusCode::absl_name))
FARLOOK_SAME(OK, kOk);
FARLOOK_SAME(CANCELLED, kCancelled);
FARLOOK_SAME(UNKNOWN, kUnknown);
FARLOOK_SAME(INVALID_ARGUMENT, kInvalidArgument);
FARLOOK_SAME(DEADLINE_EXCEEDED, kDeadlineExceeded);
FARLOOK_SAME(NOT_FOUND, kNotFound);
FARLOOK_SAME(ALREADY_EXISTS, kAlreadyExists);
FARLOOK_SAME(PERMISSION_DENIED, kPermissionDenied);
FARLOOK_SAME(RESOURCE_EXHAUSTED, kResourceExhausted);
FARLOOK_SAME(FAILED_PRECONDITION, kFailedPrecondition);
FARLOOK_SAME(ABORTED, kAborted);
FARLOOK_SAME(OUT_OF_RANGE, kOutOfRange);
FARLOOK_SAME(INTERNAL, kInternal);
FARLOOK_SAME(UNAVAILABLE, kUnavailable);
FARLOOK_SAME(DATA_LOSS, kDataLoss);
FARLOOK_SAME(UNAUTHENTICATED, kUnauthenticated);
#undef FARLOOK_SAME

}  // namespace

int Fail(absl::Status status) {
  last_error = std::move(status);
  return CodeOf(last_error);
}

// A status without a message is one word, and allocates nothing.
int FailForMemory() noexcept { return Fail(absl::Status(absl::StatusCode::kResourceExhausted, absl::string_view())); }

int Fail(absl::StatusCode code, absl::string_view what) noexcept {
  try {
    return Fail(absl::Status(code, what));
  } catch (const std::bad_alloc&) {
    return FailForMemory();
  }
}

}  // namespace farlook::c

extern "C" {

const char* farlook_version(void) { return FARLOOK_VERSION; }

const char* farlook_error(void) {
  using farlook::c::last_error;
  using farlook::c::last_text;
  if (last_error.ok()) return "";
  if (last_error.message().empty()) return "this process has no memory for it";
  try {
    last_text = std::string(last_error.message());
  } catch (const std::bad_alloc&) {
    return farlook_code_name(farlook::c::CodeOf(last_error));
  }
  return last_text.c_str();
}

const char* farlook_code_name(int code) {
  switch (code) {
    case FARLOOK_OK:
      return "OK";
    case FARLOOK_CANCELLED:
      return "CANCELLED";
    case FARLOOK_UNKNOWN:
      return "UNKNOWN";
    case FARLOOK_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case FARLOOK_DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case FARLOOK_NOT_FOUND:
      return "NOT_FOUND";
    case FARLOOK_ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case FARLOOK_PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case FARLOOK_RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case FARLOOK_FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case FARLOOK_ABORTED:
      return "ABORTED";
    case FARLOOK_OUT_OF_RANGE:
      return "OUT_OF_RANGE";
    case FARLOOK_INTERNAL:
      return "INTERNAL";
    case FARLOOK_UNAVAILABLE:
      return "UNAVAILABLE";
    case FARLOOK_DATA_LOSS:
      return "DATA_LOSS";
    case FARLOOK_UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    default:
      return "?";
  }
}

}  // extern "C"
