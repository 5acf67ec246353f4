// Waiting for a ClientCore: polls it, spinning at first and then asleep.
#ifndef FARLOOK_CLIENT_WAITER_H_
#define FARLOOK_CLIENT_WAITER_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/core.h"

namespace farlook::client {

// Thread safety: one thread, the core's. The core runs on the real clock, and outlives it.
class Waiter {
 public:
  // Spins for `spin_us` before each sleep, unless the server's thread runs on the caller's processor.
  Waiter(ClientCore* core, int64_t spin_us) : core_(core), spin_us_(spin_us) {}

  // Returns when `done()`, or at `end_ns` of the core's clock. REQUIRES that something ends the wait: an operation's
  // deadline is set, or there is an end.
  void Wait(absl::FunctionRef<bool()> done, int64_t end_ns = ClientCore::kNoDeadline);

  // Connects. UNAVAILABLE when nothing answers in time; else the server's reason, or what is wrong with the address.
  // `wait_for_server`: while the reason may pass, it goes on trying until the time is over.
  absl::Status Connect(int64_t timeout_ms, bool wait_for_server = false);

 private:
  void Sleep(int64_t now_ns, int64_t end_ns);

  ClientCore* const core_;
  const int64_t spin_us_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_WAITER_H_
