#include "client/counters/cell_cache.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace farlook::client {

CellCache::Id CellCache::IdOf(const kv::Hasher& hasher, absl::string_view key) {
  static constexpr uint64_t kOtherSeed = 0x9e3779b97f4a7c15;
  return {hasher(key), XXH3_64bits_withSeed(key.data(), key.size(), hasher.seed() ^ kOtherSeed)};
}

CellCache::~CellCache() {
  if (buckets_ != nullptr) munmap(buckets_, memory_bytes());
}

void CellCache::Insert(const Id& id, uint64_t cell) {
  if (buckets_ == nullptr) {
    if (bucket_count_ == 0) return;
    void* memory =
        mmap(nullptr, bucket_count_ * sizeof(Bucket), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;  // no memory, no cache: by message then
    buckets_ = static_cast<Bucket*>(memory);
  }
  auto& entries = BucketOf(id.hash).entries;
  const Entry entry{id, cell};
  // One entry for each key: an older one must not be found again.
  if (entries[0].id.hash != id.hash || entries[0].id.check != id.check) entries[1] = entries[0];
  entries[0] = entry;
}

void CellCache::Erase(uint64_t hash) {
  if (buckets_ == nullptr) return;
  for (Entry& entry : BucketOf(hash).entries) {
    if (entry.id.hash == hash) entry = Entry();
  }
}

void CellCache::Clear() {
  if (buckets_ == nullptr) return;
  // Releases the pages; they are zero when touched again. If the process locks its memory, they cannot be released.
  if (madvise(buckets_, memory_bytes(), MADV_DONTNEED) != 0) {
    std::memset(static_cast<void*>(buckets_), 0, memory_bytes());
  }
}

}  // namespace farlook::client
