// The region of counters' cells: memory of its own, that clients READ and change with atomics.
//
//     offset 0                64            128
//     +-----------------------+-------------+-------------+----
//     | magic | incarnation   | cell | zero | cell | zero | ...     one cell of 8 bytes to a line of 64
//     +-----------------------+-------------+-------------+----
//
// A line to itself, so that two busy counters do not meet in the caches, nor in the NIC's. A cell is named by its
// offset, which is never 0. A cell that no counter has is dead (counter_value.h).
#ifndef FARLOOK_KV_CELL_REGION_H_
#define FARLOOK_KV_CELL_REGION_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kv/counter_value.h"
#include "kv/limits.h"
#include "kv/words.h"

namespace farlook::kv {

inline constexpr uint64_t kCellRegionMagic = 0x53'4c'4c'45'43'4c'52'46;  // "FRLCELLS"
inline constexpr uint64_t kCellStrideBytes = kLineBytes;
inline constexpr uint64_t kMinCellRegionBytes = 4096;
inline constexpr uint64_t kMaxCellRegionBytes = uint64_t{64} << 30;

// The first and the end of the offsets of cells.
constexpr uint64_t FirstCell() { return kCellStrideBytes; }
constexpr uint64_t EndOfCells(uint64_t region_bytes) { return region_bytes / kCellStrideBytes * kCellStrideBytes; }

// Whether an offset of unknown origin names a cell.
constexpr bool ValidCell(uint64_t cell, uint64_t region_bytes) {
  return cell % kCellStrideBytes == 0 && cell >= FirstCell() && cell < EndOfCells(region_bytes);
}

// Writes header and dead cells, by the CPU: before any client or NIC knows the region. REQUIRES zeroed memory.
inline void FormatCellRegion(absl::Span<char> region, uint64_t incarnation) {
  StoreWord(region.data(), kCellRegionMagic);
  StoreWord(region.data() + 8, incarnation);
  for (uint64_t cell = FirstCell(); cell < EndOfCells(region.size()); cell += kCellStrideBytes) {
    StoreWord(region.data() + cell, kPoison);
  }
}

}  // namespace farlook::kv

#endif  // FARLOOK_KV_CELL_REGION_H_
