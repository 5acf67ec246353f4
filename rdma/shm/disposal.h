// Mappings that a listener's endpoints no longer need. Unmapping is slow (8 ms for 256 MiB of a client's memory that
// were READ). So the listener's thread does it, and no request of other clients waits for it.
//
// Thread safety: any thread may call anything.
#ifndef FARLOOK_RDMA_SHM_DISPOSAL_H_
#define FARLOOK_RDMA_SHM_DISPOSAL_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/wake_fd.h"

namespace farlook::rdma::shm {

class Disposal {
 public:
  // Most mappings that wait: beyond that Take() unmaps in its caller's thread.
  static constexpr size_t kMost = 64;

  // Returns false if no descriptors were left; then it must not be used.
  bool ok() const { return wake_.ok(); }
  // Readable while a mapping waits.
  int fd() const { return wake_.fd(); }

  void Take(Mapping mapping) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!mapping.ok()) return;
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() == kMost) return;  // the parameter unmaps it, after the lock is released
    waiting_.push_back(std::move(mapping));
    if (waiting_.size() == 1) wake_.Wake();
  }

  // Unmaps all that wait.
  void Free() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<Mapping> freed;
    {
      absl::MutexLock lock(&mutex_);
      if (waiting_.empty()) return;
      freed.swap(waiting_);
      wake_.Clear();
    }
    for (Mapping& mapping : freed) mapping.ResetInPieces();
  }

 private:
  WakeFd wake_;
  absl::Mutex mutex_;
  std::vector<Mapping> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_DISPOSAL_H_
