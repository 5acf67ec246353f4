// ShmConnection's hot path: posting, ringing, polling. The rest is in connection_lifecycle.cc.
#include "rdma/shm/connection.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "rdma/host/word_copy.h"
#include "rdma/shm/packet.h"
#include "rdma/shm/packet_socket.h"

namespace farlook::rdma::shm {
namespace {

constexpr size_t kPrefetchBytes = 2048;

// Packets read in search of the offer of a key that a message already named: all that can be under way, and a reserve.
constexpr int kPacketsPerSearch = 4 * kMaxBuffers;

inline void PrefetchLines(const char* from, uint64_t bytes) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(from);
  const uintptr_t end = start + std::min<uint64_t>(bytes, kPrefetchBytes);
  for (uintptr_t line = start & ~(kCacheLineBytes - 1); line < end; line += kCacheLineBytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(line), /*rw=*/0, /*locality=*/3);  // any address: never faults
  }
}

std::atomic_ref<uint64_t> AtomicWord(char* word) {
  return std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(static_cast<void*>(word)));
}

// Returns the bytes of all pieces together; 0 if there are too many.
uint64_t CopyPieces(absl::Span<const Sge> pieces, WorkRequest* request) {
  if (pieces.size() > kMaxReadSges) return 0;
  request->pieces = static_cast<uint16_t>(pieces.size());
  uint64_t bytes = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    request->to[i] = pieces[i];
    bytes += pieces[i].bytes;
  }
  return bytes;
}

}  // namespace

// ---- Posting ----

inline WorkRequest* ShmConnection::NextRequest() {
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected || work_.full())) return nullptr;
  if (ABSL_PREDICT_FALSE(!polled)) host_->PollAgain(this);
  return work_.Next();
}

inline char* ShmConnection::Resolve(uint32_t rkey, uint64_t offset, uint64_t bytes, Access access) {
  char* const found = link_.memory.Find(rkey, offset, bytes, access);
  return ABSL_PREDICT_TRUE(found != nullptr) ? found : ResolveSlow(rkey, offset, bytes, access);
}

// The peer offers a buffer over the socket before it names it in a message through the ring.
ABSL_ATTRIBUTE_NOINLINE char* ShmConnection::ResolveSlow(uint32_t rkey, uint64_t offset, uint64_t bytes,
                                                         Access access) {
  for (int i = 0; i < kPacketsPerSearch && state_ == State::kConnected && !link_.memory.Knows(rkey); ++i) {
    if (!ReceiveOnePacket()) break;
  }
  return link_.memory.Find(rkey, offset, bytes, access);
}

bool ShmConnection::PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) {
  WorkRequest* const request = NextRequest();
  if (ABSL_PREDICT_FALSE(request == nullptr)) return false;
  request->wr_id = wr_id;
  request->opcode = Opcode::kRead;
  request->status = WcStatus::kSuccess;
  uint64_t bytes;
  if (ABSL_PREDICT_TRUE(to.size() == 1)) {
    request->pieces = 1;
    request->to[0] = to[0];
    bytes = to[0].bytes;
  } else {
    bytes = CopyPieces(to, request);
  }
  if (ABSL_PREDICT_FALSE(bytes - 1 >= kMaxReadBytes)) {
    request->status = WcStatus::kLocalError;
    work_.Commit();
    return true;
  }
  request->remote = Resolve(rkey, remote_address, bytes, Access::kRemoteRead);
  request->gated = link_.memory.ForAtomics(rkey);
  if (ABSL_PREDICT_TRUE(request->remote != nullptr)) {
    PrefetchLines(request->remote, bytes);
  } else {
    if (state_ != State::kConnected) return false;
    request->status = WcStatus::kRemoteAccess;
  }
  work_.Commit();
  return true;
}

const char* ShmConnection::Mapped(uint64_t remote_address, uint64_t bytes, uint32_t rkey) {
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected)) return nullptr;
  const absl::Span<const char> range = link_.memory.Whole(rkey);
  const bool inside =
      bytes <= range.size() && remote_address <= range.size() - bytes && remote_address % 8 == 0 && bytes > 0;
  return ABSL_PREDICT_TRUE(inside) ? range.data() + remote_address : nullptr;
}

bool ShmConnection::PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                                 uint64_t delta) {
  return PostAtomic(Opcode::kFetchAdd, wr_id, remote_address, rkey, {old_value, delta, 0});
}

bool ShmConnection::PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                                    uint64_t expected, uint64_t desired) {
  return PostAtomic(Opcode::kCompareSwap, wr_id, remote_address, rkey, {old_value, expected, desired});
}

bool ShmConnection::PostAtomic(Opcode opcode, uint64_t wr_id, uint64_t remote_address, uint32_t rkey,
                               WorkRequest::Atomic atomic) {
  WorkRequest* const request = NextRequest();
  if (request == nullptr) return false;
  // A client that was idle learns here that the server has disconnected it, before anything is posted.
  if (ABSL_PREDICT_FALSE(is_client_ && link_.segment.gate()->closed())) {
    PeerIsGone();
    return false;
  }
  request->wr_id = wr_id;
  request->opcode = opcode;
  request->pieces = 0;
  request->gated = is_client_;
  request->atomic = atomic;
  request->remote = Resolve(rkey, remote_address, sizeof(uint64_t), Access::kRemoteReadAtomic);
  if (state_ != State::kConnected) return false;
  request->status = request->remote != nullptr ? WcStatus::kSuccess : WcStatus::kRemoteAccess;
  work_.Commit();
  return true;
}

[[gnu::always_inline]] inline bool ShmConnection::Send(absl::string_view head, absl::string_view body) {
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected)) return false;
  const size_t bytes = head.size() + body.size();
  if (ABSL_PREDICT_FALSE(bytes - 1 >= kMaxMessageBytes)) {
    BreakBy(WcStatus::kLocalError);
    return false;
  }
  // A message must not overtake the offer of a buffer that it names.
  if (ABSL_PREDICT_FALSE(!notices_.empty()) && !FlushNotices()) return false;
  if (ABSL_PREDICT_FALSE(!producer_.Send(head, body))) {
    wants_room_ = true;
    host_->PollAgain(this);  // Arm() asks for a wake-up only on polled connections
    return false;
  }
  return true;
}

bool ShmConnection::PostSend(absl::string_view head, absl::string_view body) {
  if (!Send(head, body)) return false;
  sent_since_ring_ = true;
  return true;
}

// ---- Ringing ----

[[gnu::always_inline]] inline void ShmConnection::RingBellHere() {
  sent_since_ring_ = false;
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected)) return;
  consumer_.ShowProcessor(host_->processor());
  if (ABSL_PREDICT_FALSE(producer_.TakeSleeper() || owes_wake_)) Wake();
}

void ShmConnection::RingBell() { RingBellHere(); }

void ShmConnection::Ring() {
  if (!work_.all_executed()) Execute();
  if (sent_since_ring_) RingBellHere();
}

bool ShmConnection::PostSendAndRing(absl::string_view head, absl::string_view body) {
  if (!Send(head, body)) return false;
  if (ABSL_PREDICT_FALSE(!work_.all_executed())) Execute();
  RingBellHere();
  return true;
}

void ShmConnection::Wake() {
  owes_wake_ = false;
  switch (SendPacket(link_.socket.get(), BytesOf(NoticePacket()), {})) {
    case Io::kDone:
    case Io::kTryLater:  // a full socket wakes the peer anyway
      return;
    case Io::kNoMemory:  // nothing else wakes the peer, which announced its sleep only once
      owes_wake_ = true;
      sent_since_ring_ = true;  // the next Ring() or Poll() tries again
      return;
    case Io::kClosed:
      PeerIsGone();
  }
}

void ShmConnection::Execute() {
  // The mapping outlives the server: only the life sign shows its death. See life_sign.h.
  if (ABSL_PREDICT_FALSE(is_client_ && !link_.life.alive())) return PeerIsGone();
  bool inside = false;
  while (!work_.all_executed()) {
    WorkRequest& request = work_.Oldest();
    work_.Executed();
    if (ABSL_PREDICT_FALSE(request.status != WcStatus::kSuccess)) {
      if (inside) link_.segment.gate()->Leave();
      return BreakBy(request.status);
    }
    if (request.gated && !inside) {
      if (!EnterGate(request)) return;
      inside = true;
    }
    ExecuteOne(request);
  }
  if (inside) link_.segment.gate()->Leave();
}

// Returns false if the server has closed the gate, which ends the connection. See atomic_gate.h.
bool ShmConnection::EnterGate(WorkRequest& request) {
  if (ABSL_PREDICT_TRUE(link_.segment.gate()->Enter())) return true;
  request.status = WcStatus::kFlushed;
  PeerIsGone();
  return false;
}

inline void ShmConnection::ExecuteOne(WorkRequest& request) {
  if (ABSL_PREDICT_TRUE(request.opcode == Opcode::kRead)) {
    ExecuteRead(request.to, request.pieces, request.remote);
    return;
  }
  WorkRequest::Atomic& atomic = request.atomic;
  if (request.opcode == Opcode::kFetchAdd) {
    *atomic.old_value = AtomicWord(request.remote).fetch_add(atomic.operand, std::memory_order_seq_cst);
  } else {
    uint64_t expected = atomic.operand;
    AtomicWord(request.remote).compare_exchange_strong(expected, atomic.desired, std::memory_order_seq_cst);
    *atomic.old_value = expected;
  }
}

// ---- Polling ----

size_t ShmConnection::Reap(absl::Span<Completion> out) {
  size_t count = 0;
  while (count < out.size() && !work_.all_reaped()) {
    const WorkRequest& request = work_.Reap();
    Completion& completion = out[count++];
    completion.wr_id = request.wr_id;
    completion.connection = this;
    completion.opcode = request.opcode;
    completion.status = request.status;
    completion.message = {};
  }
  return count;
}

size_t ShmConnection::PollSlow(absl::Span<Completion> out, size_t count, ReceiveArena* arena) {
  if (state_ == State::kWelcomed && count < out.size()) {
    state_ = State::kConnected;
    out[count] = Completion();
    out[count].connection = this;
    out[count].opcode = Opcode::kConnected;
    return count + 1;
  }
  if (state_ != State::kBroken) return count;
  if (deliver_messages_) {
    const size_t messages = ReceiveMessages(absl::MakeSpan(out.data() + count, out.size() - count), arena);
    count += messages;
    // Bounded, since a hostile peer could go on writing.
    undelivered_ -= std::min(undelivered_, messages);
    if (undelivered_ == 0 || !receiving_ || !consumer_.Ready()) deliver_messages_ = false;
  }
  if (deliver_messages_ || !work_.empty() || count == out.size()) return count;
  state_ = State::kOver;
  link_.memory.Clear([this](Mapping mapping) { host_->Unmap(std::move(mapping)); });
  if (quiescent()) host_->Unmap(link_.segment.Release());
  out[count] = Completion();
  out[count].connection = this;
  out[count].opcode = Opcode::kDisconnected;
  return count + 1;
}

bool ShmConnection::Ready() {
  switch (state_) {
    case State::kDialing:
    case State::kOver:
      return false;
    case State::kWelcomed:
    case State::kBroken:
      return true;
    case State::kConnected:
      break;
  }
  if (sent_since_ring_) RingBell();
  if (state_ != State::kConnected || !work_.empty() || owes_wake_) return true;
  if (receiving_ && consumer_.Ready()) return true;
  if (wants_room_ && !producer_.AwaitRoom()) {
    wants_room_ = false;
    return true;
  }
  return false;
}

// While nothing is delivered, a message need not wake this side.
void ShmConnection::SetSleeping(bool sleeping) {
  if (state_ == State::kConnected) consumer_.SetSleeping(sleeping && receiving_);
}

void ShmConnection::SetReceiving(bool receiving) {
  receiving_ = receiving;
  if (receiving) host_->PollAgain(this);
}

}  // namespace farlook::rdma::shm
