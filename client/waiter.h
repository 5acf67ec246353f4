// Waiting for a client's cores: polls them, spinning at first and then asleep.
#ifndef FARLOOK_CLIENT_WAITER_H_
#define FARLOOK_CLIENT_WAITER_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/core.h"
#include "client/cores.h"

namespace farlook::client {

// Thread safety: one thread, the cores'. They run on the real clock, and outlive it.
class Waiter {
 public:
  // Spins for `spin_us` before each sleep, unless a server's thread runs on the caller's processor.
  Waiter(Cores* cores, int64_t spin_us) : cores_(cores), spin_us_(spin_us) {}

  // Returns when `done()`, or at `end_ns` of the cores' clock. REQUIRES that something ends the wait: an operation's
  // deadline is set, or there is an end.
  void Wait(absl::FunctionRef<bool()> done, int64_t end_ns = ClientCore::kNoDeadline);

  // Connects one of them. UNAVAILABLE when nothing answers in time; else the server's reason, or what is wrong with the
  // address. `wait_for_server`: while the reason may pass, it goes on trying until the time is over.
  absl::Status Connect(ClientCore* core, int64_t timeout_ms, bool wait_for_server = false);
  // All of them, by turns of which none waits for another. Returns how those ended that did not connect for a reason
  // that will not pass, or OK.
  absl::Status ConnectAll(int64_t timeout_ms, bool wait_for_server);

 private:
  bool Waits(const ClientCore& core) const { return cores_->one() || core.busy(); }
  void Greet();
  void Sleep(int64_t now_ns, int64_t end_ns);

  Cores* const cores_;
  const int64_t spin_us_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_WAITER_H_
