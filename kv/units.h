// Which units of 64 KiB of the region are free.
//
// Blocks of 1, 8 and 32 units begin at multiples of their length and come from the page of 2 MiB that has the fewest
// free units, and of those from the highest, so that whole pages stay free; runs for large items come from the high
// end, memory of the index from the low one. A tree over the pages knows the longest run and the fullest page of each
// of its parts, so that every call looks at as many nodes as the tree has levels.
#ifndef FARLOOK_KV_UNITS_H_
#define FARLOOK_KV_UNITS_H_

#include <cstdint>
#include <vector>

#include "kv/limits.h"
#include "kv/region.h"

namespace farlook::kv {

inline constexpr uint32_t kUnitsPerPage = kPageBytes / kUnitBytes;
static_assert(kUnitsPerPage == 32, "a page's units are the bits of a word");

// Units are known by their number: their offset in the region, divided by kUnitBytes. None has number 0, where the
// region's header is: it says that there is none.
//
// Thread safety: none.
class Units {
 public:
  // Units [first, end) are free at first. REQUIRES 0 < first < end.
  Units(uint64_t first, uint64_t end);

  // The first of `count` units (1, 8 or 32), which is a multiple of `count`.
  uint64_t TakeBlock(uint32_t count);
  // The first of `count` contiguous units, as high as possible.
  uint64_t TakeRun(uint64_t count);
  uint64_t TakeLowest();
  // Just these. REQUIRES they are free.
  void Take(uint64_t first, uint64_t count) { Set(first, count, false); }
  // REQUIRES they are not free.
  void Give(uint64_t first, uint64_t count) { Set(first, count, true); }

  bool IsFree(uint64_t unit) const { return mask_[unit / kUnitsPerPage] >> (unit % kUnitsPerPage) & 1; }
  // Bit i: unit 32 * page + i is free.
  uint32_t MaskOf(uint64_t page) const { return mask_[page]; }
  uint64_t free() const { return free_; }
  uint64_t longest_run() const { return nodes_[1].longest; }
  uint64_t end() const { return end_; }

 private:
  // Of a part of the region: its free units at its low end and at its high end, the longest run, and the fewest free
  // units of a page in which a block of each size would fit (kNoPage: of none).
  static constexpr uint8_t kNoPage = 255;
  struct Node {
    uint32_t low = 0, high = 0, longest = 0;
    uint8_t fullest[3] = {kNoPage, kNoPage, kNoPage};
  };

  static Node OfMask(uint32_t mask);
  static Node Join(const Node& left, const Node& right, uint64_t half_units);
  void Set(uint64_t first, uint64_t count, bool free);
  void Update(uint64_t page);

  const uint64_t end_;
  uint64_t leaves_;  // a power of two
  std::vector<uint32_t> mask_;
  std::vector<Node> nodes_;  // [1] is the root; the children of [i] are [2 i] and [2 i + 1]
  uint64_t free_ = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_UNITS_H_
