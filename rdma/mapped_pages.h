// Allocates the pages of a mapping: all at once, and on a NUMA node.
#ifndef FARLOOK_RDMA_MAPPED_PAGES_H_
#define FARLOOK_RDMA_MAPPED_PAGES_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "rdma/host/sealed_memory.h"

namespace farlook::rdma {

// Makes the kernel take pages that it has yet to allocate from this NUMA node; -1: from any.
absl::Status BindToNode(const Mapping& mapping, int node);

// Makes the kernel allocate every page, so that a shortage is an error of this call. Returns 0 or an errno. `threads`:
// 0: one for each CPU. `on_progress` is called by these threads with the bytes that are done; it may be empty.
int Prefault(const Mapping& mapping, int threads, const std::function<void(uint64_t)>& on_progress);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_MAPPED_PAGES_H_
