#include "client/batch.h"

namespace farlook::client {

size_t Batch::Begin(Kind kind) {
  const size_t at_once = core_->local() && IsGet(kind) ? kLocalRun : kRemoteRun;
  if (operations_.size() >= at_once && kind == kind_) [[likely]]
    return at_once;
  operations_.assign(std::max(operations_.size(), at_once), Operation());
  pointers_.clear();
  for (Operation& operation : operations_) {
    operation.kind = kind;
    operation.blocking = true;
    pointers_.push_back(&operation);
  }
  kind_ = kind;
  return at_once;
}

void Batch::Do(size_t count, int64_t deadline_ns) {
  const auto operations = absl::MakeConstSpan(pointers_).first(count);
  if (IsGet(kind_)) [[likely]] {
    const bool done = core_->StartUntimed(operations);
    core_->ProgressNowAndThen();
    if (done || AllDone(count)) return;
    core_->SetDeadlines(operations, deadline_ns);
  } else {
    core_->StartUntil(operations, deadline_ns);
  }
  waiter_->Wait([this, count] { return AllDone(count); });
}

bool Batch::AllDone(size_t count) const {
  return std::all_of(operations_.begin(), operations_.begin() + static_cast<std::ptrdiff_t>(count),
                     [](const Operation& operation) { return operation.done; });
}

}  // namespace farlook::client
