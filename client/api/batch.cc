#include "client/api/batch.h"

namespace farlook::client {

size_t Batch::Begin(Kind kind) {
  const size_t at_once = cores_->local() && IsGet(kind) ? kLocalRun : kRemoteRun;
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

// Returns true if all of them have ended.
bool Batch::StartOn(ClientCore* core, absl::Span<Operation* const> operations, int64_t deadline_ns) {
  if (core == nullptr) [[unlikely]] {
    for (Operation* operation : operations) cores_->moved()->Start(operation, deadline_ns);
    return false;
  }
  if (!IsGet(kind_)) {
    core->StartUntil(operations, deadline_ns);
    return false;
  }
  const bool done = core->StartUntimed(operations);
  core->ProgressNowAndThen();
  return done;
}

bool Batch::Do(size_t count, int64_t deadline_ns) {
  const auto operations = absl::MakeConstSpan(pointers_).first(count);
  if (!cores_->one()) [[unlikely]]
    return DoOnAll(operations, deadline_ns);
  if (StartOn(&cores_->home(), operations, deadline_ns)) return true;
  if (IsGet(kind_)) {
    if (AllDone(count)) return true;
    cores_->home().SetDeadlines(operations, deadline_ns);
  }
  return waiter_->WaitFor(absl::MakeConstSpan(operations_).first(count));
}

// Runs one batch for each group, concurrently.
bool Batch::DoOnAll(absl::Span<Operation* const> operations, int64_t deadline_ns) {
  const auto sorted = cores_->Sort(operations, /*all_of_keys=*/true);
  const auto all = cores_->all();
  if (!sorted.back().empty()) StartOn(nullptr, sorted.back(), deadline_ns);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!sorted[i].empty()) StartOn(all[i], sorted[i], deadline_ns);
  }
  if (AllDone(operations.size())) return true;
  for (size_t i = 0; i < all.size() && IsGet(kind_); ++i) all[i]->SetDeadlines(sorted[i], deadline_ns);
  return waiter_->WaitFor(absl::MakeConstSpan(operations_).first(operations.size()));
}

bool Batch::AllDone(size_t count) const {
  return std::all_of(operations_.begin(), operations_.begin() + static_cast<std::ptrdiff_t>(count),
                     [](const Operation& operation) { return operation.done; });
}

}  // namespace farlook::client
