#include "kv/index/shared_directory.h"

#include <algorithm>

namespace farlook::kv {
namespace {

// Limit of one call of MakeLevel(), which is made under a partition's lock: some microseconds.
constexpr uint64_t kEntriesAtOnce = 1024;

}  // namespace

SharedDirectory::SharedDirectory(char* region, const RegionHeader& header)
    : region_(region),
      header_(header),
      max_level_(MaxLevelFor(header.region_bytes)),
      segments_ever_(LoadWord(region + header.MarksOf(0) + kSegmentIdMark)),
      marked_segments_(segments_ever_) {}

void SharedDirectory::Copy(uint64_t index, uint64_t entry) {
  char* const to = region_ + header_.DirectoryArray(level() + 1) + 16 * index;
  StoreWord(to, entry);
  StoreWord(to + 8, entry);
}

// The next level's array is complete before the level is put into force. Until then it has no readers, and changes of
// the part that was copied are also made there. Arrays of lower levels stay unchanged: a reader that still uses one
// finds retired segments, and then the new level.
bool SharedDirectory::MakeLevel(int depth) {
  if (depth <= level()) return true;
  absl::MutexLock lock(&mutex_);
  const IndexState old = state();
  if (depth <= old.level()) return true;
  const uint64_t entries = uint64_t{1} << old.level();
  const char* const from = region_ + header_.DirectoryArray(old.level());
  for (const uint64_t end = std::min(entries, copied_ + kEntriesAtOnce); copied_ < end; ++copied_) {
    Copy(copied_, LoadWord(from + 8 * copied_));
  }
  if (copied_ < entries) return false;
  copied_ = 0;
  StoreWord(region_ + kIndexStateOffset, IndexState(old.level() + 1, old.epoch()).word());
  return true;
}

uint32_t SharedDirectory::NextSegmentId() {
  constexpr uint64_t kIds = uint64_t{1} << 30;
  constexpr uint64_t kIdsInEpoch = kIds / 16;
  constexpr uint64_t kIdsPerMark = 4096;
  absl::MutexLock lock(&mutex_);
  do {
    if (++segments_ever_ % kIdsInEpoch == 0) NextEpoch();
    if (segments_ever_ > marked_segments_) {
      marked_segments_ = segments_ever_ + kIdsPerMark;
      StoreWord(region_ + header_.MarksOf(0) + kSegmentIdMark, marked_segments_);
    }
  } while (segments_ever_ % kIds == 0);
  return static_cast<uint32_t>(segments_ever_ % kIds);
}

void SharedDirectory::IncreaseEpoch() {
  absl::MutexLock lock(&mutex_);
  NextEpoch();
}

void SharedDirectory::NextEpoch() {
  const IndexState old = state();
  StoreWord(region_ + kIndexStateOffset, IndexState(old.level(), old.epoch() + 1).word());
}

void SharedDirectory::Publish(uint64_t position, int depth, DirectoryEntry entry) {
  absl::MutexLock lock(&mutex_);
  const int g = level();
  const uint64_t first = position >> (64 - depth) << (g - depth);
  char* array = region_ + header_.DirectoryArray(g);
  for (uint64_t i = first; i < first + (uint64_t{1} << (g - depth)); ++i) {
    StoreWord(array + 8 * i, entry.word());
    if (i < copied_) Copy(i, entry.word());
  }
}

}  // namespace farlook::kv
