#include "server/session/reply_queue.h"

#include "absl/strings/str_cat.h"

namespace farlook::server {

bool ReplyQueue::Queue(absl::string_view head, absl::string_view payload, size_t most) {
  if (waiting_.size() >= most) return false;
  waiting_.push_back(absl::StrCat(head, payload));
  bytes_ += BytesOf(waiting_.back());
  return true;
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
