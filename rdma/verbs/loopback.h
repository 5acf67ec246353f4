// A server's own atomics: a queue pair that the listener's device connects to itself.
//
// One request at a time, for which the caller polls the completion queue. A failed queue pair is destroyed before the
// call returns, so that it cannot execute anything later; the next call, after a pause, creates another.
#ifndef FARLOOK_RDMA_VERBS_LOOPBACK_H_
#define FARLOOK_RDMA_VERBS_LOOPBACK_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/device/offers.h"
#include "rdma/verbs/device/queue_pair.h"

namespace farlook::rdma::verbs {

// Thread safety: any thread; calls take turns.
class VerbsLoopback final : public Loopback, private AsyncSink {
 public:
  // Connects to a range that was offered, and reads its first word. Errors as in diagnosis.h; UNAVAILABLE if the device
  // cannot reach itself.
  static absl::StatusOr<std::unique_ptr<VerbsLoopback>> Create(std::shared_ptr<Offers> offers,
                                                               const RemoteRange& range);
  ~VerbsLoopback() override = default;

  // Loopback:
  absl::Status Read(uint64_t remote_address, uint64_t* value) override;
  absl::Status FetchAdd(uint64_t remote_address, uint64_t delta, uint64_t* old_value) override;
  absl::Status CompareSwap(uint64_t remote_address, uint64_t expected, uint64_t desired, uint64_t* old_value) override;

 private:
  struct CloseQueue {
    void operator()(ibv_cq* queue) const { ibv_destroy_cq(queue); }
  };

  VerbsLoopback(std::shared_ptr<Offers> offers, uint32_t rkey) : offers_(std::move(offers)), rkey_(rkey) {}
  absl::Status Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Execute(ibv_send_wr* request, uint64_t* result);
  absl::Status Await() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // AsyncSink. The waiting call detects a failure by its completion, or by the lack of one.
  void OnQueuesLost(ibv_event_type) override {}
  void OnSomethingToDo() override {}

  const std::shared_ptr<Offers> offers_;
  const uint32_t rkey_;
  Mapping buffer_;  // former value of a word
  MemoryRegion buffer_region_;
  QueuePairEvents events_;

  absl::Mutex mutex_;
  // From here on destroyed from the last to the first.
  std::unique_ptr<ibv_cq, CloseQueue> completions_ ABSL_GUARDED_BY(mutex_);
  QueuePair pair_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // the last, which closed the queue pair
  int64_t failed_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The loopback that a listener returns. It forwards to the loopback on its present device, which may be lost and
// return.
//
// Thread safety: any thread.
class LoopbackOfListener final : public Loopback {
 public:
  // Shared with the listener.
  class Current {
   public:
    void Set(std::shared_ptr<VerbsLoopback> loopback) {
      absl::MutexLock lock(&mutex_);
      loopback_.swap(loopback);  // the old one is destroyed after the lock is released
    }
    std::shared_ptr<VerbsLoopback> Get() {
      absl::MutexLock lock(&mutex_);
      return loopback_;
    }

   private:
    absl::Mutex mutex_;
    std::shared_ptr<VerbsLoopback> loopback_ ABSL_GUARDED_BY(mutex_);  // null: the device is lost
  };

  explicit LoopbackOfListener(std::shared_ptr<Current> current) : current_(std::move(current)) {}

  absl::Status Read(uint64_t remote_address, uint64_t* value) override {
    return With([&](VerbsLoopback& now) { return now.Read(remote_address, value); });
  }
  absl::Status FetchAdd(uint64_t remote_address, uint64_t delta, uint64_t* old_value) override {
    return With([&](VerbsLoopback& now) { return now.FetchAdd(remote_address, delta, old_value); });
  }
  absl::Status CompareSwap(uint64_t remote_address, uint64_t expected, uint64_t desired, uint64_t* old_value) override {
    return With([&](VerbsLoopback& now) { return now.CompareSwap(remote_address, expected, desired, old_value); });
  }

 private:
  absl::Status With(absl::FunctionRef<absl::Status(VerbsLoopback&)> call) {
    const std::shared_ptr<VerbsLoopback> now = current_->Get();
    return now != nullptr ? call(*now) : absl::UnavailableError("the RDMA device of the server's atomics is gone");
  }

  const std::shared_ptr<Current> current_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_LOOPBACK_H_
