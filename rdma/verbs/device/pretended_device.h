// The pretended properties of a test's RDMA device: short memory regions, or thread domains, which the devices of
// tests/vm do not have.
//
// The linker redirects some calls of libibverbs here (--wrap, see the BUILD file). For the kernel, a thread domain of
// such a device does not exist, and a parent domain is another name for the protection domain in it. This checks what a
// provider would: that nothing is freed while it is in use.
//
// Thread safety: any thread.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_PRETENDED_DEVICE_H_
#define FARLOOK_RDMA_VERBS_DEVICE_PRETENDED_DEVICE_H_

#include <cstdint>

namespace farlook::rdma::verbs {

struct Pretence {
  uint64_t max_mr_size = 0;     // 0: the device's own
  bool thread_domains = false;  // false: the device's own answer
  int alloc_td_error = 0;       // error of an allocation; 0: it succeeds
  int alloc_parent_domain_error = 0;
};

// Uses of thread domains since Pretend().
struct ThreadDomainUse {
  int thread_domains = 0;   // allocated
  int parent_domains = 0;   // allocated
  int queue_pairs = 0;      // created in a parent domain
  int others = 0;           // created in a protection domain
  int alive = 0;            // of the first three, not destroyed
  int freed_too_early = 0;  // while in use
};

// Applies to devices that are opened from now on.
void Pretend(const Pretence& pretence);
ThreadDomainUse Used();

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_PRETENDED_DEVICE_H_
