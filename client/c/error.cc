#include "client/c/error.h"

#include <pthread.h>

#include <new>
#include <string>
#include <utility>

#include "farlook.h"

namespace farlook::c {
namespace {

// The last error of a thread, and the text that farlook_error() returned.
struct Kept {
  absl::Status status;
  std::string message;
};

// No destructor and, by its TLS model, no memory that glibc allocates at its first use. If glibc found no memory for
// either, it would end the process.
struct LastError {
  int code = FARLOOK_OK;  // used if there is no memory for `kept`
  Kept* kept = nullptr;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local LastError last_error;

// Frees a thread's data when the thread ends.
class ThreadEnd {
 public:
  ThreadEnd() : has_key_(pthread_key_create(&key_, Free) == 0) {}
  ~ThreadEnd() {
    if (std::exchange(has_key_, false)) pthread_key_delete(key_);
  }
  ThreadEnd(const ThreadEnd&) = delete;
  ThreadEnd& operator=(const ThreadEnd&) = delete;

  // Returns null if there is no memory.
  Kept* Make() {
    if (!has_key_) return nullptr;
    Kept* const kept = new (std::nothrow) Kept;
    if (kept == nullptr || pthread_setspecific(key_, kept) == 0) return kept;
    delete kept;
    return nullptr;
  }

 private:
  static void Free(void* kept) {
    last_error = {};
    delete static_cast<Kept*>(kept);
  }

  pthread_key_t key_;
  bool has_key_;
};
ThreadEnd thread_end;

// Programs that were built against farlook.h contain its numbers.
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

int Fail(absl::Status status) noexcept {
  LastError& last = last_error;
  last.code = CodeOf(status);
  if (last.kept == nullptr) last.kept = thread_end.Make();
  if (last.kept != nullptr) last.kept->status = std::move(status);
  return last.code;
}

// A status without a message is one word: making it allocates nothing.
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
  const farlook::c::LastError& last = farlook::c::last_error;
  if (last.code == FARLOOK_OK) return "";
  if (last.kept == nullptr || last.kept->status.message().empty()) {
    return last.code == FARLOOK_RESOURCE_EXHAUSTED ? "this process has no memory for it" : farlook_code_name(last.code);
  }
  try {
    last.kept->message = std::string(last.kept->status.message());
  } catch (const std::bad_alloc&) {
    return farlook_code_name(last.code);
  }
  return last.kept->message.c_str();
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
