// Takes what comes in at the listeners, and sends each client to a worker.
//
// A client that resumes a session goes to the worker that owns it, whose number is in the session's id; so no two
// workers ever meet over a session. Others go to the worker with the fewest clients.
//
// Thread safety: one thread, but for Shutdown().
#ifndef FARLOOK_SERVER_ACCEPTOR_H_
#define FARLOOK_SERVER_ACCEPTOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "kv/handshake.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "server/log.h"
#include "server/worker.h"
#include "server/worker_stats.h"

namespace farlook::server {

class Acceptor {
 public:
  // All outlive it.  Listener i is port i of every worker.
  Acceptor(std::vector<rdma::Listener*> listeners, std::vector<Worker*> workers, const rdma::Clock* clock);

  // Takes the requests that wait; returns how many.  Bounded, so that one busy
  // listener does not starve another.
  size_t Poll();

  // From now on everybody is turned away.  Any thread.
  void Shutdown() { shutdown_.store(true, std::memory_order_relaxed); }

  // Clients that were turned away here.  Any thread.
  uint64_t rejected() const { return rejected_.value(); }

 private:
  static constexpr size_t kMaxRequestsPerPoll = 64;

  void LogChange(size_t port);
  void Route(std::unique_ptr<rdma::ConnectionRequest> request, int port);
  void Reject(rdma::ConnectionRequest& request, kv::RefusalCode code, absl::string_view reason);
  Worker* WorkerFor(const kv::ConnectData& connect) const;

  const std::vector<rdma::Listener*> listeners_;
  const std::vector<Worker*> workers_;
  const rdma::Clock* const clock_;
  std::vector<bool> away_;  // listeners that no client can come to, as logged
  std::atomic<bool> shutdown_{false};
  Counter rejected_;
  RateLimit log_limit_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_ACCEPTOR_H_
