// For tests whose number of rounds depends on the sanitizer.
#ifndef FARLOOK_KV_LAYOUT_SANITIZED_H_
#define FARLOOK_KV_LAYOUT_SANITIZED_H_

#include "absl/base/config.h"

namespace farlook::kv {

// True with the address or thread sanitizer. A few rounds show it as much as many, and they take ten times as long.
#if defined(ABSL_HAVE_THREAD_SANITIZER) || defined(ABSL_HAVE_ADDRESS_SANITIZER)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_SANITIZED_H_
