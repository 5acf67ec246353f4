// The send queue of one connection: work requests posted, executed when rung, reaped by Poll().
//
//     reaped <= executed <= posted <= reaped + kSendQueueDepth
#ifndef FARLOOK_RDMA_SHM_WORK_QUEUE_H_
#define FARLOOK_RDMA_SHM_WORK_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "rdma/shm/limits.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {

// A READ into one piece uses only the first line. Without initializers: memory of the queue is not touched before use.
struct alignas(kCacheLineBytes) WorkRequest {
  uint64_t wr_id;
  char* remote;  // in this process's mapping of the peer's memory
  Opcode opcode;
  WcStatus status;  // other than kSuccess before execution: refused when posted
  bool gated;       // of memory for atomics: see atomic_gate.h
  uint8_t pieces;
  struct Atomic {
    uint64_t* old_value;
    uint64_t operand;  // delta or expected
    uint64_t desired;
  };
  union {
    Sge to[kMaxReadSges];
    Atomic atomic;
  };
};
static_assert(sizeof(WorkRequest) == 2 * kCacheLineBytes);

class WorkQueue {
 public:
  bool full() const { return posted_ - reaped_ == kSendQueueDepth; }
  bool empty() const { return posted_ == reaped_; }
  bool all_executed() const { return posted_ == executed_; }
  bool all_reaped() const { return executed_ == reaped_; }

  // Returns the request to fill in; Commit() posts it. Null if there is no memory for requests. REQUIRES: not full().
  WorkRequest* Next() {
    if (requests_ == nullptr && !Allocate()) return nullptr;
    return &requests_[posted_ % kSendQueueDepth];
  }
  void Commit() { ++posted_; }

  // REQUIRES: not all_executed().
  WorkRequest& Oldest() { return requests_[executed_ % kSendQueueDepth]; }
  void Executed() { ++executed_; }

  void FlushRest() {
    for (; executed_ != posted_; ++executed_) Oldest().status = WcStatus::kFlushed;
  }

  // REQUIRES: not all_reaped().
  const WorkRequest& Reap() { return requests_[reaped_++ % kSendQueueDepth]; }

 private:
  bool Allocate() {
    requests_.reset(new (std::nothrow) WorkRequest[kSendQueueDepth]);
    return requests_ != nullptr;
  }

  uint64_t posted_ = 0;
  uint64_t executed_ = 0;
  uint64_t reaped_ = 0;
  std::unique_ptr<WorkRequest[]> requests_;  // allocated by the first post: a server with many clients pulls from few
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_WORK_QUEUE_H_
