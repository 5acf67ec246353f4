// Takes connection requests at the listeners, and passes each client to a worker.
//
// A client that resumes a session is passed to the worker that owns it, whose number is in the session's id. So no two
// workers ever share a session. Other clients are passed to the worker with the fewest clients.
//
// Thread safety: one thread, except Shutdown().
#ifndef FARLOOK_SERVER_ACCEPTOR_ACCEPTOR_H_
#define FARLOOK_SERVER_ACCEPTOR_ACCEPTOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "kv/wire/handshake.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "server/base/log.h"
#include "server/base/worker_stats.h"
#include "server/worker/worker.h"

namespace farlook::server {

class Acceptor {
 public:
  // All must outlive this. Until Open() every client is rejected, with the reason that `why_not_yet` returns, or a
  // default if that is null.
  Acceptor(std::vector<rdma::Listener*> listeners, const rdma::Clock* clock,
           std::function<std::string()> why_not_yet = nullptr);

  // From now on clients are passed to these workers, which must outlive this. Listener i is port i of each. REQUIRES
  // that no other thread polls.
  void Open(std::vector<Worker*> workers) { workers_ = std::move(workers); }

  // Takes waiting requests; returns how many. Bounded, so that one busy listener does not starve another. Takes none
  // while crowded(): they wait in the kernel, where they cost nothing.
  size_t Poll();
  // Returns whether the number of clients that wait for workers is at its limit: then call Poll() again after
  // kCrowdedMs. So clients that connect in loops take only that many descriptors beyond --max_clients.
  bool crowded() const;
  static constexpr int kCrowdedMs = 1;
  static constexpr size_t kMaxWaiting = 16;  // for each worker

  // From now on every client is rejected. Any thread.
  void Shutdown() { shutdown_.store(true, std::memory_order_relaxed); }

  // Returns the number of clients rejected here. Any thread.
  uint64_t rejected() const { return rejected_.value(); }

 private:
  static constexpr size_t kMaxRequestsPerPoll = 64;

  void LogChange(size_t port);
  void Route(std::unique_ptr<rdma::ConnectionRequest> request, int port);
  void Reject(rdma::ConnectionRequest& request, kv::RefusalCode code, absl::string_view reason);
  Worker* WorkerFor(const kv::ConnectData& connect) const;

  const std::vector<rdma::Listener*> listeners_;
  const std::function<std::string()> why_not_yet_;
  std::vector<Worker*> workers_;  // empty: not open yet
  const rdma::Clock* const clock_;
  std::vector<bool> away_;  // listeners that clients cannot reach, as last logged
  std::atomic<bool> shutdown_{false};
  Counter rejected_;
  RateLimit log_limit_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_ACCEPTOR_ACCEPTOR_H_
