// A worker that sleeps, and what its group is to wake it for: so that a record, of which there may be a million in a
// second, wakes those who have something to do then, once, and costs no system call where they are awake.
//
// Thread safety: Sleeps() and Woke() belong to the worker, Wake() to any thread.
// Ordering: the worker says that it sleeps, and then looks whether there is something to do; the others make that, and
// then look whether it sleeps. All four are sequentially consistent, so one of the two sees what the other did.
#ifndef FARLOOK_SERVER_SLEEPER_H_
#define FARLOOK_SERVER_SLEEPER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace farlook::server {

class Sleeper {
 public:
  // Bits of what it is woken for.
  static constexpr uint32_t kErrand = 1;  // that any worker carries out
  static constexpr uint32_t kCommit = 2;  // more is committed, or a key is free, or there is room in the stream
  static constexpr uint32_t kRecord = 4;  // there is something to send

  explicit Sleeper(std::function<void()> wake) : wake_(std::move(wake)) {}

  // It is about to sleep until one of `why`, and looks for the last time after this.
  void Sleeps(uint32_t why) { awaited_.store(why, std::memory_order_seq_cst); }
  // It does not sleep, and will look at everything before it does.
  void Woke() {
    const uint32_t awaited = awaited_.load(std::memory_order_relaxed);
    if (awaited != 0 && awaited != kNeverSlept) awaited_.store(0, std::memory_order_relaxed);
  }
  // There is something to do of these; it can be seen already, by a sequentially consistent change.
  void Wake(uint32_t why) {
    const uint32_t awaited = awaited_.load(std::memory_order_seq_cst);
    if ((awaited & why) == 0) return;
    // Of those who have something for it at once, one wakes it.
    if (awaited == kNeverSlept || awaited_.exchange(0, std::memory_order_relaxed) != 0) wake_();
  }

 private:
  // Of one that says nothing of its sleep, as those of tests that are called when they were woken.
  static constexpr uint32_t kNeverSlept = UINT32_MAX;

  std::atomic<uint32_t> awaited_{kNeverSlept};
  const std::function<void()> wake_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SLEEPER_H_
