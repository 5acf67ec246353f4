// Limits the READs and atomics with the devices at once, for all endpoints of this process.
//
// An adapter with thousands of requests at once becomes slower, as their state no longer fits in its caches. So those
// beyond TransportOptions::max_outstanding wait in the send queues of the connections (send_queue.h).
#ifndef FARLOOK_RDMA_VERBS_QUEUES_READ_CREDITS_H_
#define FARLOOK_RDMA_VERBS_QUEUES_READ_CREDITS_H_

#include <atomic>
#include <cstdint>

#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {

// Thread safety: one thread; the count that endpoints share is atomic. Ordering: none, it is only a count.
class ReadCredits {
 public:
  explicit ReadCredits(uint32_t max_outstanding) : max_outstanding_(max_outstanding) {}

  // Returns false if not now. Then this endpoint has at least kUnaskedReads under way, and asks again when they
  // complete. So no endpoint has to be woken when another one returns a credit.
  bool Take() {
    if (own_ >= kUnaskedReads && in_process_.load(std::memory_order_relaxed) >= max_outstanding_) return false;
    ++own_;
    in_process_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  void Return() {
    --own_;
    in_process_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  static inline std::atomic<uint32_t> in_process_{0};

  const uint32_t max_outstanding_;
  uint32_t own_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_QUEUES_READ_CREDITS_H_
