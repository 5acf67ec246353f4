#include "kv/page_pool.h"

#include <algorithm>

namespace farlook::kv {

PagePool::PagePool(uint64_t first, uint64_t end) : free_(end, false), free_pages_(end - first), lowest_(first) {
  std::fill(free_.begin() + static_cast<int64_t>(first), free_.end(), true);
}

uint64_t PagePool::Allocate(uint64_t count) {
  absl::MutexLock lock(&mutex_);
  if (count == 0 || count > free_pages_) return 0;
  uint64_t first = 0;
  if (count == 1) {
    while (!free_[lowest_]) ++lowest_;
    first = lowest_++;
  } else {
    uint64_t run = 0;
    for (uint64_t page = free_.size(); page-- > lowest_ && first == 0;) {
      run = free_[page] ? run + 1 : 0;
      if (run == count) first = page;
    }
    if (first == 0) return 0;
  }
  for (uint64_t i = 0; i < count; ++i) free_[first + i] = false;
  free_pages_ -= count;
  return first;
}

void PagePool::Free(uint64_t first, uint64_t count) {
  absl::MutexLock lock(&mutex_);
  for (uint64_t i = 0; i < count; ++i) free_[first + i] = true;
  free_pages_ += count;
  lowest_ = std::min(lowest_, first);
}

uint64_t PagePool::free_pages() const {
  absl::MutexLock lock(&mutex_);
  return free_pages_;
}

}  // namespace farlook::kv
