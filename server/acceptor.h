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
#include <functional>
#include <memory>
#include <string>
#include <utility>
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
  // All outlive it. Until Open() everybody is turned away, with what `why_not_yet` says; so they are without it, too.
  Acceptor(std::vector<rdma::Listener*> listeners, const rdma::Clock* clock,
           std::function<std::string()> why_not_yet = nullptr);

  // Clients go to these from now on, all of which outlive this. Listener i is port i of each. REQUIRES that no other
  // thread polls.
  void Open(std::vector<Worker*> workers) { workers_ = std::move(workers); }

  // Takes the requests that wait; returns how many. Bounded, so that one busy listener does not starve another. None
  // while crowded(): they wait in the kernel, where they cost nothing.
  size_t Poll();
  // Whether as many clients wait for workers as may: then look again after kCrowdedMs. So clients that connect in
  // loops take no descriptors beyond --max_clients but these.
  bool crowded() const;
  static constexpr int kCrowdedMs = 1;
  static constexpr size_t kMaxWaiting = 16;  // for each worker

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
  const std::function<std::string()> why_not_yet_;
  std::vector<Worker*> workers_;  // none: not open yet
  const rdma::Clock* const clock_;
  std::vector<bool> away_;  // listeners that no client can come to, as logged
  std::atomic<bool> shutdown_{false};
  Counter rejected_;
  RateLimit log_limit_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_ACCEPTOR_H_
