// Limits of the control groups of this process, of version 1 and 2.
#ifndef FARLOOK_RDMA_HOST_CONTROL_GROUP_H_
#define FARLOOK_RDMA_HOST_CONTROL_GROUP_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace farlook::rdma {

struct GroupLimit {
  uint64_t bytes = UINT64_MAX;  // that the group still allows; UINT64_MAX: no limit
  uint64_t used = 0;            // for huge pages: bytes that its processes use
  std::string file = {};        // the file in which the limit can be raised
};

// Returns the tightest limit of memory. Memory used by the group's processes counts as free: most of it may be caches.
// `root`: for tests, the parent of /proc and /sys.
GroupLimit MemoryLimit(absl::string_view root = "");

// Returns the tightest limit of huge pages. `page_bytes` is 2 MiB or 1 GiB.
GroupLimit HugePageLimit(uint64_t page_bytes, absl::string_view root = "");

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_CONTROL_GROUP_H_
