// The receive buffers of an endpoint.
//
// A server's endpoint has one shared receive queue for all its clients, where the device knows such; a client's
// connection has a receive queue of its own. Either way there is a buffer for every message that the peers may send
// (flow_control.h).
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
  // The connection is over, its queue pair destroyed: `slots` of its own queue are free.
  void Release(uint32_t window, const std::vector<uint32_t>& slots) {
    reserved_ -= window;
    for (const uint32_t slot : slots) pool_->Put(slot);
  }

  // What arrived in a slot was read: posts it again, to the shared queue or to `pair`. With no shared queue and no pair
  // it is no longer of use.
  void Repost(uint32_t slot, ibv_qp* pair);

 private:
  struct Closer {
    void operator()(ibv_srq* queue) const { ibv_destroy_srq(queue); }
  };

  int Post(uint32_t slot, ibv_qp* pair);

  const Device* const device_;
  MessagePool* const pool_;
  std::unique_ptr<ibv_srq, Closer> shared_;
  uint32_t capacity_ = 0;  // of the shared queue
  uint32_t reserved_ = 0;  // windows of all connections
  uint32_t posted_ = 0;    // to the shared queue, or under way to be posted again
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_RECEIVE_QUEUE_H_
