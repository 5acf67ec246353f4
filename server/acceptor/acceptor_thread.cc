#include "server/acceptor/acceptor_thread.h"

#include <malloc.h>
#include <pthread.h>

namespace farlook::server {

AcceptorThread::AcceptorThread(Acceptor* acceptor, const std::vector<rdma::Listener*>& listeners,
                               const rdma::Clock* clock)
    : acceptor_(acceptor), clock_(clock) {
  for (const rdma::Listener* listener : listeners) fds_.push_back({listener->fd(), POLLIN, 0});
  fds_.push_back({wake_.fd(), POLLIN, 0});
}

void AcceptorThread::Start(int patience_ms) {
  done_.store(false, std::memory_order_relaxed);
  thread_ = std::thread([this, patience_ms] { Run(patience_ms); });
}

void AcceptorThread::Stop() {
  if (!thread_.joinable()) return;
  done_.store(true, std::memory_order_relaxed);
  wake_.Wake();
  thread_.join();
  wake_.Clear();
}

void AcceptorThread::ClientGone() {
  if (!clients_gone_.exchange(true, std::memory_order_relaxed)) wake_.Wake();
}

void AcceptorThread::Run(int patience_ms) {
  pthread_setname_np(pthread_self(), "acceptor");
  if (patience_ms > 0) poll(&fds_.back(), 1, patience_ms);
  while (!done_.load(std::memory_order_relaxed)) {
    const int trim_ms = GiveMemoryBack();
    if (acceptor_->Poll() > 0) continue;
    if (acceptor_->crowded()) {
      poll(&fds_.back(), 1, Acceptor::kCrowdedMs);
    } else {
      poll(fds_.data(), fds_.size(), trim_ms);
    }
    wake_.Clear();
  }
}

// Freed heap memory of disconnected clients lies in holes between other allocations, and the allocator would keep it.
// Returns the time until the next call in milliseconds; -1: when woken.
int AcceptorThread::GiveMemoryBack() {
  if (!clients_gone_.load(std::memory_order_relaxed)) return -1;
  const int64_t now_ns = clock_->NowNs();
  if (now_ns < next_trim_ns_) return static_cast<int>((next_trim_ns_ - now_ns) / 1'000'000) + 1;
  clients_gone_.store(false, std::memory_order_relaxed);
  malloc_trim(/*pad=*/0);
  next_trim_ns_ = now_ns + kTrimPauseNs;
  return -1;
}

}  // namespace farlook::server
