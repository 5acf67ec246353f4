// Tasks that the group gives to workers, and whether all of them are done.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_GROUP_WORKER_TASKS_H_
#define FARLOOK_SERVER_GROUP_WORKER_TASKS_H_

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "rdma/wake_fd.h"
#include "server/worker/worker.h"

namespace farlook::server {

class WorkerTasks {
 public:
  // `wake` is woken when a task is done. It outlives this, and this outlives the workers' tasks.
  explicit WorkerTasks(rdma::WakeFd* wake) : wake_(wake) {}

  // Makes the worker call `task` between its batches until it returns true: done.
  void Start(Worker* worker, std::function<bool()> task) {
    {
      absl::MutexLock lock(&mutex_);
      ++open_;
    }
    worker->Do([this, task = std::move(task)] {
      if (!task()) return false;
      End();
      return true;
    });
  }
  bool are_done() const {
    absl::MutexLock lock(&mutex_);
    return open_ == 0;
  }

 private:
  void End() {
    {
      absl::MutexLock lock(&mutex_);
      --open_;
    }
    wake_->Wake();
  }

  rdma::WakeFd* const wake_;
  mutable absl::Mutex mutex_;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_WORKER_TASKS_H_
