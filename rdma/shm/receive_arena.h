// Where the messages of one Poll() are copied to, out of the reach of those who sent them.
#ifndef FARLOOK_RDMA_SHM_RECEIVE_ARENA_H_
#define FARLOOK_RDMA_SHM_RECEIVE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "rdma/shm/limits.h"
#include "rdma/shm/ring.h"

namespace farlook::rdma::shm {

class ReceiveArena {
 public:
  ReceiveArena() : words_(new (std::nothrow) uint64_t[kReceiveArenaBytes / sizeof(uint64_t)]) {}

  // False: there was no memory for it, and it is of no use.
  bool ok() const { return words_ != nullptr; }

  // Room for a message of any length, 8-byte aligned. Take() keeps what was used. REQUIRES !full(): what is full stays
  // so until Reset().
  char* Room() { return reinterpret_cast<char*>(words_.get()) + used_; }
  bool full() const { return used_ + RingConsumer::RoomFor(kMaxMessageBytes) > kReceiveArenaBytes; }
  void Take(size_t message_bytes) { used_ += RingConsumer::RoomFor(message_bytes); }
  void Reset() { used_ = 0; }

 private:
  std::unique_ptr<uint64_t[]> words_;
  size_t used_ = 0;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_RECEIVE_ARENA_H_
