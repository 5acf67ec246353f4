// A worker's sleep, and the events of its group that end it. There may be a million records a second: a record wakes
// only workers that wait for it, each once, and costs no system call if they are awake.
//
// Thread safety: Sleeps() and Woke() belong to the worker, Wake() to any thread.
// Ordering: the worker announces its sleep, then checks for work; the others publish work, then check for sleep. All
// four accesses are sequentially consistent, so one of the two sees the other's.
#ifndef FARLOOK_SERVER_BASE_SLEEPER_H_
#define FARLOOK_SERVER_BASE_SLEEPER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace farlook::server {

class Sleeper {
 public:
  // Bits of wake-up reasons.
  static constexpr uint32_t kErrand = 1;  // a task that any worker can carry out
  static constexpr uint32_t kCommit = 2;  // more is committed, or a key is free, or the stream has room
  static constexpr uint32_t kRecord = 4;  // a record waits to be sent

  explicit Sleeper(std::function<void()> wake) : wake_(std::move(wake)) {}

  // The worker is about to sleep until one of `why` happens. It checks for work a last time after this call.
  void Sleeps(uint32_t why) { awaited_.store(why, std::memory_order_seq_cst); }
  // The worker is awake, and will check for all work before it sleeps again.
  void Woke() {
    const uint32_t awaited = awaited_.load(std::memory_order_relaxed);
    if (awaited != 0 && awaited != kNeverSlept) awaited_.store(0, std::memory_order_relaxed);
  }
  // Work of these kinds exists. It must already be visible, by a sequentially consistent change.
  void Wake(uint32_t why) {
    const uint32_t awaited = awaited_.load(std::memory_order_seq_cst);
    if ((awaited & why) == 0) return;
    // If several threads have work for it at once, one wakes it.
    if (awaited == kNeverSlept || awaited_.exchange(0, std::memory_order_relaxed) != 0) wake_();
  }

 private:
  // State of a worker that never calls Sleeps(), as in tests that rely on each wake-up.
  static constexpr uint32_t kNeverSlept = UINT32_MAX;

  std::atomic<uint32_t> awaited_{kNeverSlept};
  const std::function<void()> wake_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BASE_SLEEPER_H_
