// The state of this host's memory as reported by the kernel, and advice on getting more.
#ifndef FARLOOK_RDMA_HOST_MEMORY_H_
#define FARLOOK_RDMA_HOST_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::rdma {

// RESOURCE_EXHAUSTED unless `bytes` in ordinary pages are likely to be available: checks the memory of the host, of
// `numa_node` (-1: any), and the limit of this process's control group. This check matters: if the kernel cannot
// provide pages of shared memory that it promised, it kills a process instead of failing a call.
absl::Status CheckAvailable(uint64_t bytes, int numa_node);

// RESOURCE_EXHAUSTED unless `bytes` of `available` leave a margin for the rest of the system: 32 MiB, and a 64th of
// `bytes`. The message gives the margin, and the most that can be requested. `where` names the owner: "the group
// allows".
absl::Status CheckRoom(uint64_t bytes, uint64_t available, absl::string_view where, absl::string_view cure);

// UNIMPLEMENTED: the kernel is too old for SharedMemory.
absl::Status CheckKernel();

// INVALID_ARGUMENT, naming those that exist, unless `node` is one or -1.
absl::Status CheckNumaNode(int node);

// Returns "needs 8 pages of 2 MiB, 3 are free: echo 13 > /sys/…/nr_hugepages". `page_bytes` is 2 MiB or 1 GiB.
std::string HugePageAdvice(uint64_t bytes, uint64_t page_bytes);

// RESOURCE_EXHAUSTED: this process's control group does not allow `bytes` in pages of 2 MiB or 1 GiB. The kernel kills
// a process that maps more and touches it.
absl::Status CheckHugePageLimit(uint64_t bytes, uint64_t page_bytes);

// Returns true if `bytes` in pages of 2 MiB or 1 GiB are free, not reserved, and allowed.
bool EnoughHugePages(uint64_t bytes, uint64_t page_bytes);

// Returns whether the kernel provides transparent huge pages to shared memory on request (madvise).
bool TransparentAllowed();

// Returns the bytes of the mapping at `data` that are mapped in transparent huge pages.
uint64_t TransparentBytes(const char* data);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_MEMORY_H_
