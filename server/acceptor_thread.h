// Runs an Acceptor on a thread: takes who comes, and sleeps while nobody does. When clients are gone it gives memory
// back to the system: here, since no request waits for this thread.
#ifndef FARLOOK_SERVER_ACCEPTOR_THREAD_H_
#define FARLOOK_SERVER_ACCEPTOR_THREAD_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "rdma/clock.h"
#include "rdma/transport.h"
#include "rdma/wake_fd.h"
#include "server/acceptor.h"

namespace farlook::server {

// Thread safety: one thread starts and stops it; ClientGone() from any.
class AcceptorThread {
 public:
  // All outlive it; the listeners are the acceptor's.
  AcceptorThread(Acceptor* acceptor, const std::vector<rdma::Listener*>& listeners, const rdma::Clock* clock);
  ~AcceptorThread() { Stop(); }

  // False: no file descriptors left. Then it must not be started.
  bool ok() const { return wake_.ok(); }
  // Nobody else touches the acceptor, except as its header allows, until Stop(). For the first `patience_ms` it takes
  // nobody: who comes waits. REQUIRES that it does not run. Throws std::system_error where there is no thread.
  void Start(int patience_ms);
  // Waits for the end. It may be started again.
  void Stop();

  // A connection is over, and what it needed was freed. Any thread.
  void ClientGone();

 private:
  // Between two times that memory is given back.
  static constexpr int64_t kTrimPauseNs = 1'000'000'000;

  void Run(int patience_ms);
  int GiveMemoryBack();

  Acceptor* const acceptor_;
  const rdma::Clock* const clock_;
  rdma::WakeFd wake_;
  std::vector<pollfd> fds_;  // of the listeners, and the last is wake_'s
  std::atomic<bool> done_{false};
  std::atomic<bool> clients_gone_{false};  // since memory was given back
  int64_t next_trim_ns_ = 0;               // of the thread
  std::thread thread_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_ACCEPTOR_THREAD_H_
