// The writer's side of the directory in the region. See region.h for how it lies there.
#ifndef FARLOOK_KV_SHARED_DIRECTORY_H_
#define FARLOOK_KV_SHARED_DIRECTORY_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kv/region.h"
#include "kv/segment.h"
#include "kv/words.h"

namespace farlook::kv {

// Thread safety: any thread; the entries of one partition only under its lock.
class SharedDirectory {
 public:
  // `header` is the region's, its level the first one.
  SharedDirectory(char* region, const RegionHeader& header);

  int level() const { return static_cast<int>(LoadWord(region_ + kLevelOffset)); }
  int max_level() const { return max_level_; }

  DirectoryEntry Find(uint64_t position) const {
    const int g = level();
    return DirectoryEntry(LoadWord(region_ + header_.DirectoryArray(g) + 8 * (position >> (64 - g))));
  }

  // All positions whose top `depth` bits are those of `position` are served by `entry` from now on. Grows the directory
  // when depth is its level + 1. REQUIRES depth <= min(level() + 1, max_level()).
  void Publish(uint64_t position, int depth, DirectoryEntry entry);

  // A segment id that was never used.
  uint32_t NextSegmentId() { return next_id_.fetch_add(1, std::memory_order_relaxed); }

  // Segments in use, over all partitions.
  uint64_t segments() const { return segments_.load(std::memory_order_relaxed); }
  void AddSegments(int n) { segments_.fetch_add(static_cast<uint64_t>(n), std::memory_order_relaxed); }

 private:
  void Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  char* const region_;
  const RegionHeader header_;
  const int max_level_;
  absl::Mutex mutex_;  // entries of all levels, and the level
  std::atomic<uint32_t> next_id_{1};
  std::atomic<uint64_t> segments_{0};
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_SHARED_DIRECTORY_H_
