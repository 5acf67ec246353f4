// The processor that a thread runs on. Two threads that exchange messages compare theirs: on a shared processor,
// polling keeps the other from answering.
#ifndef FARLOOK_RDMA_HOST_PROCESSOR_H_
#define FARLOOK_RDMA_HOST_PROCESSOR_H_

#include <sched.h>

#include <cstdint>

namespace farlook::rdma {

// Returns 1 + the number of the processor; 0 if the kernel does not report it. A few instructions: glibc has it from
// rseq.
inline uint32_t ThisProcessor() { return static_cast<uint32_t>(sched_getcpu() + 1); }

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_PROCESSOR_H_
