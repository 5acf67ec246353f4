// Lets a server know that a client will no longer change its memory, although only the client's own process executes
// its atomics.
//
// A destroyed queue pair lets nothing through. On shm a client may be stopped just before its locked instruction, be
// disconnected, and go on an hour later. So a client passes a gate: it announces that it is inside, checks whether the
// gate is closed, executes its batch, and announces that it is out. READs of memory for atomics pass it too: what they
// would fetch later may belong to another counter by then.
//
// A server closes the gate and checks whether the client is inside. If not, no more atomics arrive, whether the client
// is stopped, idle or busy. If so, the server waits until the client leaves the gate or dies.
//
// Ordering: both sides store one word and load the other with seq_cst, so at least one sees the other's store. Leaving
// is a release that the server's load acquires: a client that is out has done its atomics.
#ifndef FARLOOK_RDMA_SHM_ATOMIC_GATE_H_
#define FARLOOK_RDMA_SHM_ATOMIC_GATE_H_

#include <atomic>
#include <cstdint>

#include "rdma/shm/limits.h"

namespace farlook::rdma::shm {

// Part of a connection's memory. A hostile client can write both words: it only ever harms memory that it may write.
class AtomicGate {
 public:
  // For the client. Enter returns false if the gate is closed; then nothing may be executed.
  bool Enter() {
    inside_.store(1, std::memory_order_seq_cst);
    if (closed_.load(std::memory_order_seq_cst) == 0) return true;
    Leave();
    return false;
  }
  void Leave() { inside_.store(0, std::memory_order_release); }
  // A hint, without entering.
  bool closed() const { return closed_.load(std::memory_order_acquire) != 0; }

  // For the server.
  void Close() { closed_.store(1, std::memory_order_seq_cst); }
  bool occupied() const { return inside_.load(std::memory_order_seq_cst) != 0; }

 private:
  alignas(2 * kCacheLineBytes) std::atomic<uint32_t> inside_;  // written by the client
  alignas(2 * kCacheLineBytes) std::atomic<uint32_t> closed_;  // written by the server, once
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_ATOMIC_GATE_H_
