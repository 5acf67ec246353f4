// operator new, in the place of the library's.
#include <cerrno>
#include <cstdlib>
#include <new>

#include "tests/failnth/calls.h"

namespace {

using farlook::failnth::Kind;

bool Fails(size_t bytes, const void* site) {
  static constexpr int kErrors[] = {ENOMEM};
  const Kind kind = bytes >= farlook::failnth::kLargeBytes ? Kind::kLargeAllocation : Kind::kSmallAllocation;
  return farlook::failnth::Fails(kind, "operator new", site, kErrors, bytes);
}

void* OrThrow(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* Allocate(size_t bytes, const void* site) {
  return Fails(bytes, site) ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}

void* AllocateAligned(size_t bytes, std::align_val_t alignment, const void* site) {
  if (Fails(bytes, site)) return nullptr;
  const auto unit = static_cast<size_t>(alignment);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}

}  // namespace

void* operator new(size_t bytes) { return OrThrow(Allocate(bytes, __builtin_return_address(0))); }
void* operator new[](size_t bytes) { return OrThrow(Allocate(bytes, __builtin_return_address(0))); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, __builtin_return_address(0));
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, __builtin_return_address(0));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return OrThrow(AllocateAligned(bytes, alignment, __builtin_return_address(0)));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return OrThrow(AllocateAligned(bytes, alignment, __builtin_return_address(0)));
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return AllocateAligned(bytes, alignment, __builtin_return_address(0));
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return AllocateAligned(bytes, alignment, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
