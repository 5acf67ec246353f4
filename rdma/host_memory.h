// What the kernel says about the memory of this host, and how to ask it for more.
#ifndef FARLOOK_RDMA_HOST_MEMORY_H_
#define FARLOOK_RDMA_HOST_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace farlook::rdma {

// RESOURCE_EXHAUSTED unless `bytes` in ordinary pages are likely to be had: available memory of the host, of
// `numa_node` (-1: any), and the limit of this process's control group. Asking first matters: for pages of shared
// memory that it promised and does not have, the kernel kills a process instead of failing a call.
absl::Status CheckAvailable(uint64_t bytes, int numa_node);

// INVALID_ARGUMENT, naming those that exist, unless `node` is one or -1.
absl::Status CheckNumaNode(int node);

// "needs 8 pages of 2 MiB, 3 are free: echo 13 > /sys/…/nr_hugepages". `page_bytes` is 2 MiB or 1 GiB.
std::string HugePageAdvice(uint64_t bytes, uint64_t page_bytes);

// Whether so many bytes in pages of 2 MiB or 1 GiB are free and not promised to someone.
bool EnoughHugePages(uint64_t bytes, uint64_t page_bytes);

// Whether the kernel gives transparent huge pages to shared memory that asks (madvise).
bool TransparentAllowed();

// Bytes of the mapping at `data` that are mapped in transparent huge pages.
uint64_t TransparentBytes(const char* data);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_MEMORY_H_
