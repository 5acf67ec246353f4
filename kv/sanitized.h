// For tests whose number of rounds depends on who watches.
#ifndef FARLOOK_KV_SANITIZED_H_
#define FARLOOK_KV_SANITIZED_H_

#include "absl/base/config.h"

namespace farlook::kv {

// Whether the address or the thread sanitizer watches. It sees with few rounds what it sees with many, and takes ten
// times as long.
#if defined(ABSL_HAVE_THREAD_SANITIZER) || defined(ABSL_HAVE_ADDRESS_SANITIZER)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace farlook::kv

#endif  // FARLOOK_KV_SANITIZED_H_
