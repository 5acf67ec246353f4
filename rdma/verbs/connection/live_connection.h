// An established connection: posting, arrivals, and the detection of the peer's loss.
//
// It reports events; its owner acts on them (connection.h).
#ifndef FARLOOK_RDMA_VERBS_CONNECTION_LIVE_CONNECTION_H_
#define FARLOOK_RDMA_VERBS_CONNECTION_LIVE_CONNECTION_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/transport.h"
#include "rdma/verbs/connection/endpoint_device.h"
#include "rdma/verbs/connection/handshake.h"
#include "rdma/verbs/device/pair.h"
#include "rdma/verbs/handshake/limits.h"
#include "rdma/verbs/queues/flow_control.h"
#include "rdma/verbs/queues/liveness.h"
#include "rdma/verbs/queues/send_queue.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Device and pair must outlive it.
class LiveConnection {
 public:
  // Nothing is issued before Release(): a server must wait until the client has completed the handshake.
  LiveConnection(EndpointDevice* device, const Pair& pair, const Agreement& agreement);

  // ---- Posting; see Connection.

  bool Read(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) {
    return send_.Read(wr_id, to, remote_address, rkey);
  }
  bool Atomic(SendQueue::Kind kind, uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
              uint64_t operand, uint64_t desired) {
    return send_.Atomic(kind, wr_id, old_value, remote_address, rkey, operand, desired);
  }
  // REQUIRES: 1 to kMaxMessageBytes in total.
  bool Send(absl::string_view head, absl::string_view body) {
    if (ABSL_PREDICT_FALSE(!flow_.may_send() || !send_.CanSend(head.size() + body.size()))) return false;
    send_.Send(flow_.Send(), head, body);
    return true;
  }
  // A READ that is polled for at once: see SendQueue.
  bool ReadAlone(const Sge& to, uint64_t remote_address, uint32_t rkey) {
    return !held_ && send_.ReadAlone(queue_pair_, to, remote_address, rkey);
  }
  bool CompleteAlone(const ibv_wc& wc) {
    if (ABSL_PREDICT_FALSE(wc.status != IBV_WC_SUCCESS || !send_.CompleteAlone(wc.wr_id))) return false;
    liveness_.OnReceived();
    return true;
  }
  void RecordAlone(uint64_t wr_id, const Sge& to, uint64_t remote_address, uint32_t rkey) {
    send_.RecordAlone(wr_id, to, remote_address, rkey);
  }
  // Returns whether the peer has room for a message.
  bool may_send() const { return flow_.may_send(); }

  // ---- Issuing.

  SendQueue::Issued Issue() { return ABSL_PREDICT_FALSE(held_) ? SendQueue::Issued::kAll : send_.Issue(queue_pair_); }
  // The reason why not all was issued. A separate call, so that a caller that issued all needs no register for it.
  enum class Unissued : uint8_t {
    kWaits,     // for completions
    kNotTaken,  // the device accepts nothing; errno is the reason
    kNonsense,  // the next request is invalid
  };
  Unissued WhyNotAll(SendQueue::Issued issued) const;
  // Notifies the peer of its credits, if that is due and there is room.
  void SendCredits();
  // Returns whether Issue() or SendCredits() has more to do.
  bool has_more() const { return !send_.all_issued() || flow_.owes_credits(); }

  // From now on the peer's word for probes may be READ.
  void Granted() { may_probe_ = true; }

  bool held() const { return held_; }
  void Release() { held_ = false; }

  // ---- Arrivals.

  // The device completed a request of this side. Returns whether `*done` is for the user; its connection is not set.
  bool OnCompletion(const ibv_wc& wc, WcStatus status, Completion* done) {
    if (ABSL_PREDICT_TRUE(status == WcStatus::kSuccess)) liveness_.OnReceived();
    return send_.Complete(static_cast<uint32_t>(wc.wr_id), status, done);
  }

  enum class Arrived : uint8_t {
    kMessage,
    kHeader,     // a message without contents
    kMalformed,  // or more than the peer was granted
  };
  // `*message` receives a view into the slot.
  Arrived OnMessage(const ibv_wc& wc, const char* slot, absl::Span<const char>* message);
  void OnReceived() { liveness_.OnReceived(); }
  // A message's slot was posted again. Returns whether SendCredits() is due.
  bool Reposted() {
    flow_.Reposted();
    return flow_.owes_credits();
  }

  // ---- Time.

  enum class Ticked : uint8_t {
    kFine,
    kProbe,           // Issue() is due
    kDead,            // the peer does not answer
    kNotEstablished,  // the client did not complete the handshake in time
  };
  Ticked Tick();

  // ---- Ending: the number of requests that the device will still complete; then those that it did not complete.

  uint32_t in_flight() const { return send_.in_flight(); }
  bool FlushNext(Completion* done) { return send_.FlushNext(done); }

 private:
  bool held_ = true;
  uint32_t held_ticks_ = 0;
  ibv_qp* const queue_pair_;
  SendQueue send_;
  FlowControl flow_;
  Liveness liveness_;
  bool may_probe_;  // the peer allows this side to READ
  uint32_t withheld_ticks_ = 0;
  const uint64_t probe_address_;
  const uint32_t probe_rkey_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_CONNECTION_LIVE_CONNECTION_H_
