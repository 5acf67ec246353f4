// Errors of the C library: a code, and a text that each thread keeps for farlook_error().
#ifndef FARLOOK_CLIENT_C_ERROR_H_
#define FARLOOK_CLIENT_C_ERROR_H_

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::c {

// Returns the code in C for a status: the same number, negated. Tested for each code by tests/c.
inline int CodeOf(const absl::Status& status) { return -static_cast<int>(status.code()); }

// Keeps `status`, which is not OK, for this thread's farlook_error(); returns its code. If there is no memory, keeps
// only the code.
int Fail(absl::Status status) noexcept;
// The same for lack of memory.
int FailForMemory() noexcept;
// May also be called outside of Guarded(): without memory for the text it is FailForMemory().
int Fail(absl::StatusCode code, absl::string_view what) noexcept;
inline int Invalid(absl::string_view what) noexcept { return Fail(absl::StatusCode::kInvalidArgument, what); }

// Returns the code of a call's status.
inline int Ended(absl::Status status) { return status.ok() ? 0 : Fail(std::move(status)); }

// Runs the body of a function of the interface. No exception leaves it: std::bad_alloc becomes
// FARLOOK_RESOURCE_EXHAUSTED. Any other, which is a defect of the library, becomes FARLOOK_INTERNAL.
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

// The same for a function that returns no code: `otherwise` if an exception was thrown.
template <typename T, typename F>
T GuardedOr(T otherwise, F f) noexcept {
  T result = otherwise;
  Guarded([&] {
    result = f();
    return 0;
  });
  return result;
}

}  // namespace farlook::c

#endif  // FARLOOK_CLIENT_C_ERROR_H_
