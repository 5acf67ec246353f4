// Waits for a client's cores: polls them, first spinning and then sleeping.
#ifndef FARLOOK_CLIENT_API_WAITER_H_
#define FARLOOK_CLIENT_API_WAITER_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/api/misuse.h"
#include "client/core/core.h"
#include "client/core/cores.h"
#include "client/op/operation.h"

namespace farlook::client {

// Thread safety: one thread, the cores'. The cores use the real clock, and outlive it.
class Waiter {
 public:
  // Spins for `spin_us` before each sleep, unless a server's thread runs on the caller's processor. `while_waiting`:
  // see ClientOptions. It may use the cores, like any call between two turns of a wait.
  Waiter(Cores* cores, int64_t spin_us, std::function<int64_t()> while_waiting = {})
      : cores_(cores), spin_us_(spin_us), while_waiting_(std::move(while_waiting)) {}

  // Returns when `done()` is true, or at `end_ns` of the cores' clock. Returns false if while_waiting() ended the wait.
  // REQUIRES a deadline of an operation, or `end_ns`, that ends the wait.
  bool Wait(absl::FunctionRef<bool()> done, int64_t end_ns = ClientCore::kNoDeadline);
  // Returns when all of these operations have ended. Returns false if while_waiting() ended the wait, and the
  // operations with it. REQUIRES that unfinished operations have deadlines.
  bool WaitFor(absl::Span<const Operation> operations);

  // Entered while a wait sleeps; other calls of the client may enter it too.
  OneThread* one_thread() { return &one_thread_; }

  // Connects a core. UNAVAILABLE: nothing answers in time. Otherwise the server's reason, or the address's error.
  // `wait_for_server`: tries until the timeout has passed, as long as the reason may pass.
  absl::Status Connect(ClientCore* core, int64_t timeout_ms, bool wait_for_server = false);
  // Connects all cores, concurrently. Returns the status of a core that failed for a permanent reason, or OK.
  absl::Status ConnectAll(int64_t timeout_ms, bool wait_for_server);

 private:
  bool Waits(const ClientCore& core) const { return cores_->one() || core.busy(); }
  void Greet();
  void Sleep(int64_t now_ns, int64_t end_ns);
  bool GoesOn(int64_t now_ns, int64_t* ask_ns);

  Cores* const cores_;
  const int64_t spin_us_;
  const std::function<int64_t()> while_waiting_;
  OneThread one_thread_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_API_WAITER_H_
