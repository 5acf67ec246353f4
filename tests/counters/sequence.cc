#include "tests/counters/sequence.h"

#include "absl/status/status.h"

namespace farlook {

absl::StatusOr<int64_t> Sequence::Next() {
  if (next_ == end_) {
    absl::StatusOr<int64_t> first = TakeBlock();
    if (!first.ok()) return first;
    next_ = *first;
    end_ = *first + block_;
  }
  return next_++;
}

absl::StatusOr<int64_t> Sequence::TakeBlock() {
  constexpr int kAttempts = 10;
  absl::StatusOr<int64_t> first;
  for (int i = 0; i < kAttempts; ++i) {
    first = client_->FetchAdd(key_, block_);
    if (absl::IsNotFound(first.status())) {
      absl::Status created = client_->CreateCounter(key_);
      if (!created.ok() && !absl::IsAlreadyExists(created)) return created;
    } else if (!absl::IsUnknown(first.status())) {
      break;
    }
  }
  return first;
}

}  // namespace farlook
