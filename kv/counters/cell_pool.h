// The free cells. The cell freed last is given out first: its line is warm. And reuse, the dangerous case, then happens
// all the time and not only in a full region.
#ifndef FARLOOK_KV_COUNTERS_CELL_POOL_H_
#define FARLOOK_KV_COUNTERS_CELL_POOL_H_

#include <cstdint>
#include <vector>

#include "kv/layout/cell_region.h"

namespace farlook::kv {

// Thread safety: none.
class CellPool {
 public:
  // `used`: cells of counters that exist, ascending, each once. All others are free.
  explicit CellPool(uint64_t region_bytes, const std::vector<uint64_t>& used = {}) : end_(EndOfCells(region_bytes)) {
    for (const uint64_t cell : used) {
      for (; fresh_ < cell; fresh_ += kCellStrideBytes) freed_.push_back(fresh_);
      fresh_ = cell + kCellStrideBytes;
    }
  }

  // Returns the offset of a cell, or 0 if none is left.
  uint64_t Allocate() {
    if (!freed_.empty()) {
      const uint64_t cell = freed_.back();
      freed_.pop_back();
      return cell;
    }
    if (fresh_ >= end_) return 0;
    const uint64_t cell = fresh_;
    fresh_ += kCellStrideBytes;
    return cell;
  }
  // REQUIRES the cell was allocated.
  void Free(uint64_t cell) { freed_.push_back(cell); }

  uint64_t total() const { return (end_ - FirstCell()) / kCellStrideBytes; }
  uint64_t free() const { return freed_.size() + (end_ - fresh_) / kCellStrideBytes; }

 private:
  const uint64_t end_;
  uint64_t fresh_ = FirstCell();  // this and all above are free
  std::vector<uint64_t> freed_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_COUNTERS_CELL_POOL_H_
