// Which pages of the region are free.
#ifndef FARLOOK_KV_PAGE_POOL_H_
#define FARLOOK_KV_PAGE_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farlook::kv {

// Hands out pages by number. Single pages come from the low end and runs from the high end, so that runs stay possible.
//
// Thread safety: any thread.
class PagePool {
 public:
  // Pages [first, end) are free at first.
  PagePool(uint64_t first, uint64_t end);

  // The first of `count` contiguous pages, or 0 (which is never free) when there are none.
  uint64_t Allocate(uint64_t count);
  void Free(uint64_t first, uint64_t count);

  uint64_t free_pages() const;

 private:
  mutable absl::Mutex mutex_;
  std::vector<bool> free_ ABSL_GUARDED_BY(mutex_);  // by page number
  uint64_t free_pages_ ABSL_GUARDED_BY(mutex_);
  uint64_t lowest_ ABSL_GUARDED_BY(mutex_);  // no page below this is free
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_PAGE_POOL_H_
