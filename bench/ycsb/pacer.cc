#include "bench/ycsb/pacer.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

#include "bench/common/clocks.h"

namespace farlook::bench {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// Maximum delay until a sleeping thread notices a stop.
constexpr int64_t kLongestSleepNs = kSecond / 20;

}  // namespace

Pacer::Pacer(double operations_per_s, const std::atomic<bool>* stop)
    : tick_ns_(operations_per_s > 0 ? std::max<int64_t>(1, static_cast<int64_t>(kSecond / operations_per_s)) : 0),
      stop_(stop) {}

void Pacer::Start(Random* random) {
  if (!active()) return;
  // The default slack of 50 us would be in every intended latency.
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  if (tick_ns_ >= kSecond / 1000) {
    WaitUntil(NowNs() + static_cast<int64_t>(random->Below(static_cast<uint64_t>(tick_ns_))));
  }
  start_ns_ = NowNs();
}

int64_t Pacer::NextDue() { return active() ? start_ns_ + tick_ns_ * next_++ : 0; }

void Pacer::WaitUntil(int64_t due_ns) const {
  while (!stop_->load(std::memory_order_relaxed)) {
    const int64_t now_ns = NowNs();
    if (now_ns >= due_ns) return;
    const int64_t until_ns = std::min(due_ns, now_ns + kLongestSleepNs);
    timespec until;
    until.tv_sec = until_ns / kSecond;
    until.tv_nsec = until_ns % kSecond;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
}

}  // namespace farlook::bench
