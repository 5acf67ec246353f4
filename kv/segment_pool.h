// Memory for segments: units of the region that the index has, cut into segments, for all partitions.
//
//     not the index's -> free -> in use -> retired, for a quarantine -> free -> ...
//     units of free segments alone -> leaving: the epoch is increased, a quarantine passes -> not the index's any more
//
// Segments are taken from the low end first, and Misplaced() names those that had better lie lower, so that whole units
// come free when the index shrinks. See "Retired segments" and "Memory that leaves the index" in docs/design-notes.md.
//
// Time. A quarantine must be measured from a time that was read after it began. Callers read the clock when they have
// their partition's lock, so what a partition saw here under an earlier lock lies before the time that it tells now.
// (Each partition could measure its own quarantines, but one that nobody writes any more would keep its memory.)
#ifndef FARLOOK_KV_SEGMENT_POOL_H_
#define FARLOOK_KV_SEGMENT_POOL_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kv/heap.h"
#include "kv/limits.h"
#include "kv/region.h"
#include "kv/segment.h"
#include "kv/shared_directory.h"

namespace farlook::kv {

// What memory comes to the index and leaves it in.
inline constexpr uint64_t kIndexUnitBytes = kUnitBytes;
inline constexpr uint64_t kSegmentsPerUnit = kIndexUnitBytes / kSegmentBytes;
static_assert(kSegmentsPerUnit >= 1 && kSegmentsPerUnit <= 64, "a unit's free segments are the bits of a word");

struct Halves;  // of index.h

// What is known of a segment in use, beside what lies in the region. It belongs to the segment's partition.
struct SegmentInfo {
  uint64_t position;    // the first that it serves
  Halves* halves;       // null: none are known
  uint16_t keys;        // slots in use
  uint16_t look_at;     // with so few keys, look whether it can be merged with its sibling
  uint16_t merge_most;  // of keys that it and its sibling may have together, to be merged
  uint8_t depth;        // how many top bits of positions it serves
};

// Thread safety: any thread, but info().
class SegmentPool {
 public:
  SegmentPool(uint64_t region_bytes, Heap* heap, SharedDirectory* directory);

  // False: no memory for what is known of segments. Nothing else may be called then.
  bool ok() const { return infos_ != nullptr && unit_ != nullptr; }

  // What is known of the segment at this offset of the region. Under the lock of its partition.
  SegmentInfo* info(uint64_t offset) const { return infos_.get() + offset / kSegmentBytes; }

  // Memory for a segment of `partition`, at the lowest offset that is free; 0: none. Its descriptions are zero, or
  // anything, where no directory entry in force leads there.
  uint64_t Allocate(uint32_t partition);
  // A segment that was not put to use is free again.
  void Cancel(uint64_t offset);
  // No directory entry leads there any more, and its descriptions are zero. `now_ns`: a time before that. Returns what
  // the partition has `seen` by now, for its later calls of Advance().
  uint64_t Retire(uint64_t offset, int64_t now_ns);

  // Time passes: ends quarantines, and lets units leave; a bounded piece of work. `seen` is what was returned last for
  // this partition, 0 at first, by a call that had ended before `now_ns` was read.
  uint64_t Advance(int64_t now_ns, uint64_t seen);

  // The offset of a segment of `partition` that had better lie lower: many others are free. 0: none.
  uint64_t Misplaced(uint32_t partition) const;

  // Figures.
  uint64_t unit_bytes() const { return units_.load(std::memory_order_relaxed) * kIndexUnitBytes; }
  uint64_t segment_bytes() const { return taken_.load(std::memory_order_relaxed) * kSegmentBytes; }
  // Of segments and units whose time has not come yet, and of merges that were put off.
  bool waiting() const {
    return waiting_.load(std::memory_order_relaxed) || put_off_.load(std::memory_order_relaxed) > 0;
  }
  void AddPutOff(int n) { put_off_.fetch_add(n, std::memory_order_relaxed); }

 private:
  static constexpr uint8_t kNobody = 0xff;
  struct Unit {
    uint64_t free = 0;                      // a bit for each segment
    uint8_t owners[kSegmentsPerUnit] = {};  // partitions of those in use
  };
  struct Retired {
    uint64_t offset;
    uint64_t number;
    int64_t since_ns;
  };
  enum class Leave : uint8_t { kGathering, kAnnounced, kQuarantined };

  static constexpr uint64_t kAll = ~uint64_t{0} >> (64 - kSegmentsPerUnit);
  // Free units that are kept, since they may be wanted at once.
  static constexpr size_t kSpareUnits = 1;
  // Of one call, so that it is short.
  static constexpr size_t kUnitsAtOnce = 64;
  static constexpr size_t kLooks = 64;
  // An epoch makes readers read the directory anew, so it is for many units, or for those of a second.
  static constexpr int64_t kLeaveIntervalNs = 1'000'000'000;

  static uint64_t UnitOf(uint64_t offset) { return offset / kIndexUnitBytes * kIndexUnitBytes; }
  static uint64_t BitOf(uint64_t offset) { return uint64_t{1} << offset % kIndexUnitBytes / kSegmentBytes; }
  void Free(uint64_t offset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndQuarantines(int64_t now_ns, uint64_t seen) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LetUnitsLeave(int64_t now_ns, uint64_t seen) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Unit& UnitAt(uint64_t offset) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return unit_[offset / kIndexUnitBytes]; }
  void Hold(uint64_t unit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeUnit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct FreeMemory {
    void operator()(void* memory) const { std::free(memory); }
  };

  const std::unique_ptr<SegmentInfo[], FreeMemory> infos_;  // by offset; zero, and untouched until used
  // By number; no hash table, which is copied as a whole when it grows, under locks. The index has `held_` of them, and
  // those that are leaving.
  const std::unique_ptr<Unit[], FreeMemory> unit_;  // see UnitAt()
  Heap* const heap_;
  SharedDirectory* const directory_;

  mutable absl::Mutex mutex_;
  uint64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<uint64_t> with_room_ ABSL_GUARDED_BY(mutex_);  // of those held, those with a free segment
  std::set<uint64_t> whole_ ABSL_GUARDED_BY(mutex_);      // of these, those of free segments alone
  uint64_t free_ ABSL_GUARDED_BY(mutex_) = 0;             // segments
  std::deque<Retired> retired_ ABSL_GUARDED_BY(mutex_);
  size_t stamped_ ABSL_GUARDED_BY(mutex_) = 0;   // the first of retired_, whose since_ns was read after their end
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last beginning of a quarantine
  Leave leave_ ABSL_GUARDED_BY(mutex_) = Leave::kGathering;
  std::vector<uint64_t> leaving_ ABSL_GUARDED_BY(mutex_);
  uint64_t leave_number_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t leave_since_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t left_ns_ ABSL_GUARDED_BY(mutex_) = 0;

  std::atomic<uint64_t> units_{0};  // of the index
  std::atomic<uint64_t> taken_{0};  // segments in use or retired
  std::atomic<bool> waiting_{false};
  std::atomic<int> put_off_{0};
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_SEGMENT_POOL_H_
