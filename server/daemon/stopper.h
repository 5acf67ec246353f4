// The end of a server process: a signal of its operator, or an order of its own group.
#ifndef FARLOOK_SERVER_DAEMON_STOPPER_H_
#define FARLOOK_SERVER_DAEMON_STOPPER_H_

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/log_writer.h"

namespace farlook::server {

// Waits for the end. While the memory is prepared, which may take long, nothing must be drained: then SIGTERM and
// SIGINT end the process at once.
//
// Thread safety: BeginAnew() from any thread; the others from one.
class Stopper {
 public:
  // The signals that this waits for.
  static sigset_t Signals();

  // REQUIRES that Signals() are blocked in all threads. `writer` must outlive this.
  explicit Stopper(LogWriter* writer);
  // Also allowed without Await(), if the server did not start. A signal that arrives later stays pending.
  ~Stopper();
  Stopper(const Stopper&) = delete;
  Stopper& operator=(const Stopper&) = delete;

  // The server is ready, and will be stopped in order from now on. `reload` is called for each SIGHUP until Await()
  // returns; a SIGHUP before this call is ignored.
  void Ready(std::function<void()> reload);

  // Makes Await() return: the server's part in its group has ended, and the process must restart.
  void BeginAnew();

  // Returns when the server must stop. REQUIRES Ready().
  void Await();

  // Returns true if the process must restart: BeginAnew() was called, and neither SIGTERM nor SIGINT has arrived up to
  // now. REQUIRES that Await() has returned.
  bool begins_anew() const;

  // Returns the signal that ended Await(); "none" for BeginAnew().
  const char* signal_name() const;

 private:
  static void* Run(void* self);
  void Receive();
  void Reload();

  LogWriter* const writer_;
  absl::Mutex mutex_;
  std::function<void()> reload_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> preparing_{true};
  std::atomic<bool> ordered_{false};
  bool can_wait_ = true;
  bool awaited_ = false;
  pthread_t thread_{};
  int received_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_STOPPER_H_
