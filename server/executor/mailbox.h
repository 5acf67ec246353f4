// Passes connection requests from the thread that received them to a worker.
//
// Thread safety: any thread may call anything.
// Ordering: the release in Put() pairs with the acquire in size(), so a worker that sees the size finds the arrival.
#ifndef FARLOOK_SERVER_EXECUTOR_MAILBOX_H_
#define FARLOOK_SERVER_EXECUTOR_MAILBOX_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"

namespace farlook::server {

// A client that waits for admission.
struct Arrival {
  std::unique_ptr<rdma::ConnectionRequest> request;
  kv::ConnectData connect;
  int port = 0;  // index of its listener
};

class Mailbox {
 public:
  // `wake` is called after each Put(), on the thread of Put(); it may be empty.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Put(Arrival arrival) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      arrivals_.push_back(std::move(arrival));
      size_.store(arrivals_.size(), std::memory_order_release);
    }
    if (wake_) wake_();
  }

  // One atomic load, cheap enough for each Poll().
  bool empty() const { return size() == 0; }
  size_t size() const { return size_.load(std::memory_order_acquire); }

  // Returns the arrival that has waited longest. REQUIRES !empty(), and no concurrent Take().
  Arrival Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    Arrival arrival = std::move(arrivals_.front());
    arrivals_.pop_front();
    size_.store(arrivals_.size(), std::memory_order_relaxed);
    return arrival;
  }

 private:
  const std::function<void()> wake_;
  std::atomic<size_t> size_{0};
  absl::Mutex mutex_;
  std::deque<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_EXECUTOR_MAILBOX_H_
