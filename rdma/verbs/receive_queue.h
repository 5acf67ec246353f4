// The receive buffers of an endpoint.
//
// A server's endpoint has one shared receive queue for all its clients, where the device knows such; a client's
// connection has a receive queue of its own. Either way there is a buffer for every message that the peers may send
// (flow_control.h).
//
// A device does not give a buffer back that was posted to a shared queue, but by a message that lands in it. So where
// clients have gone, what lands is not posted again until no more are left than those who stay may use, and some; and
// when the last has gone, another queue takes the place of this one (Shrink()).
#ifndef FARLOOK_RDMA_VERBS_RECEIVE_QUEUE_H_
#define FARLOOK_RDMA_VERBS_RECEIVE_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/message_pool.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Device and pool outlive it.
class ReceiveQueue {
 public:
  // The mark of receives in wr_id; the lower half is the slot.
  static constexpr uint64_t kReceive = uint64_t{1} << 63;

  ReceiveQueue(const Device* device, MessagePool* pool) : device_(device), pool_(pool) {}

  // Makes the shared queue, if `shared` and the device knows such.
  absl::Status Begin(bool shared, AsyncSink* sink);
  ibv_srq* shared() const { return shared_.get(); }
  // Completions of receives that any connection may have.
  uint32_t shared_receives() const { return capacity_; }

  // A window for a new connection. RESOURCE_EXHAUSTED.
  absl::StatusOr<uint32_t> Reserve();
  // Posts a window to the queue pair that has a queue of its own, and notes the slots; no-op with a shared queue.
  absl::Status Fill(ibv_qp* pair, uint32_t window, std::vector<uint32_t>* slots);
  // A receive completed: its slot is not with the device any more. False: it was not.
  bool Completed(uint32_t slot) {
    if (shared_ == nullptr) return true;
    if (slot >= with_device_.size() || !with_device_[slot]) return false;
    with_device_[slot] = false;
    --posted_;
    return true;
  }
  // The connection is over, its queue pair destroyed: `slots` of its own queue are free.
  void Release(uint32_t window, const std::vector<uint32_t>& slots) {
    reserved_ -= window;
    for (const uint32_t slot : slots) pool_->Put(slot);
  }

  // What arrived in a slot was read: posts it again, to the shared queue, if it is needed there, or to `pair`. With no
  // shared queue and no pair it is no longer of use.
  void Repost(uint32_t slot, ibv_qp* pair);
  // Whether a connection has a window.
  bool used() const { return reserved_ > 0; }
  // When no connection is left: takes the buffers from the device. REQUIRES: no completion of a receive is on its way.
  void Shrink(AsyncSink* sink);

 private:
  struct Closer {
    void operator()(ibv_srq* queue) const { ibv_destroy_srq(queue); }
  };

  using Shared = std::unique_ptr<ibv_srq, Closer>;

  absl::StatusOr<Shared> Create(AsyncSink* sink);
  int Post(uint32_t slot, ibv_qp* pair);

  const Device* const device_;
  MessagePool* const pool_;
  Shared shared_;
  uint32_t capacity_ = 0;  // of the shared queue
  uint32_t reserved_ = 0;  // windows of all connections
  // With those that the users of connections hold, as many are posted to the shared queue as those connections' peers
  // may use: reserved_ at least.
  uint32_t posted_ = 0;
  std::vector<bool> with_device_;  // by slot: it is posted to the shared queue
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_RECEIVE_QUEUE_H_
