#include "rdma/verbs/queues/receive_queue.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/device/diagnosis.h"
#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {

absl::Status ReceiveQueue::Begin(bool shared, AsyncSink* sink) {
  if (!shared || device_->traits().max_shared_receives == 0) return absl::OkStatus();
  absl::StatusOr<Shared> made = Create(sink);
  if (!made.ok()) return made.status();
  shared_ = *std::move(made);
  return absl::OkStatus();
}

absl::StatusOr<ReceiveQueue::Shared> ReceiveQueue::Create(AsyncSink* sink) {
  ibv_srq_init_attr attributes = {};
  attributes.srq_context = sink;
  attributes.attr.max_wr = std::min(device_->traits().max_shared_receives, kMaxSharedReceives);
  attributes.attr.max_sge = 1;
  Shared made(ibv_create_srq(device_->domain(), &attributes));
  if (made == nullptr) return CannotCreate("a shared receive queue", device_->name(), errno);
  capacity_ = std::min(attributes.attr.max_wr, kMaxSharedReceives);
  return made;
}

void ReceiveQueue::Shrink(AsyncSink* sink) {
  if (shared_ == nullptr || reserved_ > 0 || posted_ == 0) return;
  absl::StatusOr<Shared> made = Create(sink);
  // Otherwise the buffers stay, and the next client uses them.
  if (!made.ok() || ibv_destroy_srq(shared_.get()) != 0) return;
  (void)shared_.release();
  shared_ = *std::move(made);
  for (uint32_t slot = 0; slot < with_device_.size(); ++slot) {
    if (with_device_[slot]) pool_->Put(slot);
  }
  with_device_.clear();
  posted_ = 0;
}

absl::StatusOr<uint32_t> ReceiveQueue::Reserve() {
  const uint32_t ample = shared_ != nullptr ? kServerWindow : kClientWindow;
  const uint32_t window = reserved_ + ample <= kAmpleReceives ? ample : kSparingWindow;
  if (shared_ != nullptr) {
    if (reserved_ + window > capacity_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no receive buffers for another client: all ", capacity_, " are given out; add workers"));
    }
    while (posted_ < reserved_ + window) {
      if (absl::Status status = pool_->Reserve(1); !status.ok()) return status;
      const uint32_t slot = pool_->Take();
      if (const int error = Post(slot, nullptr); error != 0) {
        pool_->Put(slot);
        return CannotCreate("a receive", device_->name(), error);
      }
    }
  }
  reserved_ += window;
  return window;
}

absl::Status ReceiveQueue::Fill(ibv_qp* pair, uint32_t window, std::vector<uint32_t>* slots) {
  if (shared_ != nullptr) return absl::OkStatus();
  if (absl::Status status = pool_->Reserve(window); !status.ok()) return status;
  for (uint32_t i = 0; i < window; ++i) {
    const uint32_t slot = pool_->Take();
    if (const int error = Post(slot, pair); error != 0) {
      pool_->Put(slot);
      return CannotCreate("a receive", device_->name(), error);
    }
    slots->push_back(slot);
  }
  return absl::OkStatus();
}

void ReceiveQueue::Repost(uint32_t slot, ibv_qp* pair) {
  // A window more than needed: a queue pair that ends in the middle of a message may keep the buffer that it was
  // filling.
  if (shared_ != nullptr ? posted_ >= reserved_ + kServerWindow : pair == nullptr) return pool_->Put(slot);
  // Cannot fail, as there was room before, unless the queue is broken: then its connections end, and the slot with
  // them.
  Post(slot, pair);
}

int ReceiveQueue::Post(uint32_t slot, ibv_qp* pair) {
  ibv_sge piece = {reinterpret_cast<uintptr_t>(pool_->data(slot)), kSlotBytes, pool_->lkey(slot)};
  ibv_recv_wr request = {};
  request.wr_id = kReceive | slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  if (shared_ == nullptr) return ibv_post_recv(pair, &request, &refused);
  const int error = ibv_post_srq_recv(shared_.get(), &request, &refused);
  if (error != 0) return error;
  if (slot >= with_device_.size()) with_device_.resize(slot + 1);
  with_device_[slot] = true;
  ++posted_;
  return 0;
}

}  // namespace farlook::rdma::verbs
