#include "rdma/verbs/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "rdma/clock.h"
#include "rdma/verbs/diagnosis.h"
#include "rdma/verbs/wc_status.h"

namespace farlook::rdma::verbs {

VerbsConnection::VerbsConnection(ConnectionTable* table, EndpointDevice* device, Role role)
    : tag(table->Add(this)),
      table_(table),
      device_(device),
      role_(role),
      state_(role == Role::kClient ? State::kDialing : State::kConnected),
      send_(device->send_resources()) {
  pair_.tag = tag;
}

VerbsConnection::~VerbsConnection() {
  if (state_ != State::kEnding && state_ != State::kOver) {
    pair_.queue_pair.Fail();
    HangUp();
  }
  DestroyPair();
  table_->Remove(this);
}

// ---- Posting ----

bool VerbsConnection::PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) {
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected)) return false;
  return send_.Read(wr_id, to, remote_address, rkey);
}

bool VerbsConnection::PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                                   uint64_t delta) {
  return PostAtomic(SendQueue::Kind::kFetchAdd, wr_id, old_value, remote_address, rkey, delta, 0);
}

bool VerbsConnection::PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                                      uint64_t expected, uint64_t desired) {
  return PostAtomic(SendQueue::Kind::kCompareSwap, wr_id, old_value, remote_address, rkey, expected, desired);
}

bool VerbsConnection::PostAtomic(SendQueue::Kind kind, uint64_t wr_id, uint64_t* old_value, uint64_t remote_address,
                                 uint32_t rkey, uint64_t operand, uint64_t desired) {
  if (state_ != State::kConnected || !capabilities_.atomics) return false;
  return send_.Atomic(kind, wr_id, old_value, remote_address, rkey, operand, desired);
}

bool VerbsConnection::PostSend(absl::string_view head, absl::string_view body) {
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected)) return false;
  const size_t bytes = head.size() + body.size();
  if (ABSL_PREDICT_FALSE(bytes - 1 >= kMaxMessageBytes)) {
    Break(absl::UnavailableError("this side posted a message of no or too many bytes"), /*deliver_messages=*/false);
    return false;
  }
  if (ABSL_PREDICT_FALSE(!flow_.may_send() || !send_.CanSend(bytes))) {
    wants_room_ = true;
    return false;
  }
  send_.Send(flow_.Send(), head, body);
  return true;
}

void VerbsConnection::Issue() {
  if (ABSL_PREDICT_FALSE(held_ || state_ != State::kConnected)) return;
  const bool taken = send_.Issue(pair_.queue_pair.get());
  if (ABSL_PREDICT_FALSE(!taken || !send_.all_issued())) IssuedInPart(taken);
}

ABSL_ATTRIBUTE_NOINLINE void VerbsConnection::IssuedInPart(bool taken) {
  if (!taken) {
    Break(absl::UnavailableError(absl::StrCat("the device takes no requests any more: ", strerror(errno))),
          /*deliver_messages=*/true);
  } else if (send_.refused()) {
    Break(absl::UnavailableError(
              "this side posted a request of no or too many bytes or pieces, or for memory that is not registered"),
          /*deliver_messages=*/false);
  } else {
    table_->List(this);  // the rest goes when completions made room
  }
}

bool VerbsConnection::Advance() {
  if (state_ != State::kConnected) return false;
  if (flow_.owes_credits() && flow_.may_send_control() && send_.CanSend(0)) send_.Send(flow_.Send(), {}, {});
  Issue();
  return state_ == State::kConnected && (!send_.all_issued() || flow_.owes_credits());
}

// ---- Completions ----

bool VerbsConnection::OnCompletion(const ibv_wc& wc, Completion* done) {
  if (ABSL_PREDICT_FALSE(wc.status != IBV_WC_SUCCESS)) {
    FailedBy(wc.status);
  } else {
    liveness_.Heard();
  }
  const WcStatus status = ABSL_PREDICT_TRUE(wc.status == IBV_WC_SUCCESS) ? WcStatus::kSuccess : WcStatusOf(wc.status);
  if (!send_.Complete(static_cast<uint32_t>(wc.wr_id), status, done)) return false;
  done->connection = this;
  done->message = {};
  return true;
}

bool VerbsConnection::OnReceive(const ibv_wc& wc, const char* slot, Completion* done) {
  if (ABSL_PREDICT_FALSE(wc.status != IBV_WC_SUCCESS)) {
    FailedBy(wc.status);
    return false;
  }
  liveness_.Heard();
  if (ABSL_PREDICT_FALSE(held_ && role_ == Role::kServer)) {
    held_ = false;  // who sends has all of the handshake
    table_->List(this);
  }
  if (ABSL_PREDICT_FALSE(state_ == State::kOver || !deliver_messages_)) return false;
  MessageHeader header;
  const uint32_t bytes = wc.byte_len;
  if (bytes >= sizeof(header)) memcpy(&header, slot, sizeof(header));
  if (ABSL_PREDICT_FALSE(bytes < sizeof(header) || bytes > sizeof(header) + kMaxMessageBytes ||
                         (wc.wc_flags & IBV_WC_WITH_IMM) != 0 || !flow_.Receive(header))) {
    Break(absl::UnavailableError("the peer broke the protocol: a malformed message, or more than it was granted"),
          /*deliver_messages=*/false);
    return false;
  }
  if (ABSL_PREDICT_FALSE(wants_room_) && flow_.may_send()) {
    wants_room_ = false;
    table_->room_returned = true;
  }
  if (bytes == sizeof(header)) return false;  // it came for its header
  *done = Completion();
  done->connection = this;
  done->opcode = Opcode::kReceive;
  done->message = absl::MakeConstSpan(slot + sizeof(header), bytes - sizeof(header));
  return true;
}

void VerbsConnection::Reposted() {
  flow_.Reposted();
  if (flow_.owes_credits() && state_ == State::kConnected) table_->List(this);
}

// ---- Time and trouble ----

void VerbsConnection::Tick() {
  if (state_ != State::kConnected) return;
  if (held_) {
    if (++held_ticks_ < kEstablishTicks) return;
    Break(absl::UnavailableError(absl::StrCat("the client (", peer_, ") did not complete the handshake")),
          /*deliver_messages=*/false);
    return;
  }
  switch (liveness_.Tick(send_.in_flight() > 0)) {
    case Liveness::Verdict::kFine:
      return;
    case Liveness::Verdict::kProbe:
      if (send_.Probe(peer_words_.probe_address, peer_words_.probe_rkey)) Issue();
      return;
    case Liveness::Verdict::kDead:
      BreakBy(IBV_WC_RETRY_EXC_ERR);
      return;
  }
}

void VerbsConnection::CheckAsync() {
  const int event = pair_.events->failed.exchange(-1, std::memory_order_relaxed);
  if (event < 0 || state_ == State::kEnding || state_ == State::kOver) return;
  pair_.failed = true;
  Break(absl::UnavailableError(absl::StrCat("the queue pair to ", peer_,
                                            " ended: ", ibv_event_type_str(static_cast<ibv_event_type>(event)))),
        /*deliver_messages=*/true);
}

void VerbsConnection::QueuesLost(absl::string_view why) {
  Break(absl::UnavailableError(why), /*deliver_messages=*/false);
}

// ---- The end ----

void VerbsConnection::Disconnect() {
  Break(absl::UnavailableError("disconnected by this side"), /*deliver_messages=*/false);
}

// What is flushed was ended by something else, which the connection manager may know.
ABSL_ATTRIBUTE_NOINLINE void VerbsConnection::FailedBy(ibv_wc_status status) {
  if (status == IBV_WC_WR_FLUSH_ERR) {
    table_->Suspect(this);
  } else {
    BreakBy(status);
  }
}

// The connection manager will say what ended a connection that is not connected yet: siw flushes before it tells of a
// rejection. If it does not, time ends it.
void VerbsConnection::BreakAsFlushed() {
  if (!dialing()) BreakBy(IBV_WC_WR_FLUSH_ERR);
}

void VerbsConnection::BreakBy(ibv_wc_status status) {
  if (state_ == State::kEnding || state_ == State::kOver) return;
  pair_.failed = true;
  std::string why = absl::StrCat(peer_, ": ", WcSentence(status));
  if (status == IBV_WC_RETRY_EXC_ERR) {
    const std::string port = device_->device().PortTrouble();
    if (!port.empty()) absl::StrAppend(&why, " (", port, ")");
  }
  Break(absl::UnavailableError(why), /*deliver_messages=*/true);
}

void VerbsConnection::Break(absl::Status status, bool deliver_messages) {
  if (state_ == State::kEnding || state_ == State::kOver) return;
  deliver_messages_ = deliver_messages && state_ == State::kConnected;
  state_ = State::kEnding;
  status_ = std::move(status);
  deadline_ns_ = Clock::Real().NowNs() + kDrainTimeoutNs;
  pair_.queue_pair.Fail();
  HangUp();
  table_->Attend(this);
}

// The peer is to know at once. Where it was the port perhaps, when the id is destroyed: see EndpointDevice::Dismiss().
void VerbsConnection::HangUp() {
  if (handshaking_ && !pair_.failed && !device_->device().MustBeSilent()) rdma_disconnect(pair_.id.get());
}

size_t VerbsConnection::Announce(absl::Span<Completion> out) {
  if (state_ != State::kWelcomed || out.empty()) return 0;
  state_ = State::kConnected;
  held_ = false;
  out[0] = Completion();
  out[0].connection = this;
  out[0].opcode = Opcode::kConnected;
  return 1;
}

size_t VerbsConnection::End(absl::Span<Completion> out, int64_t now_ns) {
  if (send_.in_flight() > 0 && now_ns < deadline_ns_) return 0;
  DestroyPair();
  size_t count = 0;
  while (count < out.size()) {
    Completion& done = out[count++];
    done = Completion();
    done.connection = this;
    if (send_.FlushNext(&done)) continue;
    done.opcode = Opcode::kDisconnected;
    state_ = State::kOver;
    break;
  }
  return count;
}

void VerbsConnection::DestroyPair() {
  if (pair_.queue_pair.ok()) {
    const std::vector<uint32_t> with_user = table_->Leave(pair_.queue_pair.number(), this);
    if (pair_.own_receives) {
      std::erase_if(pair_.slots, [&with_user](uint32_t slot) {
        return std::find(with_user.begin(), with_user.end(), slot) != with_user.end();
      });
    }
  }
  device_->Retire(std::exchange(pair_, Pair()));
}

}  // namespace farlook::rdma::verbs
