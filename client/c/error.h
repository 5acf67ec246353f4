// How the C library says what went wrong: a code, and a text that each thread keeps for farlook_error().
#ifndef FARLOOK_CLIENT_C_ERROR_H_
#define FARLOOK_CLIENT_C_ERROR_H_

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::c {

// The code that C has for a status: the same number, negative. tests/c says so of each.
inline int CodeOf(const absl::Status& status) { return -static_cast<int>(status.code()); }

// Keeps `status`, which is not OK, for this thread's farlook_error(); returns its code.
int Fail(absl::Status status);
// The same where there was no memory: it allocates nothing.
int FailForMemory() noexcept;
// Functions of the interface call these outside of Guarded(), too: without memory for the text they fail for that.
int Fail(absl::StatusCode code, absl::string_view what) noexcept;
inline int Invalid(absl::string_view what) noexcept { return Fail(absl::StatusCode::kInvalidArgument, what); }

// The code of how a call ended.
inline int Ended(absl::Status status) { return status.ok() ? 0 : Fail(std::move(status)); }

// Runs what a function of the interface does. No exception leaves it: that of memory becomes a code of its own, and any
// other, which would be a defect of the library's, FARLOOK_INTERNAL.
template <typename F>
int Guarded(F f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return FailForMemory();
  } catch (const std::exception& error) {
    return Fail(absl::StatusCode::kInternal, error.what());
  }
}

}  // namespace farlook::c

#endif  // FARLOOK_CLIENT_C_ERROR_H_
