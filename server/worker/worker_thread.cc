#include "server/worker/worker_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace farlook::server {
namespace {

// Time after the deadline of the drain for closing connections.
constexpr int64_t kGraceNs = 500'000'000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::vector<pollfd> ToSleepOn(absl::Span<rdma::Endpoint* const> endpoints) {
  std::vector<pollfd> fds;
  for (const rdma::Endpoint* endpoint : endpoints) fds.push_back({endpoint->fd(), POLLIN, 0});
  return fds;
}

}  // namespace

WorkerThread::WorkerThread(int number, Worker* worker, absl::Span<rdma::Endpoint* const> endpoints,
                           const rdma::Clock* clock, int64_t spin_ns)
    : worker_(worker),
      endpoints_(endpoints.begin(), endpoints.end()),
      clock_(clock),
      spin_ns_(spin_ns),
      fds_(ToSleepOn(endpoints)),
      thread_([this, number] {
        pthread_setname_np(pthread_self(), absl::StrCat("worker", number).c_str());
        Run();
      }) {}

WorkerThread::~WorkerThread() = default;

void WorkerThread::Drain(int64_t deadline_ns) {
  drain_deadline_ns_.store(std::max<int64_t>(deadline_ns, 1), std::memory_order_relaxed);
  endpoints_[0]->Wake();
}

bool WorkerThread::Join() {
  thread_.join();
  return drained_;
}

void WorkerThread::Run() {
  int64_t idle_since_ns = 0;  // 0: it was busy
  bool pointless = false;     // polling on is useless
  while (true) {
    const int64_t deadline_ns = drain_deadline_ns_.load(std::memory_order_relaxed);
    if (deadline_ns != 0) {
      worker_->BeginDrain(deadline_ns);
      drained_ = worker_->drained();
      if (drained_ || clock_->NowNs() > deadline_ns + kGraceNs) return;
    }
    if (worker_->Poll() > 0) {
      idle_since_ns = 0;
      continue;
    }
    if (spin_ns_ > 0) {
      const int64_t now_ns = clock_->NowNs();
      if (idle_since_ns == 0) {
        idle_since_ns = now_ns;
        pointless = SharesProcessorWithAll();
      }
      if (!pointless && now_ns - idle_since_ns < spin_ns_) {
        // The thread that copies items for a joining member, or that member, may share this processor: let it run.
        if (worker_->fills()) {
          sched_yield();
        } else {
          Pause();
        }
        continue;
      }
    }
    if (worker_->Arm()) {
      // After a timeout the worker does what is due, and has no reason to expect a message soon.
      if (Sleep(worker_->due_ns())) idle_since_ns = 0;
    }
  }
}

bool WorkerThread::SharesProcessorWithAll() const {
  bool here = false;
  for (const rdma::Endpoint* endpoint : endpoints_) {
    const rdma::PeerActivity active = endpoint->peer_activity();
    if (active == rdma::PeerActivity::kElsewhere) return false;
    here |= active == rdma::PeerActivity::kHere;
  }
  return here;
}

bool WorkerThread::Sleep(int64_t due_ns) {
  if (fds_.size() == 1 && due_ns == Worker::kNever) {
    // The usual case. poll() would wait for the epoll descriptor, which waits for the endpoint's: 600 more
    // instructions.
    epoll_event event;
    epoll_wait(fds_[0].fd, &event, /*maxevents=*/1, /*timeout=*/-1);
    return true;
  }
  timespec timeout{};
  if (due_ns != Worker::kNever) {
    const int64_t wait_ns = std::max<int64_t>(due_ns - clock_->NowNs(), 0);
    timeout = {wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
  }
  return ppoll(fds_.data(), fds_.size(), due_ns == Worker::kNever ? nullptr : &timeout, nullptr) != 0;
}

}  // namespace farlook::server
