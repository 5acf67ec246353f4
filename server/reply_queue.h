// What a connection has to say to its client, in order: posted while the send queue takes it, kept behind that.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_REPLY_QUEUE_H_
#define FARLOOK_SERVER_REPLY_QUEUE_H_

#include <cstddef>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "rdma/transport.h"

namespace farlook::server {

class ReplyQueue {
 public:
  // The connection outlives this.
  explicit ReplyQueue(rdma::Connection* connection) : connection_(connection) {}

  // Posts a message: then the connection wants a Ring(), unless `rings`: this does it. False: it must wait its turn;
  // see Queue().
  bool Post(absl::string_view head, absl::string_view payload, bool rings = false) {
    if (!waiting_.empty()) return false;
    return rings ? connection_->PostSendAndRing(head, payload) : connection_->PostSend(head, payload);
  }
  // Keeps one that could not be posted: Continue() has work. False: `most` messages wait already.
  bool Queue(absl::string_view head, absl::string_view payload, size_t most);

  // Posts what waits, as far as the send queue takes it. Returns whether it took any; then Ring() is wanted.
  bool Continue();

  bool empty() const { return waiting_.empty(); }
  // Of memory that what waits takes.
  size_t bytes() const { return bytes_; }
  // Forgets what waits.
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

#endif  // FARLOOK_SERVER_REPLY_QUEUE_H_
