// Memory for segments: units of the region that the index has, cut into segments, for all partitions.
//
//      outside the index -> free -> in use -> retired, for a quarantine -> free -> ...
//      units of free segments alone -> leaving: the epoch is increased, a quarantine passes -> outside the index
//
// Segments are taken from the low end first, and Misplaced() names those that should move lower, so that whole units
// become free when the index shrinks. See "Retired segments" and "Memory that leaves the index" in
// docs/design-notes.md.
//
// Time. A quarantine must be measured from a time that was read after it began. Callers read the clock after they take
// their partition's lock. So what a partition saw here under an earlier lock happened before the time that it passes
// now. (Each partition could measure its own quarantines, but a partition without writes would then keep its memory.)
#ifndef FARLOOK_KV_INDEX_SEGMENT_POOL_H_
#define FARLOOK_KV_INDEX_SEGMENT_POOL_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kv/heap/heap.h"
#include "kv/index/shared_directory.h"
#include "kv/layout/limits.h"
#include "kv/layout/region.h"
#include "kv/layout/segment.h"

namespace farlook::kv {

// The unit in which the index gets memory and returns it.
inline constexpr uint64_t kIndexUnitBytes = kUnitBytes;
inline constexpr uint64_t kSegmentsPerUnit = kIndexUnitBytes / kSegmentBytes;
static_assert(kSegmentsPerUnit >= 1 && kSegmentsPerUnit <= 64, "a unit's free segments are the bits of a word");

struct Halves;  // of index.h

// Properties of a segment in use that are not in the region. Owned by the segment's partition.
struct SegmentInfo {
  uint64_t position;    // the first that it serves
  Halves* halves;       // null: none are known
  uint16_t keys;        // slots in use
  uint16_t look_at;     // at this number of keys or fewer, try to merge it with its sibling
  uint16_t merge_most;  // merge it with its sibling if together they have at most this number of keys
  uint8_t depth;        // number of top bits that its positions share
};

// Thread safety: any thread, except info().
class SegmentPool {
 public:
  static constexpr uint8_t kNoOwner = 0xff;

  SegmentPool(uint64_t region_bytes, Heap* heap, SharedDirectory* directory);

  // Returns false if there is no memory for segment properties. Then nothing else may be called.
  bool ok() const { return infos_ != nullptr && unit_ != nullptr; }

  // Properties of the segment at this offset of the region. Under the lock of its partition.
  SegmentInfo* info(uint64_t offset) const { return infos_.get() + offset / kSegmentBytes; }

  // Returns memory for a segment of `partition`, at the lowest free offset; 0: none. Its descriptions are zero, or
  // arbitrary where no directory entry in force leads.
  uint64_t Allocate(uint32_t partition);
  // Frees a segment that was allocated and not used.
  void Cancel(uint64_t offset);
  // Recovery: takes over a unit of the index. `owners`: the partition of each segment in use, or kNoOwner. The others'
  // descriptions are zero; they are retired now.
  void Adopt(uint64_t unit, absl::Span<const uint8_t> owners);
  // Retires a segment. REQUIRES no directory entry leads there, and its descriptions are zero. `now_ns`: a time before
  // that. Returns the number of retirements that the partition has `seen` by now, for its later calls of Advance().
  uint64_t Retire(uint64_t offset, int64_t now_ns);

  // Advances the time: ends quarantines, and lets units leave; a bounded amount of work. `seen`: the last return value
  // for this partition, 0 at first, of a call that had ended before `now_ns` was read.
  uint64_t Advance(int64_t now_ns, uint64_t seen);

  // The offset of a segment of `partition` that should move lower, because many others are free. 0: none.
  uint64_t Misplaced(uint32_t partition) const;

  // Figures.
  uint64_t unit_bytes() const { return units_.load(std::memory_order_relaxed) * kIndexUnitBytes; }
  uint64_t segment_bytes() const { return taken_.load(std::memory_order_relaxed) * kSegmentBytes; }
  // Returns whether segments or units wait for their time, or merges were put off.
  bool waiting() const {
    return waiting_.load(std::memory_order_relaxed) || put_off_.load(std::memory_order_relaxed) > 0;
  }
  void AddPutOff(int n) { put_off_.fetch_add(n, std::memory_order_relaxed); }

 private:
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
  // Number of free units that are kept, since they may be needed soon.
  static constexpr size_t kSpareUnits = 1;
  // Bounds of one call.
  static constexpr size_t kUnitsAtOnce = 64;
  static constexpr size_t kLooks = 64;
  // A new epoch makes readers READ the directory again, so it covers many units, or all units of a second.
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
  // By number. Not a hash table, which would be copied as a whole when it grows, under locks. The index has `held_`
  // units, and those that are leaving.
  const std::unique_ptr<Unit[], FreeMemory> unit_;  // see UnitAt()
  Heap* const heap_;
  SharedDirectory* const directory_;

  mutable absl::Mutex mutex_;
  uint64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<uint64_t> with_room_ ABSL_GUARDED_BY(mutex_);  // held units with a free segment
  std::set<uint64_t> whole_ ABSL_GUARDED_BY(mutex_);      // those of with_room_ whose segments are all free
  uint64_t free_ ABSL_GUARDED_BY(mutex_) = 0;             // segments
  std::deque<Retired> retired_ ABSL_GUARDED_BY(mutex_);
  size_t stamped_ ABSL_GUARDED_BY(mutex_) = 0;   // entries at the front of retired_ with a since_ns read afterwards
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last quarantine that began
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

#endif  // FARLOOK_KV_INDEX_SEGMENT_POOL_H_
