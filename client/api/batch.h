// Many operations as one call, in runs whose first READs and messages are posted together.
#ifndef FARLOOK_CLIENT_API_BATCH_H_
#define FARLOOK_CLIENT_API_BATCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/api/misuse.h"
#include "client/api/waiter.h"
#include "client/core/core.h"
#include "client/core/cores.h"
#include "client/op/forks.h"
#include "client/op/operation.h"

namespace farlook::client {

// Thread safety: one thread, the cores'. Cores and waiter outlive it.
class Batch {
 public:
  Batch(Cores* cores, Waiter* waiter) : cores_(cores), waiter_(waiter) {}

  // Executes `count` operations of one kind. `fill(i, operation)` sets the i-th, except kind and timeout; `take(i,
  // operation)` receives the ended one, in the order of i. The timeout begins now, and applies to all together. Returns
  // the first status that is neither OK nor NOT_FOUND.
  template <typename Fill, typename Take>
  absl::Status Run(Kind kind, size_t count, int64_t timeout_ms, Fill fill, Take take) {
    if (fork_mark_.in_child()) [[unlikely]]
      return Refuse(count, take);
    [[maybe_unused]] const OneThread::DebugCall call(waiter_->one_thread());
    // Called by while_waiting() of another batch, whose operations are in flight.
    if (running_) [[unlikely]]
      return Batch(cores_, waiter_).Run(kind, count, timeout_ms, fill, take);
    absl::Status first_error;
    const size_t at_once = Begin(kind);
    int64_t deadline_ns = cores_->home().DeadlineFromNow(timeout_ms);
    for (size_t begin = 0; begin < count; begin += at_once) {
      const size_t some = std::min(at_once, count - begin);
      for (size_t i = 0; i < some; ++i) fill(begin + i, &operations_[i]);
      running_ = true;
      const bool given_up = !Do(some, deadline_ns);
      running_ = false;
      if (given_up) [[unlikely]]
        deadline_ns = cores_->home().NowNs();
      for (size_t i = 0; i < some; ++i) {
        Operation& operation = operations_[i];
        if (!operation.status.ok() && !absl::IsNotFound(operation.status) && first_error.ok()) [[unlikely]]
          first_error = operation.status;
        take(begin + i, &operation);
      }
    }
    return first_error;
  }

 private:
  // Number of operations at once. If each result takes a round trip, many. If READs complete at once (shm; DirectReads
  // overlaps the cache misses), few enough for the operations to stay in the L1 cache.
  static constexpr size_t kRemoteRun = 256;
  static constexpr size_t kLocalRun = 64;

  // For a child of fork().
  template <typename Take>
  [[gnu::noinline]] static absl::Status Refuse(size_t count, Take take) {
    Operation operation;
    for (size_t i = 0; i < count; ++i) {
      operation.status = OfParent();
      take(i, &operation);
    }
    return OfParent();
  }
  // Prepares operations of one kind, and returns how many run at once.
  size_t Begin(Kind kind);
  // Executes the first `count` of them until the deadline. Returns false if the user's while_waiting() ended the wait.
  bool Do(size_t count, int64_t deadline_ns);
  // `core`: null for those whose slots move.
  bool StartOn(ClientCore* core, absl::Span<Operation* const> operations, int64_t deadline_ns);
  bool DoOnAll(absl::Span<Operation* const> operations, int64_t deadline_ns);
  bool AllDone(size_t count) const;

  Cores* const cores_;
  Waiter* const waiter_;
  const ForkMark fork_mark_;
  std::vector<Operation> operations_;  // of the current run
  std::vector<Operation*> pointers_;   // to operations_
  Kind kind_ = Kind::kGet;             // of all of them
  bool running_ = false;               // some are in flight
};

// Moves the status of an operation to its key's result: two comparisons in the usual case.
inline void TakeStatus(Operation* operation, absl::Status* status) {
  if (operation->status.ok() && status->ok()) [[likely]]
    return;
  *status = std::exchange(operation->status, absl::OkStatus());
}

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_API_BATCH_H_
