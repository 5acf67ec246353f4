// Which processor a thread runs on, so that two that talk can tell whether they share one: then polling keeps the other
// from answering.
#ifndef FARLOOK_RDMA_HOST_PROCESSOR_H_
#define FARLOOK_RDMA_HOST_PROCESSOR_H_

#include <sched.h>

#include <cstdint>

namespace farlook::rdma {

// 1 + the number of the processor; 0 where the kernel does not tell. A few instructions: glibc has it of rseq.
inline uint32_t ThisProcessor() { return static_cast<uint32_t>(sched_getcpu() + 1); }

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_PROCESSOR_H_
