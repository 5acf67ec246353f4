// How a worker is handed connection requests by the thread that took them.
//
// Thread safety: any thread may call anything.
// Ordering: the release in Put() pairs with the acquire in empty(), so a worker that sees the flag finds the arrival.
#ifndef FARLOOK_SERVER_MAILBOX_H_
#define FARLOOK_SERVER_MAILBOX_H_

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kv/handshake.h"
#include "rdma/transport.h"

namespace farlook::server {

// A client that waits to be let in.
struct Arrival {
  std::unique_ptr<rdma::ConnectionRequest> request;
  kv::ConnectData connect;
  int port = 0;  // which listener it came in at
};

class Mailbox {
 public:
  // `wake` is called after each Put, on its thread; it may be empty.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Put(Arrival arrival) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      arrivals_.push_back(std::move(arrival));
      full_.store(true, std::memory_order_release);
    }
    if (wake_) wake_();
  }

  // One load; cheap enough for each Poll.
  bool empty() const { return !full_.load(std::memory_order_acquire); }

  std::vector<Arrival> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    full_.store(false, std::memory_order_relaxed);
    return std::exchange(arrivals_, {});
  }

 private:
  const std::function<void()> wake_;
  std::atomic<bool> full_{false};
  absl::Mutex mutex_;
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_MAILBOX_H_
