#include "client/core/moved_operations.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/core/operation_router.h"

namespace farlook::client {

MovedOperations::MovedOperations(SlotOwners* owners, const ClientOptions& options, const rdma::Clock& clock)
    : owners_(owners),
      read_only_(options.read_only),
      gets_by_messages_(options.lookups == Lookups::kMessages),
      time_(clock),
      stats_report_(&stats_),
      latencies_(&time_, &stats_, &stats_report_),
      finished_(&latencies_),
      timeouts_(&time_, options.timeout_ms) {
  refused_by_.fill(SlotOwners::kNone);
}

void MovedOperations::Start(Operation* operation, int64_t deadline_ns) {
  finished_.Begun(operation);
  operation->version = 0;
  operation->touched = operation->after_moved = false;
  if (latencies_.Due()) operation->timing = latencies_.Begin();
  if (absl::Status status = OperationRouter::Check(*operation, read_only_); !status.ok()) {
    return finished_.End(operation, std::move(status));
  }
  if (IsGet(operation->kind)) {
    ++stats_.gets;
    if (gets_by_messages_) ++stats_.server_gets;
  }
  timeouts_.Set(operation, deadline_ns);
  timeouts_.Begin(operation);
  queues_[kv::ClusterSlotOf(operation->hash)].started.Push(operation);
}

void MovedOperations::Return(Operation* operation) {
  finished_.Came();
  timeouts_.Set(operation, operation->deadline_ns);
  OperationQueue* const returned = &queues_[kv::ClusterSlotOf(operation->hash)].returned;
  if (operation->only_asked) [[unlikely]] {
    for (Operation* other = returned->front(); other != nullptr; other = returned->Next(other)) {
      const bool was_sent_later = other->number > operation->number && other->number != Operation::kNotSent;
      if (was_sent_later && IsWrite(other->kind) && other->key == operation->key) {
        return returned->PushBefore(other, operation);
      }
    }
  }
  returned->Push(operation);
}

void MovedOperations::Turn(absl::Span<ClientCore* const> cores) {
  if (holds()) {
    DeadlineList over;
    if (time_.NowNs() >= timeouts_.deadlines().earliest_ns()) timeouts_.deadlines().TakeOver(time_.last_ns(), &over);
    EndOverdue(&over);
  }
  TakeReturned(cores);
  if (owners_->unsettled()) Open(cores);
}

void MovedOperations::TakeReturned(absl::Span<ClientCore* const> cores) {
  for (size_t i = 0; i < cores.size(); ++i) {
    if (!cores[i]->has_moved()) continue;
    const int64_t now_ns = time_.NowNs();
    cores[i]->TakeMoved([this, i, now_ns](Operation* operation) {
      Refused(i, kv::ClusterSlotOf(operation->hash), now_ns);
      Return(operation);
    });
  }
}

void MovedOperations::Refused(size_t core, size_t slot, int64_t now_ns) {
  owners_->Close(slot);
  refused_by_[slot] = static_cast<uint8_t>(core);
  if (owners_->Owner(slot) != core || now_ns < next_try_ns_) return;
  pause_ns_ =
      now_ns - next_try_ns_ > kForgetNs ? kLeastPauseNs : std::clamp(2 * pause_ns_, kLeastPauseNs, kMostPauseNs);
  next_try_ns_ = now_ns + pause_ns_;
}

void MovedOperations::Open(absl::Span<ClientCore* const> cores) {
  for (ClientCore* core : cores) {
    if (!core->ready()) core->WithdrawMoved();
  }
  TakeReturned(cores);
  kv::SlotSet stay_closed;
  for (const ClientCore* core : cores) {
    core->ForEachRequest([&stay_closed](const Operation& operation) {
      if (IsOfAKey(operation.kind)) stay_closed.set(kv::ClusterSlotOf(operation.hash));
    });
  }
  const bool pauses = time_.NowNs() < next_try_ns_;
  for (size_t slot = 0; slot < kv::kClusterSlots && pauses; ++slot) {
    if (refused_by_[slot] == owners_->Owner(slot)) stay_closed.set(slot);
  }
  const kv::SlotSet opened = owners_->Open(stay_closed);
  if (opened.none()) return;
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    if (opened[slot]) refused_by_[slot] = SlotOwners::kNone;
  }
  if (!holds()) return;
  Release(opened, [this, cores](Operation* operation) {
    cores[owners_->Route(kv::ClusterSlotOf(operation->hash))]->Resume(operation);
  });
  for (ClientCore* core : cores) core->Flush();
}

void MovedOperations::Release(const kv::SlotSet& slots, absl::FunctionRef<void(Operation*)> resume) {
  for (auto it = queues_.begin(); it != queues_.end();) {
    if (!slots[it->first]) {
      ++it;
      continue;
    }
    OperationQueue all;
    all.Append(&it->second.returned);
    all.Append(&it->second.started);
    it = queues_.erase(it);
    bool is_first = true;  // of the writes
    while (Operation* const operation = all.Pop()) {
      operation->after_moved =
          IsWrite(operation->kind) && std::exchange(is_first, is_first && !IsWrite(operation->kind));
      finished_.Left(operation);
      resume(operation);
    }
  }
}

void MovedOperations::GiveUp(absl::FunctionRef<bool(const Operation*)> which) {
  DeadlineList over;
  timeouts_.deadlines().TakeIf(which, &over);
  EndOverdue(&over);
}

void MovedOperations::EndOverdue(DeadlineList* over) {
  while (Operation* const operation = over->Pop()) {
    const size_t slot = kv::ClusterSlotOf(operation->hash);
    operation->Linked<QueueTag>::Unlink();
    const auto its = queues_.find(slot);
    if (its->second.returned.empty() && its->second.started.empty()) queues_.erase(its);
    ++stats_.timeouts;
    finished_.End(operation,
                  absl::DeadlineExceededError(absl::StrCat("not done in time: slot ", slot,
                                                           " of the cluster is being moved, or no group has it")));
  }
}

int64_t MovedOperations::due_ns(int64_t now_ns) {
  int64_t due_ns = holds() ? timeouts_.deadlines().earliest_ns() : Timeouts::kNever;
  // Operations that wait for replies to earlier requests wake up with those requests' cores.
  if (owners_->unsettled() && next_try_ns_ > now_ns) due_ns = std::min(due_ns, next_try_ns_);
  return due_ns;
}

}  // namespace farlook::client
