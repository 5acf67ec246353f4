// Runs a Worker on a thread: polls it, and sleeps when it has nothing to do.
//
// After spin_ns without work it arms the endpoints and blocks, with no timeout unless something is due. It does so at
// once if all active clients wait for its processor. So an idle server, or one that is only read from, uses no CPU.
#ifndef FARLOOK_SERVER_WORKER_WORKER_THREAD_H_
#define FARLOOK_SERVER_WORKER_WORKER_THREAD_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/types/span.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "server/worker/worker.h"

namespace farlook::server {

// Thread safety: one thread creates, drains and joins it.
class WorkerThread {
 public:
  // REQUIRES at least one endpoint; the worker's wake function wakes one of them. All arguments outlive this. Until
  // Join() other threads use the worker only as its header allows.
  WorkerThread(int number, Worker* worker, absl::Span<rdma::Endpoint* const> endpoints, const rdma::Clock* clock,
               int64_t spin_ns);
  ~WorkerThread();  // REQUIRES Join()

  // Has the worker drain until `deadline_ns` at the latest, and the thread end.
  void Drain(int64_t deadline_ns);
  // Waits for the end. Returns whether every connection was closed in order.
  bool Join();

 private:
  void Run();
  // Returns whether all clients that sent messages since the last sleep run on this thread's processor: they continue
  // only when it sleeps.
  bool SharesProcessorWithAll() const;
  // Returns false if only the timeout ended the sleep.
  bool Sleep(int64_t due_ns);

  Worker* const worker_;
  const std::vector<rdma::Endpoint*> endpoints_;
  const rdma::Clock* const clock_;
  const int64_t spin_ns_;
  std::atomic<int64_t> drain_deadline_ns_{0};  // 0: serve
  bool drained_ = false;                       // written by the thread; others read it after Join()
  std::vector<pollfd> fds_;                    // of the endpoints
  std::thread thread_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_WORKER_THREAD_H_
