// How a server knows that a client will change its memory no more, though nothing but the client's own process carries
// out its atomics.
//
// A queue pair that was destroyed lets nothing through. On shm a client may be stopped just before its locked
// instruction, be disconnected, and go on an hour later. So a client passes a gate: it says that it is inside, looks
// whether the gate is closed, executes its batch, and says that it is out. READs of memory that is for atomics pass it
// too: what they would fetch later may be another's by then. A server closes the gate and looks whether
// anybody is inside: if not, nothing comes any more, be the client stopped, idle or busy. If so, it waits for the
// client to get out, or to die.
//
// Ordering: both sides store one word and load the other with seq_cst, so at least one sees the other's store. Leaving
// is a release that the server's load acquires: who is out has done its atomics.
#ifndef FARLOOK_RDMA_SHM_ATOMIC_GATE_H_
#define FARLOOK_RDMA_SHM_ATOMIC_GATE_H_

#include <atomic>
#include <cstdint>

#include "rdma/shm/limits.h"

namespace farlook::rdma::shm {

// In the memory of a connection. A hostile client can write both words: it only ever harms memory that it may write.
class AtomicGate {
 public:
  // The client's side. Enter: false if the gate is closed; then nothing may be executed.
  bool Enter() {
    inside_.store(1, std::memory_order_seq_cst);
    if (closed_.load(std::memory_order_seq_cst) == 0) return true;
    Leave();
    return false;
  }
  void Leave() { inside_.store(0, std::memory_order_release); }
  // A hint, without entering.
  bool closed() const { return closed_.load(std::memory_order_acquire) != 0; }

  // The server's side.
  void Close() { closed_.store(1, std::memory_order_seq_cst); }
  bool occupied() const { return inside_.load(std::memory_order_seq_cst) != 0; }

 private:
  alignas(2 * kCacheLineBytes) std::atomic<uint32_t> inside_;  // written by the client
  alignas(2 * kCacheLineBytes) std::atomic<uint32_t> closed_;  // written by the server, once
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_ATOMIC_GATE_H_
