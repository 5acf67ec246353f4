// Replies of a connection, in order: posted while the send queue has room, otherwise kept here.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_SESSION_REPLY_QUEUE_H_
#define FARLOOK_SERVER_SESSION_REPLY_QUEUE_H_

#include <cstddef>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "rdma/transport.h"

namespace farlook::server {

class ReplyQueue {
 public:
  // `connection` must outlive this.
  explicit ReplyQueue(rdma::Connection* connection) : connection_(connection) {}

  // Posts a message. The connection then needs a Ring(), unless `rings` is set: this rings by itself. Returns false if
  // the message must wait; see Queue().
  [[gnu::always_inline]] bool Post(absl::string_view head, absl::string_view payload, bool rings = false) {
    if (!waiting_.empty()) return false;
    return rings ? connection_->PostSendAndRing(head, payload) : connection_->PostSend(head, payload);
  }
  // Keeps a message that could not be posted; Continue() will post it. Returns false if `most` messages wait already.
  bool Queue(absl::string_view head, absl::string_view payload, size_t most);

  // Posts waiting messages until the send queue is full. Returns whether any was posted; then Ring() is needed.
  bool Continue();

  bool empty() const { return waiting_.empty(); }
  // Bytes of memory that waiting messages take.
  size_t bytes() const { return bytes_; }
  // Drops the waiting messages.
  void Clear() {
    waiting_.clear();
    bytes_ = 0;
  }

 private:
  static size_t BytesOf(const std::string& message) { return sizeof(message) + message.size(); }

  rdma::Connection* const connection_;
  std::deque<std::string> waiting_;
  size_t bytes_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_REPLY_QUEUE_H_
