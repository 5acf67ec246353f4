#include "rdma/verbs/connection/live_connection.h"

#include <cstring>

namespace farlook::rdma::verbs {

LiveConnection::LiveConnection(EndpointDevice* device, const Pair& pair, const Agreement& agreement)
    : queue_pair_(pair.queue_pair.get()),
      send_(device->send_resources(), agreement.plan, pair.queue_pair.inline_bytes(), pair.tag),
      may_probe_(!agreement.peer.reads_withheld),
      probe_address_(agreement.peer.probe_address),
      probe_rkey_(agreement.peer.probe_rkey) {
  flow_.Begin(pair.window, agreement.peer.window);
}

LiveConnection::Unissued LiveConnection::WhyNotAll(SendQueue::Issued issued) const {
  if (issued == SendQueue::Issued::kNotTaken) return Unissued::kNotTaken;
  return send_.refused() ? Unissued::kNonsense : Unissued::kWaits;
}

void LiveConnection::SendCredits() {
  if (flow_.owes_credits() && flow_.may_send_control() && send_.CanSend(0)) send_.Send(flow_.Send(), {}, {});
}

LiveConnection::Arrived LiveConnection::OnMessage(const ibv_wc& wc, const char* slot, absl::Span<const char>* message) {
  MessageHeader header;
  const uint32_t bytes = wc.byte_len;
  if (bytes >= sizeof(header)) memcpy(&header, slot, sizeof(header));
  if (ABSL_PREDICT_FALSE(bytes < sizeof(header) || bytes > sizeof(header) + kMaxMessageBytes ||
                         (wc.wc_flags & IBV_WC_WITH_IMM) != 0 || !flow_.Receive(header))) {
    return Arrived::kMalformed;
  }
  *message = absl::MakeConstSpan(slot + sizeof(header), bytes - sizeof(header));
  return message->empty() ? Arrived::kHeader : Arrived::kMessage;
}

LiveConnection::Ticked LiveConnection::Tick() {
  if (held_) return ++held_ticks_ < kEstablishTicks ? Ticked::kFine : Ticked::kNotEstablished;
  switch (liveness_.Tick(send_.in_flight() > 0)) {
    case Liveness::Verdict::kFine:
      return Ticked::kFine;
    case Liveness::Verdict::kProbe:
      // A probe would end the connection. A server that never grants counts as dead.
      if (!may_probe_) return ++withheld_ticks_ < kWithheldTicks ? Ticked::kFine : Ticked::kDead;
      return send_.Probe(probe_address_, probe_rkey_) ? Ticked::kProbe : Ticked::kFine;
    case Liveness::Verdict::kDead:
      break;
  }
  return Ticked::kDead;
}

}  // namespace farlook::rdma::verbs
