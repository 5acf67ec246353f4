// Compiled for AVX2: include nothing here whose inline functions could be linked into code of another file.
#define XXH_INLINE_ALL
#include "kv/layout/hash_avx2.h"

#include "xxhash.h"

#if defined(__x86_64__)

static_assert(XXH_VECTOR == XXH_AVX2);

namespace farlook::kv {

uint64_t LongHashAvx2(const void* data, size_t bytes, const unsigned char* secret) {
  return XXH3_64bits_withSecret(data, bytes, secret, XXH3_SECRET_DEFAULT_SIZE);
}

void UpdateHashAvx2(void* state, const void* data, size_t bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), data, bytes);
}

}  // namespace farlook::kv

#endif
