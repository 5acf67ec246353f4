// Many gets as one call, in batches whose READs are posted together and rung once.
#ifndef FARLOOK_CLIENT_MULTI_GET_H_
#define FARLOOK_CLIENT_MULTI_GET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "client/core.h"
#include "client/operation.h"
#include "client/waiter.h"

namespace farlook::client {

// Thread safety: one thread, the core's. Core and waiter outlive it.
class MultiGetter {
 public:
  MultiGetter(ClientCore* core, Waiter* waiter) : core_(core), waiter_(waiter) {}

  // As Client::MultiGet. REQUIRES results.size() == keys.size().
  absl::Status Run(absl::Span<const absl::string_view> keys, absl::Span<Client::Result> results, int64_t timeout_ms);

 private:
  // Where a READ is a round trip, as many at once as may be. Where it is made at once (shm; DirectReads overlaps the
  // cache misses), few enough for the operations to stay in the first cache.
  static constexpr size_t kRemoteBatch = 256;
  static constexpr size_t kLocalBatch = 64;

  bool AllDone(size_t count) const;

  ClientCore* const core_;
  Waiter* const waiter_;
  std::vector<Operation> operations_;  // of the batch at hand
  std::vector<Operation*> pointers_;   // to them
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_MULTI_GET_H_
