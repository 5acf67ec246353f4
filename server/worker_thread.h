// Runs a Worker on a thread: polls it, and sleeps when it has nothing to do.
//
// After spin_ns without work, or at once where all who are active wait for its processor, it arms the endpoints and
// blocks, with no timeout unless something is due; so a server that is idle, or only read from, uses no CPU at all.
#ifndef FARLOOK_SERVER_WORKER_THREAD_H_
#define FARLOOK_SERVER_WORKER_THREAD_H_

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
#include "server/worker.h"

namespace farlook::server {

// Thread safety: one thread makes, drains and joins it.
class WorkerThread {
 public:
  // There is an endpoint at least; the worker's wake function wakes one. All outlive this; nobody else touches the
  // worker, except as its header allows, until Join().
  WorkerThread(int number, Worker* worker, absl::Span<rdma::Endpoint* const> endpoints, const rdma::Clock* clock,
               int64_t spin_ns);
  ~WorkerThread();  // REQUIRES Join()

  // Has the worker drain until `deadline_ns` at the latest, and the thread end.
  void Drain(int64_t deadline_ns);
  // Waits for the end. Returns whether every connection was closed in order.
  bool Join();

 private:
  void Run();
  // Whether the clients that were heard since the last sleep can go on only when this thread sleeps.
  bool SharesProcessorWithAll() const;
  // False: nothing woke it but the time.
  bool Sleep(int64_t due_ns);

  Worker* const worker_;
  const std::vector<rdma::Endpoint*> endpoints_;
  const rdma::Clock* const clock_;
  const int64_t spin_ns_;
  std::atomic<int64_t> drain_deadline_ns_{0};  // 0: serve
  bool drained_ = false;                       // of the thread, until it ended
  std::vector<pollfd> fds_;                    // of the endpoints
  std::thread thread_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_THREAD_H_
