#include "client/batch.h"

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

// True: all of them are done.
bool Batch::StartOn(ClientCore* core, absl::Span<Operation* const> operations, int64_t deadline_ns) {
  if (!IsGet(kind_)) {
    core->StartUntil(operations, deadline_ns);
    return false;
  }
  const bool done = core->StartUntimed(operations);
  core->ProgressNowAndThen();
  return done;
}

void Batch::Do(size_t count, int64_t deadline_ns) {
  const auto operations = absl::MakeConstSpan(pointers_).first(count);
  if (!cores_->one()) [[unlikely]]
    return DoOnAll(operations, deadline_ns);
  if (StartOn(&cores_->home(), operations, deadline_ns)) return;
  if (IsGet(kind_)) {
    if (AllDone(count)) return;
    cores_->home().SetDeadlines(operations, deadline_ns);
  }
  waiter_->Wait([this, count] { return AllDone(count); });
}

// One batch for each group, all of them under way at once.
void Batch::DoOnAll(absl::Span<Operation* const> operations, int64_t deadline_ns) {
  const auto sorted = cores_->Sort(operations, /*all_of_keys=*/true);
  const auto each = [&](auto act) {
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (!sorted[i].empty()) act(cores_->all()[i], sorted[i]);
    }
  };
  each([&](ClientCore* core, const auto& some) { StartOn(core, some, deadline_ns); });
  if (AllDone(operations.size())) return;
  if (IsGet(kind_)) each([&](ClientCore* core, const auto& some) { core->SetDeadlines(some, deadline_ns); });
  waiter_->Wait([this, &operations] { return AllDone(operations.size()); });
}

bool Batch::AllDone(size_t count) const {
  return std::all_of(operations_.begin(), operations_.begin() + static_cast<std::ptrdiff_t>(count),
                     [](const Operation& operation) { return operation.done; });
}

}  // namespace farlook::client
