// The completion queues of one endpoint, and the channel that wakes it.
//
// An overrun of a queue is an error that ends all its connections. So each connection reserves an entry for each
// request that it can have with the device. If a queue is full, another is created: not all devices can resize one.
#ifndef FARLOOK_RDMA_VERBS_QUEUES_COMPLETION_QUEUES_H_
#define FARLOOK_RDMA_VERBS_QUEUES_COMPLETION_QUEUES_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/verbs/device/device.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Device and sink must outlive it.
class CompletionQueues {
 public:
  CompletionQueues(const Device* device, AsyncSink* sink) : device_(device), sink_(sink) {}
  // REQUIRES: nothing is reserved.
  ~CompletionQueues();
  CompletionQueues(const CompletionQueues&) = delete;
  CompletionQueues& operator=(const CompletionQueues&) = delete;

  // To be called once, before anything else. `shared_entries`: reserved in each queue, for receives that any connection
  // may complete.
  absl::Status Begin(uint32_t shared_entries);

  // Reserves `entries`, until Release() with the same number. RESOURCE_EXHAUSTED.
  absl::StatusOr<ibv_cq*> Reserve(uint32_t entries);
  void Release(const ibv_cq* queue, uint32_t entries);

  // Returns up to `most` completions. Negative: a queue failed.
  int Poll(ibv_wc* to, int most) { return only_ != nullptr ? ibv_poll_cq(only_, most, to) : PollAll(to, most); }

  // Requests a wake-up on fd() at the next completion. Poll() must be called once more after it.
  void Arm();
  // Non-blocking; readable after a wake-up of each queue until TakeEvent() took it.
  int fd() const { return channel_->fd; }
  // Returns false if there is none. One system call.
  bool TakeEvent();

 private:
  struct Queue {
    ibv_cq* queue;
    uint32_t entries;
    uint32_t reserved;
    unsigned events;  // not acknowledged
  };

  int PollAll(ibv_wc* to, int most);

  absl::Status Add();

  const Device* const device_;
  AsyncSink* const sink_;
  uint32_t shared_entries_ = 0;
  ibv_comp_channel* channel_ = nullptr;
  std::vector<Queue> queues_;
  ibv_cq* only_ = nullptr;  // of queues_, if there is just one
  size_t next_ = 0;         // index of the queue that Poll() checks first
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_QUEUES_COMPLETION_QUEUES_H_
