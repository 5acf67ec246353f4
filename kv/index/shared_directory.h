// The writer's side of the directory in the region. See region.h for its layout.
#ifndef FARLOOK_KV_INDEX_SHARED_DIRECTORY_H_
#define FARLOOK_KV_INDEX_SHARED_DIRECTORY_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kv/layout/region.h"
#include "kv/layout/segment.h"
#include "kv/layout/words.h"

namespace farlook::kv {

// Thread safety: any thread; the entries of one partition only under its lock.
class SharedDirectory {
 public:
  // `header` is the region's; its level is the first one. Ids continue above the region's mark.
  SharedDirectory(char* region, const RegionHeader& header);

  int level() const { return state().level(); }
  int max_level() const { return max_level_; }

  DirectoryEntry Find(uint64_t position) const { return DirectoryEntry(LoadWord(EntryAt(position))); }
  // Prefetches that entry.
  void Prefetch(uint64_t position) const { __builtin_prefetch(EntryAt(position)); }

  // From now on `entry` serves all positions whose top `depth` bits are those of `position`. REQUIRES depth <= level().
  void Publish(uint64_t position, int depth, DirectoryEntry entry);

  // Returns whether entries of `depth` can be published. If the directory has to grow for that, this call does a
  // bounded part of the work: call again. REQUIRES depth <= min(level() + 1, max_level()).
  bool MakeLevel(int depth);

  // Makes readers READ the directory again before they accept "not found". Called before memory leaves the index.
  void IncreaseEpoch();

  // Returns a new segment's id. Ids have 30 bits, so they wrap around. Before an id is reused, the epoch is increased
  // several times: a reader that knows the old segment no longer relies on it.
  uint32_t NextSegmentId();

  // Segments in use, over all partitions.
  uint64_t segments() const { return segments_.load(std::memory_order_relaxed); }
  void AddSegments(int n) { segments_.fetch_add(static_cast<uint64_t>(n), std::memory_order_relaxed); }

 private:
  const char* EntryAt(uint64_t position) const {
    const int g = level();
    return region_ + header_.DirectoryArray(g) + 8 * (position >> (64 - g));
  }
  IndexState state() const { return IndexState(LoadWord(region_ + kIndexStateOffset)); }
  void NextEpoch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Also publishes one entry of the level in force in the next level.
  void Copy(uint64_t index, uint64_t entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  char* const region_;
  const RegionHeader header_;
  const int max_level_;
  absl::Mutex mutex_;                            // entries of all levels, the index's state and its mark
  uint64_t copied_ ABSL_GUARDED_BY(mutex_) = 0;  // number of entries of the level in force that are also in the next
                                                 // one
  uint64_t segments_ever_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t marked_segments_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> segments_{0};
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_INDEX_SHARED_DIRECTORY_H_
