// Private memory for the messages of one Poll(), out of the reach of their senders.
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
  ReceiveArena() : words_(new (std::nothrow) uint64_t[kReceiveArenaBytes / sizeof(uint64_t)]) { Reset(); }

  // Returns false if there was no memory for it; then it must not be used.
  bool ok() const { return words_ != nullptr; }

  // Address of the next message, 8-byte aligned. There is room for one of any length unless this is beyond last(): then
  // the arena is full until Reset().
  char* room() const { return room_; }
  const char* last() const { return begin() + kReceiveArenaBytes - RingConsumer::RoomFor(kMaxMessageBytes); }
  bool full() const { return room_ > last(); }
  // Keeps everything up to `room`.
  void TakeTo(char* room) { room_ = room; }
  void Reset() { room_ = begin(); }

 private:
  char* begin() const { return reinterpret_cast<char*>(words_.get()); }

  std::unique_ptr<uint64_t[]> words_;
  char* room_ = nullptr;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_RECEIVE_ARENA_H_
