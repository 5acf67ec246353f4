#include "rdma/verbs/connection/ending_connection.h"

#include <rdma/rdma_cma.h>

#include <algorithm>
#include <utility>

#include "rdma/clock.h"
#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {

EndingConnection::EndingConnection(EndpointDevice* device, Pair* pair, LiveConnection* live)
    : device_(device), pair_(pair), live_(live), drained_until_ns_(Clock::Real().NowNs() + kDrainTimeoutNs) {
  pair_->queue_pair.Fail();
  // Notifies the peer at once. If the port may be the cause, that happens when the id is destroyed: see
  // EndpointDevice::Dismiss().
  if (pair_->peer_is_known && !pair_->failed && !device_->device().MustBeSilent()) rdma_disconnect(pair_->id.get());
}

bool EndingConnection::drained(int64_t now_ns) const {
  return live_ == nullptr || live_->in_flight() == 0 || now_ns >= drained_until_ns_;
}

void EndingConnection::GiveBack(const std::vector<uint32_t>& with_user) {
  if (pair_->own_receives) {
    std::erase_if(pair_->slots, [&with_user](uint32_t slot) {
      return std::find(with_user.begin(), with_user.end(), slot) != with_user.end();
    });
  }
  device_->Retire(std::exchange(*pair_, Pair()));
}

}  // namespace farlook::rdma::verbs
