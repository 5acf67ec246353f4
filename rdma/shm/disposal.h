// Mappings that a listener's endpoints need no more. The kernel takes its time over them (8 ms for 256 MiB of a
// client's that were READ), so the listener's thread gives them back, and no request of others waits for that.
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
  // So many wait at most: beyond that whoever brings one gives it back itself.
  static constexpr size_t kMost = 64;

  // False: no descriptors were left, and it must not be used.
  bool ok() const { return wake_.ok(); }
  // Readable while something waits.
  int fd() const { return wake_.fd(); }

  void Take(Mapping mapping) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!mapping.ok()) return;
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() == kMost) return;  // it is given back now, the lock being free: parameters outlive it
    waiting_.push_back(std::move(mapping));
    if (waiting_.size() == 1) wake_.Wake();
  }

  // Gives back what waits.
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
