#include "kv/index/segment_pool.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace farlook::kv {

SegmentPool::SegmentPool(uint64_t region_bytes, Heap* heap, SharedDirectory* directory)
    : infos_(static_cast<SegmentInfo*>(std::calloc(region_bytes / kSegmentBytes, sizeof(SegmentInfo)))),
      unit_(static_cast<Unit*>(std::calloc(region_bytes / kIndexUnitBytes, sizeof(Unit)))),
      heap_(heap),
      directory_(directory) {}

// Adds a unit whose segments are all free.
void SegmentPool::Hold(uint64_t unit) {
  UnitAt(unit).free = kAll;
  ++held_;
  with_room_.insert(unit);
  whole_.insert(unit);
  free_ += kSegmentsPerUnit;
}

// Takes a unit from the heap. Returns false if there is none.
bool SegmentPool::TakeUnit() {
  const uint64_t unit = heap_->AllocateIndexUnit();
  if (unit == 0) return false;
  Hold(unit);
  units_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

uint64_t SegmentPool::Allocate(uint32_t partition) {
  absl::MutexLock lock(&mutex_);
  if (with_room_.empty()) {
    if (!leaving_.empty()) {  // it stays: having announced it to readers does no harm
      const uint64_t unit = leaving_.back();
      leaving_.pop_back();
      Hold(unit);
    } else if (!TakeUnit()) {
      return 0;
    }
  }
  const uint64_t at = *with_room_.begin();
  Unit& unit = UnitAt(at);
  const int bit = std::countr_zero(unit.free);
  whole_.erase(at);
  unit.free &= unit.free - 1;
  unit.owners[bit] = static_cast<uint8_t>(partition);
  if (unit.free == 0) with_room_.erase(with_room_.begin());
  --free_;
  taken_.fetch_add(1, std::memory_order_relaxed);
  return at + static_cast<uint64_t>(bit) * kSegmentBytes;
}

void SegmentPool::Free(uint64_t offset) {
  const uint64_t at = UnitOf(offset);
  Unit& unit = UnitAt(at);
  if (unit.free == 0) with_room_.insert(at);
  unit.free |= BitOf(offset);
  if (unit.free == kAll) whole_.insert(at);
  ++free_;
  taken_.fetch_sub(1, std::memory_order_relaxed);
}

void SegmentPool::Cancel(uint64_t offset) {
  absl::MutexLock lock(&mutex_);
  Free(offset);
}

void SegmentPool::Adopt(uint64_t unit, absl::Span<const uint8_t> owners) {
  absl::MutexLock lock(&mutex_);
  ++held_;
  units_.fetch_add(1, std::memory_order_relaxed);
  taken_.fetch_add(kSegmentsPerUnit, std::memory_order_relaxed);
  for (size_t i = 0; i < kSegmentsPerUnit; ++i) {
    UnitAt(unit).owners[i] = owners[i];
    if (owners[i] != kNoOwner) continue;
    // The quarantine is measured from a time that a partition reads later.
    retired_.push_back({unit + i * kSegmentBytes, ++number_, std::numeric_limits<int64_t>::min()});
    waiting_.store(true, std::memory_order_relaxed);
  }
}

uint64_t SegmentPool::Retire(uint64_t offset, int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  UnitAt(offset).owners[offset % kIndexUnitBytes / kSegmentBytes] = kNoOwner;
  retired_.push_back({offset, ++number_, now_ns});
  waiting_.store(true, std::memory_order_relaxed);
  return number_;
}

uint64_t SegmentPool::Advance(int64_t now_ns, uint64_t seen) {
  absl::MutexLock lock(&mutex_);
  EndQuarantines(now_ns, seen);
  LetUnitsLeave(now_ns, seen);
  waiting_.store(!retired_.empty() || !leaving_.empty() || whole_.size() > kSpareUnits, std::memory_order_relaxed);
  return number_;
}

void SegmentPool::EndQuarantines(int64_t now_ns, uint64_t seen) {
  for (; stamped_ < retired_.size(); ++stamped_) {
    Retired& retired = retired_[stamped_];
    if (retired.number > seen || now_ns <= retired.since_ns) break;
    retired.since_ns = now_ns;
  }
  for (size_t n = 0; n < kUnitsAtOnce && stamped_ > 0; ++n, --stamped_) {
    if (now_ns - retired_.front().since_ns < kQuarantineNs) break;
    Free(retired_.front().offset);
    retired_.pop_front();
  }
}

void SegmentPool::LetUnitsLeave(int64_t now_ns, uint64_t seen) {
  switch (leave_) {
    case Leave::kGathering: {
      size_t n = 0;
      // The highest units leave: the next allocations are served from the low end.
      for (; n < kUnitsAtOnce && whole_.size() > kSpareUnits; ++n) {
        const uint64_t at = *whole_.rbegin();
        whole_.erase(at);
        with_room_.erase(at);
        --held_;
        free_ -= kSegmentsPerUnit;
        leaving_.push_back(at);
      }
      const bool many = leaving_.size() > std::max<size_t>(4, held_ / 16);
      if (leaving_.empty() || n == kUnitsAtOnce || !(many || now_ns - left_ns_ >= kLeaveIntervalNs)) return;
      directory_->IncreaseEpoch();
      leave_ = Leave::kAnnounced;
      leave_number_ = ++number_;
      leave_since_ns_ = now_ns;
      return;
    }
    case Leave::kAnnounced:
      if (leave_number_ > seen || now_ns <= leave_since_ns_) return;
      leave_since_ns_ = now_ns;
      leave_ = Leave::kQuarantined;
      return;
    case Leave::kQuarantined:
      if (now_ns - leave_since_ns_ < kQuarantineNs) return;
      for (size_t n = 0; n < kUnitsAtOnce && !leaving_.empty(); ++n) {
        heap_->FreeIndexUnit(leaving_.back());
        leaving_.pop_back();
        units_.fetch_sub(1, std::memory_order_relaxed);
      }
      if (!leaving_.empty()) return;
      leave_ = Leave::kGathering;
      left_ns_ = now_ns;
      return;
  }
}

uint64_t SegmentPool::Misplaced(uint32_t partition) const {
  absl::MutexLock lock(&mutex_);
  const uint64_t in_use = held_ * kSegmentsPerUnit - free_;
  if (free_ < in_use / 8 + 2 * kSegmentsPerUnit || with_room_.size() < 2) return 0;
  size_t looks = 0;
  for (auto at = with_room_.rbegin(); *at != *with_room_.begin() && looks < kLooks; ++at, ++looks) {
    const Unit& unit = UnitAt(*at);
    for (uint64_t i = 0; i < kSegmentsPerUnit; ++i) {
      if ((unit.free >> i & 1) == 0 && unit.owners[i] == partition) return *at + i * kSegmentBytes;
    }
  }
  return 0;
}

}  // namespace farlook::kv
