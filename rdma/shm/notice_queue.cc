#include "rdma/shm/notice_queue.h"

#include <algorithm>

#include "absl/types/span.h"
#include "rdma/shm/packet_socket.h"

namespace farlook::rdma::shm {

void NoticeQueue::Offer(const BufferRegistry::Entry& entry) {
  NoticePacket packet;
  packet.notice = Notice::kOffer;
  packet.rkey = entry.rkey;
  packet.bytes = entry.bytes;
  queued_.push_back({packet, entry.fd});
}

void NoticeQueue::Withdraw(uint32_t rkey) {
  const auto offer = std::find_if(queued_.begin(), queued_.end(), [rkey](const Queued& queued) {
    return queued.packet.rkey == rkey && queued.packet.notice == Notice::kOffer;
  });
  if (offer != queued_.end()) {
    queued_.erase(offer);
    return;
  }
  NoticePacket packet;
  packet.notice = Notice::kWithdraw;
  packet.rkey = rkey;
  queued_.push_back({packet, -1});
}

bool NoticeQueue::Flush(int socket) {
  while (!queued_.empty()) {
    const Queued& next = queued_.front();
    const absl::Span<const int> fds(&next.fd, next.fd >= 0 ? 1 : 0);
    // The connection detects a closed socket the next time it reads.
    if (SendPacket(socket, BytesOf(next.packet), fds) != Io::kDone) return false;
    queued_.pop_front();
  }
  return true;
}

}  // namespace farlook::rdma::shm
