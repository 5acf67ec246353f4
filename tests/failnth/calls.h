// Makes one call of this process fail: the nth of its kind, counted over all threads.
//
// The calls are those that the product's objects make. The linker redirects them here (--wrap, see the BUILD file), so
// calls within the C library, gtest and the sanitizers are neither counted nor failed. Allocations are those of
// operator new, of everything.
//
// Thread safety: Expect() and Forget() while no other thread runs; the rest from any thread.
#ifndef FARLOOK_TESTS_FAILNTH_CALLS_H_
#define FARLOOK_TESTS_FAILNTH_CALLS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace farlook::failnth {

enum class Kind : uint8_t {
  kSystemCall,       // and the start of threads
  kLargeAllocation,  // of kLargeBytes and more
  kSmallAllocation,
  kVerbsCall,  // of libibverbs and librdmacm
};

// A failed allocation of this many bytes must not end the process. See "Allocation failure" in docs/design-notes.md.
inline constexpr size_t kLargeBytes = (32 << 10) + 1;

// The result, in memory that a parent process reads.
struct Report {
  std::atomic<uint64_t> calls;  // calls of the kind so far
  std::atomic<bool> failed;     // the nth came. What follows is about it:
  char name[40];
  int error;        // what errno was set to
  uint32_t errors;  // how many errors the call may return
  uintptr_t site;   // who called
  uint64_t bytes;   // of an allocation
  static constexpr size_t kPlaces = 4096;
  std::atomic<uintptr_t> places[kPlaces];  // callers of the first kPlaces calls, in order
};

// A call: the nth (from 1; 0: none) of its kind, or of the calls of one place of the program. It fails with one of the
// errors that it may return, chosen modulo their number.
struct Choice {
  Kind kind;
  uintptr_t place = 0;  // 0: any
  uint64_t nth = 0;
  uint32_t error = 0;
};

// From now on counts, and makes the chosen call fail.
void Expect(const Choice& choice, Report* report);
void Forget();

// For the wrappers: whether this call is to fail, and if so sets errno to one of `errors`.
bool Fails(Kind kind, const char* name, const void* site, absl::Span<const int> errors, uint64_t bytes = 0);

// Bytes mapped and not unmapped by the product's calls of mmap and munmap.
int64_t MappedBytes();

}  // namespace farlook::failnth

#endif  // FARLOOK_TESTS_FAILNTH_CALLS_H_
