#include "client/cli/input/interrupt.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>

namespace farlook::cli {
namespace {

// Relaxed throughout: nothing else is published with it.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "used in a signal handler");

void HandleInterrupt(int signal_number) {
  if (!interrupted.exchange(true, std::memory_order_relaxed)) return;
  // The command does not stop waiting: end as if the signal had never been caught.
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = HandleInterrupt;
  sigemptyset(&action.sa_mask);
  // Without SA_RESTART: a read of standard input must return.
  sigaction(SIGINT, &action, nullptr);
}

bool Interrupted() { return interrupted.load(std::memory_order_relaxed); }

void ForgetInterrupt() { interrupted.store(false, std::memory_order_relaxed); }

int64_t NowNs() {
  struct timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool SleepUntilNs(int64_t deadline_ns) {
  while (!Interrupted()) {
    const int64_t left_ns = std::min(deadline_ns - NowNs(), int64_t{kMostWaitMs} * 1'000'000);
    if (left_ns <= 0) return true;
    const struct timespec slice = {.tv_sec = 0, .tv_nsec = left_ns};
    nanosleep(&slice, nullptr);
  }
  return false;
}

}  // namespace farlook::cli
