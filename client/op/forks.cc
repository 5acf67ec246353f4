#include "client/op/forks.h"

#include <pthread.h>

namespace farlook::client {

uint32_t CountForks() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  return forks.load(std::memory_order_relaxed);
}

absl::Status OfParent() { return absl::FailedPreconditionError(kOfParent); }

}  // namespace farlook::client
