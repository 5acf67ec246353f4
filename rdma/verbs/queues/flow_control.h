// Limits the messages that each side may send: never more than the other has receive buffers for.
//
// A sender whose peer has no receive buffer is delayed by the hardware ("receiver not ready"), and after some retries
// its connection breaks. So the header of each message contains how many messages its receiver may send in total (a
// count that grows with each receive buffer that is posted again). A side with nothing to send sends a message without
// contents when it owes a quarter of a window.
//
//     offset  bytes
//          0      4   limit: messages that the other side may send over this connection, modulo 2^32
//          4      4   zero
//          8          the user's message; empty: only the header matters
//
// The last kControlCredits of a window are for such messages, so that two sides without credits for their users'
// messages can still grant some. They cannot answer each other for ever: a quarter of a window of messages causes one.
#ifndef FARLOOK_RDMA_VERBS_QUEUES_FLOW_CONTROL_H_
#define FARLOOK_RDMA_VERBS_QUEUES_FLOW_CONTROL_H_

#include <cstdint>

#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {

struct MessageHeader {
  uint32_t limit = 0;
  uint32_t zero = 0;
};
static_assert(sizeof(MessageHeader) == kMessageHeaderBytes);

// Thread safety: none. All counts are modulo 2^32.
class FlowControl {
 public:
  // `window`: receive buffers of this side; `peer_window`: of the other.
  void Begin(uint32_t window, uint32_t peer_window) {
    window_ = window;
    granted_ = window;
    peer_limit_ = peer_window;
  }

  // ---- Sending.

  bool may_send() const { return static_cast<int32_t>(peer_limit_ - sent_) > static_cast<int32_t>(kControlCredits); }
  bool may_send_control() const { return static_cast<int32_t>(peer_limit_ - sent_) > 0; }

  // Returns the header for the next message, which is sent now.
  MessageHeader Send() {
    ++sent_;
    granted_ = reposted_ + window_;
    MessageHeader header;
    header.limit = granted_;
    return header;
  }

  // ---- Receiving.

  // A message arrived. Returns false if the peer broke the rules.
  bool Receive(const MessageHeader& header) {
    ++received_;
    if (static_cast<int32_t>(granted_ - received_) < 0 || header.zero != 0) return false;
    // The other side grants no more than its window beyond the sent messages; an older limit changes nothing.
    if (static_cast<int32_t>(header.limit - peer_limit_) > 0) {
      if (header.limit - sent_ > UINT8_MAX) return false;
      peer_limit_ = header.limit;
    }
    return true;
  }

  // The receive buffer of a message was posted again.
  void Reposted() { ++reposted_; }

  // Returns whether a message without contents is due.
  bool owes_credits() const { return reposted_ + window_ - granted_ >= window_ / 4; }

 private:
  uint32_t window_ = 0;
  uint32_t sent_ = 0;
  uint32_t peer_limit_ = 0;
  uint32_t received_ = 0;
  uint32_t reposted_ = 0;
  uint32_t granted_ = 0;  // limit last sent to the peer, or in a posted message
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_QUEUES_FLOW_CONTROL_H_
