// XXH3 with vectors of 32 bytes. The inlined version elsewhere uses those of 16 bytes, which every x86-64 has.
//
// Debian's libxxhash.a leaves out the library's own dispatch at run time (xxh_x86dispatch.h).
#ifndef FARLOOK_KV_LAYOUT_HASH_AVX2_H_
#define FARLOOK_KV_LAYOUT_HASH_AVX2_H_

#include <cstddef>
#include <cstdint>

namespace farlook::kv {

#if defined(__x86_64__)

// Returns whether this processor and this kernel support AVX2.
inline bool HasAvx2() { return __builtin_cpu_supports("avx2"); }

// XXH3_64bits_withSecret of more than 240 bytes; `secret` has XXH3_SECRET_DEFAULT_SIZE bytes.
uint64_t LongHashAvx2(const void* data, size_t bytes, const unsigned char* secret);

// XXH3_64bits_update; `state` is an XXH3_state_t.
void UpdateHashAvx2(void* state, const void* data, size_t bytes);

#else

inline bool HasAvx2() { return false; }
inline uint64_t LongHashAvx2(const void*, size_t, const unsigned char*) { return 0; }
inline void UpdateHashAvx2(void*, const void*, size_t) {}

#endif

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_HASH_AVX2_H_
