// The receive buffers of an endpoint.
//
// A server's endpoint has one shared receive queue for all its clients, if the device supports that; a client's
// connection has its own receive queue. Either way there is a buffer for every message that the peers may send
// (flow_control.h).
//
// A device returns a buffer of a shared queue only with a message in it. So after clients have disconnected, used
// buffers are not posted again until only those are left that the remaining clients may use, and a reserve. When the
// last client has disconnected, a new queue replaces this one (Shrink()).
#ifndef FARLOOK_RDMA_VERBS_QUEUES_RECEIVE_QUEUE_H_
#define FARLOOK_RDMA_VERBS_QUEUES_RECEIVE_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/queues/message_pool.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Device and pool must outlive it.
class ReceiveQueue {
 public:
  // The mark of receives in wr_id; the lower half is the slot.
  static constexpr uint64_t kReceive = uint64_t{1} << 63;

  ReceiveQueue(const Device* device, MessagePool* pool) : device_(device), pool_(pool) {}

  // Creates the shared queue, if `shared` and the device supports it.
  absl::Status Begin(bool shared, AsyncSink* sink);
  ibv_srq* shared() const { return shared_.get(); }
  // Completions of receives that any connection may have.
  uint32_t shared_receives() const { return capacity_; }

  // Reserves a window for a new connection. RESOURCE_EXHAUSTED.
  absl::StatusOr<uint32_t> Reserve();
  // Posts a window to a queue pair that has its own queue, and records the slots; does nothing with a shared queue.
  absl::Status Fill(ibv_qp* pair, uint32_t window, std::vector<uint32_t>* slots);
  // A receive completed: its slot is no longer with the device. Returns false if it was not there.
  bool Completed(uint32_t slot) {
    if (shared_ == nullptr) return true;
    if (slot >= with_device_.size() || !with_device_[slot]) return false;
    with_device_[slot] = false;
    --posted_;
    return true;
  }
  // The connection is closed, its queue pair destroyed: `slots` of its own queue are free.
  void Release(uint32_t window, const std::vector<uint32_t>& slots) {
    reserved_ -= window;
    for (const uint32_t slot : slots) pool_->Put(slot);
  }

  // The message in a slot was read: posts the slot again, to the shared queue, if it is needed there, or to `pair`.
  // With no shared queue and no pair it is freed.
  void Repost(uint32_t slot, ibv_qp* pair);
  // Returns whether a connection has a window.
  bool used() const { return reserved_ > 0; }
  // When no connection is left: takes the buffers from the device. REQUIRES: no completion of a receive is under way.
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
  // Buffers posted to the shared queue. With those that users hold, at least reserved_: as many as the peers may use.
  uint32_t posted_ = 0;
  std::vector<bool> with_device_;  // by slot: it is posted to the shared queue
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_QUEUES_RECEIVE_QUEUE_H_
