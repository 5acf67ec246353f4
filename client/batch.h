// Many operations as one call, in runs whose first READs and messages are posted together.
#ifndef FARLOOK_CLIENT_BATCH_H_
#define FARLOOK_CLIENT_BATCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/core.h"
#include "client/cores.h"
#include "client/operation.h"
#include "client/waiter.h"

namespace farlook::client {

// Thread safety: one thread, the cores'. Cores and waiter outlive it.
class Batch {
 public:
  Batch(Cores* cores, Waiter* waiter) : cores_(cores), waiter_(waiter) {}

  // Does `count` operations of one kind. `fill(i, operation)` says what the i-th is, kind and time apart;
  // `take(i, operation)` has how it ended, in the order of i. The time begins now, and is that of all. Returns the
  // first status that is neither OK nor NOT_FOUND.
  template <typename Fill, typename Take>
  absl::Status Run(Kind kind, size_t count, int64_t timeout_ms, Fill fill, Take take) {
    absl::Status first_error;
    const size_t at_once = Begin(kind);
    const int64_t deadline_ns = cores_->home().DeadlineFromNow(timeout_ms);
    for (size_t begin = 0; begin < count; begin += at_once) {
      const size_t some = std::min(at_once, count - begin);
      for (size_t i = 0; i < some; ++i) fill(begin + i, &operations_[i]);
      Do(some, deadline_ns);
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
  // Where an answer is a round trip, as many at once as may be. Where READs are made at once (shm; DirectReads overlaps
  // the cache misses), few enough for the operations to stay in the first cache.
  static constexpr size_t kRemoteRun = 256;
  static constexpr size_t kLocalRun = 64;

  // Prepares operations of one kind, and returns how many run at once.
  size_t Begin(Kind kind);
  // Does the first `count` of them until the deadline.
  void Do(size_t count, int64_t deadline_ns);
  bool StartOn(ClientCore* core, absl::Span<Operation* const> operations, int64_t deadline_ns);
  void DoOnAll(absl::Span<Operation* const> operations, int64_t deadline_ns);
  bool AllDone(size_t count) const;

  Cores* const cores_;
  Waiter* const waiter_;
  std::vector<Operation> operations_;  // of the run at hand
  std::vector<Operation*> pointers_;   // to them
  Kind kind_ = Kind::kGet;             // of all of them
};

// Moves how an operation ended to its key's result: the usual case costs two comparisons.
inline void TakeStatus(Operation* operation, absl::Status* status) {
  if (operation->status.ok() && status->ok()) [[likely]]
    return;
  *status = std::exchange(operation->status, absl::OkStatus());
}

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_BATCH_H_
