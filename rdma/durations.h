// Users' durations in nanoseconds: multiplied with saturation.
#ifndef FARLOOK_RDMA_DURATIONS_H_
#define FARLOOK_RDMA_DURATIONS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace farlook::rdma {

// The longest duration: 73 years. Added to a time of this century it does not overflow.
inline constexpr int64_t kMostNs = std::numeric_limits<int64_t>::max() / 4;

// Returns `count` units in nanoseconds, at least 0 and at most kMostNs.
constexpr int64_t NsOf(int64_t count, int64_t unit_ns) {
  return std::clamp<int64_t>(count, 0, kMostNs / unit_ns) * unit_ns;
}
constexpr int64_t NsOfMs(int64_t ms) { return NsOf(ms, 1'000'000); }
constexpr int64_t NsOfUs(int64_t us) { return NsOf(us, 1'000); }

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_DURATIONS_H_
