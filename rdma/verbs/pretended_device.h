// What a test's RDMA device pretends to be: one with short memory regions, or with thread domains, which those of
// tests/vm are not.
//
// The linker leads some calls of libibverbs here (--wrap, see the BUILD file). A thread domain of such a device is
// nothing, and a parent domain another name for the protection domain in it, as far as the kernel is concerned. This
// checks what a provider would: that nothing is freed while something is in it.
//
// Thread safety: any thread.
#ifndef FARLOOK_RDMA_VERBS_PRETENDED_DEVICE_H_
#define FARLOOK_RDMA_VERBS_PRETENDED_DEVICE_H_

#include <cstdint>

namespace farlook::rdma::verbs {

struct Pretence {
  uint64_t max_mr_size = 0;     // 0: the device's own
  bool thread_domains = false;  // false: the device's own answer
  int alloc_td_error = 0;       // what allocating one fails with
  int alloc_parent_domain_error = 0;
};

// What was done with thread domains since Pretend().
struct ThreadDomainUse {
  int thread_domains = 0;   // allocated
  int parent_domains = 0;   // allocated
  int queue_pairs = 0;      // created in a parent domain
  int others = 0;           // created in a protection domain
  int alive = 0;            // of the first three, not destroyed
  int freed_too_early = 0;  // while something was in it
};

// Devices that are opened from now on are so.
void Pretend(const Pretence& pretence);
ThreadDomainUse Used();

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_PRETENDED_DEVICE_H_
