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
  ReceiveArena() : words_(new (std::nothrow) uint64_t[kReceiveArenaBytes / sizeof(uint64_t)]) { Reset(); }

  // False: there was no memory for it, and it is of no use.
  bool ok() const { return words_ != nullptr; }

  // Where the next message goes, 8-byte aligned. There is room for one of any length unless this is beyond last(): the
  // arena is full then, until Reset().
  char* room() const { return room_; }
  const char* last() const { return begin() + kReceiveArenaBytes - RingConsumer::RoomFor(kMaxMessageBytes); }
  bool full() const { return room_ > last(); }
  // All up to there is kept.
  void TakeTo(char* room) { room_ = room; }
  void Reset() { room_ = begin(); }

 private:
  char* begin() const { return reinterpret_cast<char*>(words_.get()); }

  std::unique_ptr<uint64_t[]> words_;
  char* room_ = nullptr;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_RECEIVE_ARENA_H_
