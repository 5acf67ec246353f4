#include "kv/shared_directory.h"

namespace farlook::kv {

SharedDirectory::SharedDirectory(char* region, const RegionHeader& header)
    : region_(region), header_(header), max_level_(MaxLevelFor(header.region_bytes)) {}

// The next level's array is whole before the level says that it is in force. Arrays of lower levels stay as they were:
// who still reads one finds segments that are retired, and then the new level.
void SharedDirectory::Grow() {
  const int g = level();
  const char* from = region_ + header_.DirectoryArray(g);
  char* to = region_ + header_.DirectoryArray(g + 1);
  for (uint64_t i = 0; i < uint64_t{1} << g; ++i) {
    const uint64_t entry = LoadWord(from + 8 * i);
    StoreWord(to + 16 * i, entry);
    StoreWord(to + 16 * i + 8, entry);
  }
  StoreWord(region_ + kLevelOffset, static_cast<uint64_t>(g) + 1);
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
