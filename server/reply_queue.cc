#include "server/reply_queue.h"

#include "absl/strings/str_cat.h"

namespace farlook::server {

ReplyQueue::Sent ReplyQueue::Send(absl::string_view head, absl::string_view payload, size_t most) {
  if (waiting_.empty() && connection_->PostSend(head, payload)) return Sent::kPosted;
  if (waiting_.size() >= most) return Sent::kTooMany;
  waiting_.push_back(absl::StrCat(head, payload));
  bytes_ += BytesOf(waiting_.back());
  return Sent::kQueued;
}

bool ReplyQueue::Continue() {
  bool progress = false;
  while (!waiting_.empty() && connection_->PostSend(waiting_.front(), {})) {
    bytes_ -= BytesOf(waiting_.front());
    waiting_.pop_front();
    progress = true;
  }
  return progress;
}

}  // namespace farlook::server
