// Bytes that the sockets of an endpoint delivered in one Poll(), valid until the next one.
#ifndef FARLOOK_RDMA_TCP_RECEIVE_ARENA_H_
#define FARLOOK_RDMA_TCP_RECEIVE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "rdma/tcp/channel.h"
#include "rdma/tcp/limits.h"

namespace farlook::rdma::tcp {

class ReceiveArena {
 public:
  ReceiveArena() : words_(new (std::nothrow) uint64_t[kArenaBytes / sizeof(uint64_t)]) {}

  // Returns false if there was no memory for it; then it must not be used.
  bool ok() const { return words_ != nullptr; }

  // Returns room for Channel::Receive(), 8-byte aligned; null if the arena is full until Reset(). Take() keeps the used
  // part.
  char* Room() const { return full() ? nullptr : reinterpret_cast<char*>(words_.get()) + used_; }
  bool full() const { return used_ + Channel::kRoomBytes > kArenaBytes; }
  void Take(size_t bytes) { used_ += (bytes + 7) & ~size_t{7}; }
  void Reset() { used_ = 0; }

 private:
  std::unique_ptr<uint64_t[]> words_;
  size_t used_ = 0;
};

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_RECEIVE_ARENA_H_
