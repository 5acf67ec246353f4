// The only access to memory that others read at the same time: whole aligned 8-byte words.
//
// Ordering: the writer's stores must become visible in program order, since the protocol is an order of stores (see
// docs/protocol.md, "Writing"). Every StoreWord is a release, ordered after everything before it, and every LoadWord is
// an acquire. On x86-64 both are plain moves. There are no fences: thread sanitizer does not understand them.
#ifndef FARLOOK_KV_LAYOUT_WORDS_H_
#define FARLOOK_KV_LAYOUT_WORDS_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/base/config.h"

namespace farlook::kv {

static_assert(std::endian::native == std::endian::little, "the region and the wire are little-endian");
static_assert(std::atomic_ref<uint64_t>::is_always_lock_free);

inline uint64_t LoadWord(const void* at) {
  return std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(const_cast<void*>(at))).load(std::memory_order_acquire);
}

inline void StoreWord(void* at, uint64_t value) {
  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(at)).store(value, std::memory_order_release);
}

// Makes the store visible to all before the caller continues, in particular before it reads a clock.
inline void StoreWordFenced(void* at, uint64_t value) {
  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(at)).exchange(value, std::memory_order_seq_cst);
}

// Private memory: unaligned little-endian fields.
template <typename T>
T LoadAs(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void StoreAs(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Returns whether two keys are equal. Most keys have some ten bytes, for which a call of memcmp would dominate the
// cost.
inline bool SameKey(const char* a, size_t a_bytes, const char* b, size_t b_bytes) {
  if (a_bytes != b_bytes) return false;
  if (a_bytes < 8 || a_bytes > 64) [[unlikely]]
    return std::memcmp(a, b, a_bytes) == 0;
  const auto differ = [a, b](size_t at) { return LoadAs<uint64_t>(a + at) ^ LoadAs<uint64_t>(b + at); };
  if (a_bytes - 17 <= 32 - 17) {  // most keys
    return (differ(0) | differ(8) | differ(a_bytes - 16) | differ(a_bytes - 8)) == 0;
  }
  const char* const last_a = a + a_bytes - 8;
  const char* const last_b = b + a_bytes - 8;
  for (; a < last_a; a += 8, b += 8) {
    if (LoadAs<uint64_t>(a) != LoadAs<uint64_t>(b)) return false;
  }
  return LoadAs<uint64_t>(last_a) == LoadAs<uint64_t>(last_b);
}

// Copies `bytes` of private memory to shared memory. `to` is 8-byte aligned; the last word is padded with zeros.
inline void StoreBytes(char* to, const char* from, size_t bytes) {
  const char* const end = from + bytes / 8 * 8;
#pragma GCC unroll 4
  for (; from != end; to += 8, from += 8) StoreWord(to, LoadAs<uint64_t>(from));
  if (bytes % 8 == 0) return;
  uint64_t word = 0;
  std::memcpy(&word, from, bytes % 8);
  StoreWord(to, word);
}

// Like StoreBytes, but to private memory, or to an item whose version stays DEAD meanwhile. A concurrent reader may
// then load even torn words: it does not use them. Padding after `bytes` may be written or not. The stores are in
// program order for a later server, and visible to others before the next StoreWord. Thread sanitizer sees words.
inline void StoreDeadBytes(char* to, const char* from, size_t bytes) {
#ifdef ABSL_HAVE_THREAD_SANITIZER
  StoreBytes(to, from, bytes);
#else
  asm volatile("" ::: "memory");
  std::memcpy(to, from, bytes);
#endif
}

// The same of a key. Most keys have some ten bytes, for which a call of memcpy would dominate the cost.
inline void StoreDeadKey(char* to, const char* from, size_t bytes) {
#ifndef ABSL_HAVE_THREAD_SANITIZER
  if (bytes - 16 <= 32 - 16) [[likely]] {
    struct Half {
      char bytes[16];
    };
    const Half first = LoadAs<Half>(from), last = LoadAs<Half>(from + bytes - sizeof(Half));  // these overlap
    asm volatile("" ::: "memory");
    StoreAs(to, first);
    StoreAs(to + bytes - sizeof(Half), last);
    return;
  }
#endif
  StoreDeadBytes(to, from, bytes);
}

#if defined(__x86_64__) && !defined(ABSL_HAVE_THREAD_SANITIZER)
// Copies 32 bytes with two vectors. Each aligned 8-byte half of a vector is loaded and stored whole: AVX processors
// guarantee that for 16 aligned bytes, and others do it as well. x86 keeps the order of loads, and of stores.
// Assembler, so that the compiler keeps each access exactly once and in this place.
inline void CopyGranule(char* to, const char* from, ptrdiff_t at) {
  asm volatile(
      "movdqu (%1,%2), %%xmm0\n\t"
      "movdqu 16(%1,%2), %%xmm1\n\t"
      "movdqu %%xmm0, (%0,%2)\n\t"
      "movdqu %%xmm1, 16(%0,%2)"
      :
      : "r"(to), "r"(from), "r"(at)
      : "xmm0", "xmm1", "memory");
}
#endif

// Like StoreBytes, in whole granules of 32. `to` is a multiple of 32 with room for them; the bytes after `bytes` at
// `from` are copied too, so they must be readable and public. Ordered after all stores before it and before all that
// follow. Each word is stored whole, in no promised order among them. Thread sanitizer sees words.
inline void StoreGranules(char* to, const char* from, size_t bytes) {
  const ptrdiff_t whole = static_cast<ptrdiff_t>((bytes + 31) / 32 * 32);
  to += whole;
  from += whole;
  for (ptrdiff_t at = -whole; at != 0; at += 32) {
#if defined(__x86_64__) && !defined(ABSL_HAVE_THREAD_SANITIZER)
    CopyGranule(to, from, at);
#else
    for (ptrdiff_t i = 0; i < 32; i += 8) StoreWord(to + at + i, LoadAs<uint64_t>(from + at + i));
#endif
  }
}

// Copies shared memory to private memory, as a READ does: each word whole, in no promised order; an acquire. `bytes` is
// a multiple of 32, and so is `from` within its page. Thread sanitizer sees words.
inline void LoadGranules(char* to, const char* from, size_t bytes) {
  const char* const end = from + bytes;
  to += bytes;
  for (ptrdiff_t at = from - end; at != 0; at += 32) {
#if defined(__x86_64__) && !defined(ABSL_HAVE_THREAD_SANITIZER)
    CopyGranule(to, end, at);
#else
    for (ptrdiff_t i = 0; i < 32; i += 8) StoreAs(to + at + i, LoadWord(end + at + i));
#endif
  }
}

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_WORDS_H_
