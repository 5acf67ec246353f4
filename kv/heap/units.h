// The free units of 64 KiB of the region.
//
// Blocks of 1, 8 and 32 units begin at multiples of their length. They come from the page of 2 MiB that has the fewest
// free units, the highest of these, so that whole pages stay free. Runs for large items come from the high end, memory
// of the index from the low one. A tree over the pages stores the longest run and the fullest page of each of its
// parts. So each call looks at as many nodes as the tree has levels.
#ifndef FARLOOK_KV_HEAP_UNITS_H_
#define FARLOOK_KV_HEAP_UNITS_H_

#include <cstdint>
#include <vector>

#include "kv/layout/limits.h"
#include "kv/layout/region.h"

namespace farlook::kv {

inline constexpr uint32_t kUnitsPerPage = kPageBytes / kUnitBytes;
static_assert(kUnitsPerPage == 32, "a page's units are the bits of a word");

// Units are identified by their number: their offset in the region, divided by kUnitBytes. Number 0, where the region's
// header is, means "none".
//
// Thread safety: none.
class Units {
 public:
  // Initially units [first, end) are free. REQUIRES 0 < first < end.
  Units(uint64_t first, uint64_t end);

  // Takes `count` units (1, 8 or 32), aligned to a multiple of `count`. Returns the first.
  uint64_t TakeBlock(uint32_t count);
  // Takes `count` contiguous units, as high as possible. Returns the first.
  uint64_t TakeRun(uint64_t count);
  uint64_t TakeLowest();
  // Takes exactly these units. REQUIRES they are free.
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
  // Summary of a part of the region: its free units at its low end and at its high end, and its longest run. `fullest`:
  // for each block size, the fewest free units of a page in which such a block would fit (kNoPage: no such page).
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

#endif  // FARLOOK_KV_HEAP_UNITS_H_
