// A range that is longer than the longest memory region of its device (max_mr_size), and so registered as several.
//
//     range    |-------------------------------------------|      users name it by the key of the first region
//     regions  |----------------==|                               == kMaxReadBytes that two of them share, so that
//                               |----------------==|                 a READ that begins in the stride of one
//                                                |---------|         does not go beyond it
//              | stride_bytes   |
#ifndef FARLOOK_RDMA_VERBS_SPLIT_RANGE_H_
#define FARLOOK_RDMA_VERBS_SPLIT_RANGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace farlook::rdma::verbs {

// Of one range, and ranges of one listener: the handshake has room for so many.
inline constexpr size_t kMaxRegions = 8;
inline constexpr size_t kMaxSplitRanges = 2;
// Regions begin at pages.
inline constexpr uint64_t kRegionAlignment = 4096;

struct SplitRange {
  uint64_t address = 0;        // a multiple of kRegionAlignment, below 2^60
  uint64_t stride_bytes = 0;   // a multiple of kRegionAlignment, below 2^44
  std::vector<uint32_t> keys;  // 2 to kMaxRegions
};

// The key for a READ or atomic at `address` of the range that `rkey` names: its own, unless that is one of `splits`.
inline uint32_t KeyAt(const std::vector<SplitRange>& splits, uint32_t rkey, uint64_t address) {
  for (const SplitRange& split : splits) {
    if (split.keys[0] != rkey || address < split.address) continue;
    const uint64_t region = (address - split.address) / split.stride_bytes;
    if (region < split.keys.size()) return split.keys[region];
  }
  return rkey;
}

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_SPLIT_RANGE_H_
