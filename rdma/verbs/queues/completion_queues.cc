#include "rdma/verbs/queues/completion_queues.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rdma/verbs/device/diagnosis.h"
#include "rdma/verbs/handshake/negotiation.h"

namespace farlook::rdma::verbs {

CompletionQueues::~CompletionQueues() {
  if (channel_ == nullptr) return;
  while (TakeEvent()) {
  }
  for (const Queue& queue : queues_) {
    // Destroying waits until every event is acknowledged.
    if (queue.events > 0) ibv_ack_cq_events(queue.queue, queue.events);
    ibv_destroy_cq(queue.queue);
  }
  ibv_destroy_comp_channel(channel_);
}

absl::Status CompletionQueues::Begin(uint32_t shared_entries) {
  shared_entries_ = shared_entries;
  channel_ = ibv_create_comp_channel(device_->context());
  if (channel_ == nullptr) return CannotCreate("a completion channel", device_->name(), errno);
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  return Add();
}

absl::Status CompletionQueues::Add() {
  const uint32_t most = device_->traits().max_completions;
  const uint32_t entries = std::min(most, CompletionEntries(device_->traits()) + shared_entries_);
  ibv_cq* const queue = ibv_create_cq(device_->context(), static_cast<int>(entries), sink_, channel_, 0);
  if (queue == nullptr) return CannotCreate("a completion queue", device_->name(), errno);
  queues_.push_back({queue, entries, std::min(entries, shared_entries_), 0});
  only_ = queues_.size() == 1 ? queue : nullptr;
  return absl::OkStatus();
}

absl::StatusOr<ibv_cq*> CompletionQueues::Reserve(uint32_t entries) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (Queue& queue : queues_) {
      if (queue.entries - queue.reserved < entries) continue;
      queue.reserved += entries;
      return queue.queue;
    }
    if (attempt == 0) {
      if (absl::Status status = Add(); !status.ok()) return status;
    }
  }
  return absl::ResourceExhaustedError("the device's completion queues are too short for one connection");
}

void CompletionQueues::Release(const ibv_cq* queue, uint32_t entries) {
  for (Queue& candidate : queues_) {
    if (candidate.queue == queue) candidate.reserved -= entries;
  }
}

int CompletionQueues::PollAll(ibv_wc* to, int most) {
  int count = 0;
  const size_t first = next_++;
  for (size_t i = 0; i < queues_.size() && count < most; ++i) {
    const int added = ibv_poll_cq(queues_[(first + i) % queues_.size()].queue, most - count, to + count);
    if (added < 0) return added;
    count += added;
  }
  return count;
}

void CompletionQueues::Arm() {
  for (const Queue& queue : queues_) ibv_req_notify_cq(queue.queue, /*solicited_only=*/0);
}

bool CompletionQueues::TakeEvent() {
  ibv_cq* woken = nullptr;
  void* context = nullptr;
  if (channel_ == nullptr || ibv_get_cq_event(channel_, &woken, &context) != 0) return false;
  for (Queue& queue : queues_) {
    if (queue.queue == woken) ++queue.events;
  }
  return true;
}

}  // namespace farlook::rdma::verbs
