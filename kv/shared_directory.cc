#include "kv/shared_directory.h"

namespace farlook::kv {

SharedDirectory::SharedDirectory(char* region, const RegionHeader& header)
    : region_(region), header_(header), max_level_(MaxLevelFor(header.region_bytes)) {}

// The next level's array is whole before the level says that it is in force. Arrays of lower levels stay as they were:
// who still reads one finds segments that are retired, and then the new level.
void SharedDirectory::Grow() {
  const IndexState old = state();
  const int g = old.level();
  const char* from = region_ + header_.DirectoryArray(g);
  char* to = region_ + header_.DirectoryArray(g + 1);
  for (uint64_t i = 0; i < uint64_t{1} << g; ++i) {
    const uint64_t entry = LoadWord(from + 8 * i);
    StoreWord(to + 16 * i, entry);
    StoreWord(to + 16 * i + 8, entry);
  }
  StoreWord(region_ + kIndexStateOffset, IndexState(g + 1, old.epoch()).word());
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
  if (depth > level()) Grow();
  const int g = level();
  const uint64_t first = position >> (64 - depth) << (g - depth);
  char* array = region_ + header_.DirectoryArray(g);
  for (uint64_t i = 0; i < uint64_t{1} << (g - depth); ++i) StoreWord(array + 8 * (first + i), entry.word());
}

}  // namespace farlook::kv
