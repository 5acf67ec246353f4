// Notices about this side's buffers that wait to be sent to one peer. The socket may have no room while the peer is
// stopped.
#ifndef FARLOOK_RDMA_SHM_NOTICE_QUEUE_H_
#define FARLOOK_RDMA_SHM_NOTICE_QUEUE_H_

#include <cstdint>
#include <deque>

#include "rdma/shm/buffer_registry.h"
#include "rdma/shm/packet.h"

namespace farlook::rdma::shm {

// Holds at most one notice for each live buffer, and one for each that the peer must forget.
class NoticeQueue {
 public:
  bool empty() const { return queued_.empty(); }

  void Offer(const BufferRegistry::Entry& entry);
  // Also removes an offer that was not sent, whose descriptor is about to be closed.
  void Withdraw(uint32_t rkey);

  // Sends as many as the socket accepts. Returns true if none is left.
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
