// The region of the counters' cells: separate memory that clients READ and change with atomics.
//
//      offset 0                64            128
//      +-----------------------+-------------+-------------+----
//      | magic | incarnation   | cell | zero | cell | zero | ...     one cell of 8 bytes to a line of 64
//      +-----------------------+-------------+-------------+----
//
// Each cell has a cache line to itself, so that two busy counters do not compete for a line in the CPU's or the NIC's
// caches. A cell is named by its offset, which is never 0. A cell that belongs to no counter is dead (counter_value.h).
#ifndef FARLOOK_KV_LAYOUT_CELL_REGION_H_
#define FARLOOK_KV_LAYOUT_CELL_REGION_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kv/layout/counter_value.h"
#include "kv/layout/limits.h"
#include "kv/layout/words.h"

namespace farlook::kv {

inline constexpr uint64_t kCellRegionMagic = 0x53'4c'4c'45'43'4c'52'46;  // "FRLCELLS"
inline constexpr uint64_t kCellStrideBytes = kLineBytes;
inline constexpr uint64_t kMinCellRegionBytes = 4096;
inline constexpr uint64_t kMaxCellRegionBytes = uint64_t{64} << 30;

// The offset of the first cell, and the end of the cells.
constexpr uint64_t FirstCell() { return kCellStrideBytes; }
constexpr uint64_t EndOfCells(uint64_t region_bytes) { return region_bytes / kCellStrideBytes * kCellStrideBytes; }

// Returns whether an untrusted offset names a cell.
constexpr bool ValidCell(uint64_t cell, uint64_t region_bytes) {
  return cell % kCellStrideBytes == 0 && cell >= FirstCell() && cell < EndOfCells(region_bytes);
}

// Writes header and dead cells with the CPU, before any client or NIC knows the region. REQUIRES zeroed memory.
inline void FormatCellRegion(absl::Span<char> region, uint64_t incarnation) {
  StoreWord(region.data(), kCellRegionMagic);
  StoreWord(region.data() + 8, incarnation);
  for (uint64_t cell = FirstCell(); cell < EndOfCells(region.size()); cell += kCellStrideBytes) {
    StoreWord(region.data() + cell, kPoison);
  }
}

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_CELL_REGION_H_
