// News of this side's buffers on their way to one peer. The socket may have no room while the peer is stopped.
#ifndef FARLOOK_RDMA_SHM_NOTICE_QUEUE_H_
#define FARLOOK_RDMA_SHM_NOTICE_QUEUE_H_

#include <cstdint>
#include <deque>

#include "rdma/shm/buffer_registry.h"
#include "rdma/shm/packet.h"

namespace farlook::rdma::shm {

// Holds at most one notice for each buffer that lives, and one for each that the peer has to forget.
class NoticeQueue {
 public:
  bool empty() const { return queued_.empty(); }

  void Offer(const BufferRegistry::Entry& entry);
  // Also takes back an offer that was not sent, whose descriptor is about to be closed.
  void Withdraw(uint32_t rkey);

  // Sends what the socket takes. True when none is left.
  bool Flush(int socket);
  void Clear() { queued_.clear(); }

 private:
  struct Queued {
    NoticePacket packet;
    int fd;  // -1: none
  };
  std::deque<Queued> queued_;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_NOTICE_QUEUE_H_
