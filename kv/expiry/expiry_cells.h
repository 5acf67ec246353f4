// The cells of one row of the expiry index (expiry.h), and the least of each sixteen of them, a cache line's worth. A
// search for due cells reads the line of the least values and one line for each due cell; all cells together take
// fifteen lines.
//
// Invariant: the least value of each line is exact.
#ifndef FARLOOK_KV_EXPIRY_EXPIRY_CELLS_H_
#define FARLOOK_KV_EXPIRY_EXPIRY_CELLS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "kv/layout/segment.h"

namespace farlook::kv {

// Thread safety: none.
class alignas(64) ExpiryCells {
 public:
  using Tick = uint32_t;
  static constexpr Tick kNever = std::numeric_limits<Tick>::max();

  ExpiryCells() {
    least_.fill(kNever);
    cells_.fill(kNever);
  }

  Tick Get(uint32_t bucket) const { return cells_[bucket]; }
  // The least of all cells.
  Tick first() const { return *std::min_element(least_.begin(), least_.end()); }

  // Records that an item of the bucket expires in `tick`.
  void Lower(uint32_t bucket, Tick tick) {
    cells_[bucket] = std::min(cells_[bucket], tick);
    least_[bucket / kOfALine] = std::min(least_[bucket / kOfALine], tick);
  }
  void Set(uint32_t bucket, Tick tick) {
    cells_[bucket] = tick;
    const Tick* const line = &cells_[bucket / kOfALine * kOfALine];
    least_[bucket / kOfALine] = *std::min_element(line, line + kOfALine);
  }

  // The first bucket from `from` on whose cell is before `now`, or kMainBuckets.
  uint32_t NextDue(uint32_t from, Tick now) const {
    while (from < kMainBuckets) {
      const uint32_t end = (from / kOfALine + 1) * kOfALine;
      if (least_[from / kOfALine] < now) {
        for (; from < end; ++from) {
          if (cells_[from] < now) return from;
        }
      }
      from = end;
    }
    return kMainBuckets;
  }

  // Prefetch what NextDue(0, now) will read. PrefetchDue() reads the line that PrefetchLeast() prefetches.
  void PrefetchLeast() const { __builtin_prefetch(least_.data()); }
  void PrefetchDue(Tick now) const {
    for (uint32_t line = 0; line < kLines; ++line) {
      if (least_[line] < now) __builtin_prefetch(&cells_[line * kOfALine]);
    }
  }

 private:
  static constexpr uint32_t kOfALine = 64 / sizeof(Tick);
  static constexpr uint32_t kLines = kMainBuckets / kOfALine;
  static_assert(kMainBuckets % kOfALine == 0 && kLines <= kOfALine, "whole lines, and one for the least of each");

  std::array<Tick, kOfALine> least_;  // kNever beyond kLines
  std::array<Tick, kMainBuckets> cells_;
};

static_assert(sizeof(ExpiryCells) == 64 + kMainBuckets * sizeof(ExpiryCells::Tick));

}  // namespace farlook::kv

#endif  // FARLOOK_KV_EXPIRY_EXPIRY_CELLS_H_
