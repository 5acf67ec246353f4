#include "client/multi_get.h"

#include <algorithm>
#include <utility>

namespace farlook::client {
namespace {

// Moves what a get ended with to its key's result. Keeps the first status that is neither success nor absence.
void Harvest(Operation* operation, Client::Result* result, absl::Status* first_error) {
  result->value.version = operation->version;
  if (operation->status.ok() && result->status.ok()) [[likely]]
    return;
  if (!operation->status.ok()) {
    result->value.data.clear();
    if (!absl::IsNotFound(operation->status) && first_error->ok()) *first_error = operation->status;
  }
  result->status = std::exchange(operation->status, absl::OkStatus());
}

}  // namespace

absl::Status MultiGetter::Run(absl::Span<const absl::string_view> keys, absl::Span<Client::Result> results,
                              int64_t timeout_ms) {
  const size_t batch = core_->local() ? kLocalBatch : kRemoteBatch;
  if (operations_.size() < batch) {
    operations_.resize(batch);
    pointers_.clear();
    for (Operation& operation : operations_) pointers_.push_back(&operation);
  }
  absl::Status first_error;
  int64_t deadline_ns = 0;  // of the whole call, once any of it had to wait
  for (size_t begin = 0; begin < keys.size(); begin += batch) {
    const size_t count = std::min(batch, keys.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      Operation& operation = operations_[i];
      operation.key = keys[begin + i];
      operation.to.string = &results[begin + i].value.data;
      operation.blocking = true;
    }
    core_->StartUntimed(absl::MakeConstSpan(pointers_).first(count));
    core_->ProgressNowAndThen();
    if (!AllDone(count)) {
      if (deadline_ns == 0) deadline_ns = core_->DeadlineFromNow(timeout_ms);
      for (size_t i = 0; i < count; ++i) core_->SetDeadline(&operations_[i], deadline_ns);
      waiter_->Wait([this, count] { return AllDone(count); });
    }
    for (size_t i = 0; i < count; ++i) Harvest(&operations_[i], &results[begin + i], &first_error);
  }
  return first_error;
}

bool MultiGetter::AllDone(size_t count) const {
  return std::all_of(operations_.begin(), operations_.begin() + static_cast<std::ptrdiff_t>(count),
                     [](const Operation& operation) { return operation.done; });
}

}  // namespace farlook::client
