// Runs an Acceptor on a thread: takes connection requests, and sleeps while there are none. After clients have
// disconnected, it returns memory to the system: here, since no request waits for this thread.
#ifndef FARLOOK_SERVER_ACCEPTOR_ACCEPTOR_THREAD_H_
#define FARLOOK_SERVER_ACCEPTOR_ACCEPTOR_THREAD_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "rdma/clock.h"
#include "rdma/transport.h"
#include "rdma/wake_fd.h"
#include "server/acceptor/acceptor.h"

namespace farlook::server {

// Thread safety: one thread starts and stops it; ClientGone() from any thread.
class AcceptorThread {
 public:
  // All must outlive this; the listeners are the acceptor's.
  AcceptorThread(Acceptor* acceptor, const std::vector<rdma::Listener*>& listeners, const rdma::Clock* clock);
  ~AcceptorThread() { Stop(); }

  // Returns false if no file descriptors are left. Then it must not be started.
  bool ok() const { return wake_.ok(); }
  // Starts the thread. Until Stop() no other thread uses the acceptor, except as its header allows. For the first
  // `patience_ms` it takes no client: all wait. REQUIRES that it is not running. Throws std::system_error if no thread
  // can be started.
  void Start(int patience_ms);
  // Waits for the end. It may be started again.
  void Stop();

  // A connection is closed, and its memory was freed. Any thread.
  void ClientGone();

 private:
  // Pause before memory is returned again.
  static constexpr int64_t kTrimPauseNs = 1'000'000'000;

  void Run(int patience_ms);
  int GiveMemoryBack();

  Acceptor* const acceptor_;
  const rdma::Clock* const clock_;
  rdma::WakeFd wake_;
  std::vector<pollfd> fds_;  // of the listeners; the last is wake_'s
  std::atomic<bool> done_{false};
  std::atomic<bool> clients_gone_{false};  // since memory was last returned
  int64_t next_trim_ns_ = 0;               // used by the thread only
  std::thread thread_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_ACCEPTOR_ACCEPTOR_THREAD_H_
