#include "rdma/verbs/queues/send_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "rdma/host/word_copy.h"

namespace farlook::rdma::verbs {
namespace {

constexpr size_t kSmallBytes = 64;

// Entries besides the user's READs: messages that a full window allows, those that await a signal, a probe.
constexpr uint32_t kOtherEntries = UINT8_MAX + kSignalInterval + 2;

// REQUIRES a kind of the user's.
constexpr Opcode OpcodeOf(SendQueue::Kind kind) { return static_cast<Opcode>(kind); }
static_assert(OpcodeOf(SendQueue::Kind::kRead) == Opcode::kRead);
static_assert(OpcodeOf(SendQueue::Kind::kFetchAdd) == Opcode::kFetchAdd);
static_assert(OpcodeOf(SendQueue::Kind::kCompareSwap) == Opcode::kCompareSwap);

void AskForRead(uint64_t remote_address, uint32_t rkey, ibv_sge* to, int pieces, ibv_send_wr* request) {
  request->sg_list = to;
  request->num_sge = pieces;
  request->opcode = IBV_WR_RDMA_READ;
  request->send_flags = IBV_SEND_SIGNALED;
  request->wr.rdma.remote_addr = remote_address;
  request->wr.rdma.rkey = rkey;
}

bool IsUsers(SendQueue::Kind kind) { return kind != SendQueue::Kind::kSend && kind != SendQueue::Kind::kProbe; }

}  // namespace

SendQueue::SendQueue(const SendResources& resources, const QueuePlan& plan, uint32_t inline_bytes, uint32_t tag)
    : resources_(resources),
      plan_(plan),
      inline_bytes_(inline_bytes),
      tag_(uint64_t{tag} << 32),
      mask_(std::bit_ceil(uint64_t{plan.send_depth} + kOtherEntries) - 1),
      bounce_(resources.device) {}

SendQueue::~SendQueue() {
  Completion ignored;
  while (FlushNext(&ignored)) {
  }
}

// ---- Posting ----

inline SendQueue::Entry* SendQueue::Next(Kind kind) {
  if (ABSL_PREDICT_FALSE(queued_ - retired_ > mask_)) return nullptr;
  Entry* const entry = &At(queued_);
  // In memory order, so that the compiler stores them as few words.
  entry->slot = MessagePool::kNone;
  entry->kind = kind;
  entry->pieces = 1;
  entry->status = WcStatus::kSuccess;
  entry->bounces = false;
  entry->signalled = true;
  entry->plain = false;
  return entry;
}

// If `range` is null, the piece is not entirely registered.
inline void SendQueue::Place(Entry* entry, size_t index, const Sge& piece, const LocalMemory::Range* range) {
  if (ABSL_PREDICT_FALSE(range == nullptr || piece.bytes == 0)) {
    entry->status = WcStatus::kLocalError;
    return;
  }
  entry->to[index] = {reinterpret_cast<uintptr_t>(piece.data), piece.bytes, range->lkey};
  if (ABSL_PREDICT_FALSE(!range->lands_reads)) entry->bounces = true;
}

// Sets the pieces of a READ; returns their total length.
uint64_t SendQueue::PlaceAll(Entry* entry, absl::Span<const Sge> to) {
  entry->pieces = 0;
  if (to.empty() || to.size() > plan_.send_sges) {
    entry->status = WcStatus::kLocalError;
    return 0;
  }
  uint64_t bytes = 0;
  for (const Sge& piece : to) {
    Place(entry, entry->pieces++, piece, resources_.memory->Find(piece.data, piece.bytes));
    bytes += piece.bytes;
  }
  if (bytes > kMaxReadBytes) entry->status = WcStatus::kLocalError;
  return bytes;
}

// Makes an entry for a READ, without its destination.
inline SendQueue::Entry* SendQueue::NextRead(uint64_t wr_id, uint64_t remote_address, uint32_t rkey) {
  if (ABSL_PREDICT_FALSE(reads_ == max_reads_)) return nullptr;
  Entry* const entry = Next(Kind::kRead);
  if (ABSL_PREDICT_FALSE(entry == nullptr)) return nullptr;
  entry->wr_id = wr_id;
  entry->remote_address = remote_address;
  entry->rkey = rkey;
  ++reads_;
  ++queued_;
  return entry;
}

// Most READs have one piece in the range of the one before. This path avoids the calls and registers of the others.
bool SendQueue::Read(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) {
  if (ABSL_PREDICT_TRUE(to.size() == 1 && ReadPlain(wr_id, to[0], remote_address, rkey))) return true;
  return ReadOther(wr_id, to, remote_address, rkey);
}

// Returns the destination range of a READ of one piece; null if that takes more than checking the last range.
inline const LocalMemory::Range* SendQueue::PlainRange(const Sge& piece) {
  const LocalMemory::Range* const range = resources_.memory->FindLast(piece.data, piece.bytes);
  if (ABSL_PREDICT_FALSE(range == nullptr || !range->lands_reads || piece.bytes - 1 >= kMaxReadBytes)) return nullptr;
  return range;
}

// Returns false if it is not plain, or there is no room.
inline bool SendQueue::ReadPlain(uint64_t wr_id, const Sge& piece, uint64_t remote_address, uint32_t rkey) {
  const LocalMemory::Range* const range = PlainRange(piece);
  if (ABSL_PREDICT_FALSE(range == nullptr)) return false;
  Entry* const entry = NextRead(wr_id, remote_address, rkey);
  if (ABSL_PREDICT_FALSE(entry == nullptr)) return false;
  entry->plain = true;
  entry->bytes = piece.bytes;
  entry->to[0] = {reinterpret_cast<uintptr_t>(piece.data), piece.bytes, range->lkey};
  return true;
}

bool SendQueue::ReadAlone(ibv_qp* pair, const Sge& to, uint64_t remote_address, uint32_t rkey) {
  const LocalMemory::Range* const range = PlainRange(to);
  // Includes room for its entry, if there is a ring by now.
  const bool has_room = max_reads_ > 0 && issued_ - retired_ < std::min<uint64_t>(plan_.hardware_depth, mask_);
  if (ABSL_PREDICT_FALSE(range == nullptr || in_flight_ != 0 || !all_issued() || !has_room ||
                         !resources_.credits->Take())) {
    return false;
  }
  ibv_sge piece = {reinterpret_cast<uintptr_t>(to.data), to.bytes, range->lkey};
  ibv_send_wr request;
  request.wr_id = next_id();
  request.next = nullptr;
  AskForRead(remote_address, rkey, &piece, 1, &request);
  ibv_send_wr* refused;
  if (ABSL_PREDICT_FALSE(ibv_post_send(pair, &request, &refused) != 0)) {
    resources_.credits->Return();
    return false;
  }
  return true;
}

// Read() has room for it, and finds it plain, as ReadAlone() did.
ABSL_ATTRIBUTE_NOINLINE void SendQueue::RecordAlone(uint64_t wr_id, const Sge& to, uint64_t remote_address,
                                                    uint32_t rkey) {
  ReadPlain(wr_id, to, remote_address, rkey);
  ++issued_;
  ++in_flight_;
}

ABSL_ATTRIBUTE_NOINLINE bool SendQueue::ReadOther(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address,
                                                  uint32_t rkey) {
  MakeRing();
  Entry* const entry = NextRead(wr_id, remote_address, rkey);
  if (entry == nullptr) return false;
  entry->bytes = static_cast<uint32_t>(PlaceAll(entry, to));
  return true;
}

bool SendQueue::Atomic(Kind kind, uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                       uint64_t operand, uint64_t desired) {
  MakeRing();
  if (reads_ == max_reads_) return false;
  Entry* const entry = Next(kind);
  if (entry == nullptr) return false;
  entry->wr_id = wr_id;
  entry->remote_address = remote_address;
  entry->rkey = rkey;
  entry->operand = operand;
  entry->desired = desired;
  entry->bytes = sizeof(uint64_t);
  const Sge piece = {reinterpret_cast<char*>(old_value), sizeof(uint64_t)};
  Place(entry, 0, piece, resources_.memory->Find(piece.data, piece.bytes));
  ++reads_;
  ++queued_;
  return true;
}

bool SendQueue::Send(const MessageHeader& header, absl::string_view head, absl::string_view body) {
  MakeRing();
  const auto bytes = static_cast<uint32_t>(sizeof(header) + head.size() + body.size());
  Entry* const entry = Next(Kind::kSend);
  if (ABSL_PREDICT_FALSE(entry == nullptr)) return false;
  char* to = entry->small;
  // A message that is too long to be sent inline from the entry is sent from a slot.
  if (bytes > kSmallBytes || bytes > inline_bytes_) {
    entry->slot = resources_.messages->Take();
    if (ABSL_PREDICT_FALSE(entry->slot == MessagePool::kNone)) return false;
    to = resources_.messages->data(entry->slot);
  }
  memcpy(to, &header, sizeof(header));
  to += sizeof(header);
  if (!head.empty()) memcpy(to, head.data(), head.size());
  if (!body.empty()) memcpy(to + head.size(), body.data(), body.size());
  entry->bytes = bytes;
  ++queued_;
  return true;
}

bool SendQueue::CanSend(size_t message_bytes) {
  if (ABSL_PREDICT_FALSE(queued_ - retired_ > mask_)) return false;
  const size_t bytes = message_bytes + sizeof(MessageHeader);
  if (bytes <= kSmallBytes && bytes <= inline_bytes_) return true;
  return resources_.messages->Reserve(1).ok();
}

bool SendQueue::Probe(uint64_t remote_address, uint32_t rkey) {
  MakeRing();
  Entry* const entry = Next(Kind::kProbe);
  if (entry == nullptr) return false;
  entry->remote_address = remote_address;
  entry->rkey = rkey;
  entry->bytes = resources_.probe_buffer.length;
  entry->to[0] = resources_.probe_buffer;
  ++queued_;
  return true;
}

// ---- Issuing ----

inline void SendQueue::PrepareSend(Entry& entry, ibv_send_wr* request, ibv_sge* piece) {
  request->opcode = IBV_WR_SEND;
  request->sg_list = piece;
  request->num_sge = 1;
  piece->length = entry.bytes;
  piece->lkey = 0;
  bool needs_signal = false;
  if (entry.slot == MessagePool::kNone) {
    piece->addr = reinterpret_cast<uintptr_t>(entry.small);
    request->send_flags = IBV_SEND_INLINE;
  } else {
    piece->addr = reinterpret_cast<uintptr_t>(resources_.messages->data(entry.slot));
    piece->lkey = resources_.messages->lkey(entry.slot);
    request->send_flags = entry.bytes <= inline_bytes_ ? IBV_SEND_INLINE : 0;
    // If the pool cannot grow, a message that waits for a slot needs a completion that frees this one.
    needs_signal = entry.bytes > inline_bytes_ && resources_.messages->used_up();
  }
  entry.signalled = signalling_.ForSend(needs_signal);
  if (entry.signalled) request->send_flags |= IBV_SEND_SIGNALED;
}

// Prepares a READ that is fetched into the bounce memory first. Returns false if not now.
ABSL_ATTRIBUTE_NOINLINE bool SendQueue::PrepareBounce(Entry& entry, ibv_send_wr* request, ibv_sge* piece) {
  absl::Status status;
  entry.bounce = bounce_.Take(entry.bytes, &status);
  if (entry.bounce == nullptr) {
    resources_.credits->Return();
    if (!status.ok()) entry.status = WcStatus::kLocalError;
    return false;
  }
  *piece = {reinterpret_cast<uintptr_t>(entry.bounce), entry.bytes, bounce_.lkey()};
  request->sg_list = piece;
  request->num_sge = 1;
  return true;
}

inline void SendQueue::PrepareRead(Entry& entry, ibv_send_wr* request) {
  AskForRead(entry.remote_address, entry.rkey, entry.to, entry.pieces, request);
}

inline void SendQueue::PrepareAtomic(Entry& entry, ibv_send_wr* request) {
  request->sg_list = entry.to;
  request->num_sge = entry.pieces;
  request->opcode = entry.kind == Kind::kFetchAdd ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
  request->send_flags = IBV_SEND_SIGNALED;
  request->wr.atomic.remote_addr = entry.remote_address;
  request->wr.atomic.rkey = entry.rkey;
  request->wr.atomic.compare_add = entry.operand;
  request->wr.atomic.swap = entry.desired;
}

// Returns false if not now. Inlined, as is its caller: for a READ alone a dozen instructions are left.
[[gnu::always_inline]] inline bool SendQueue::Prepare(Entry& entry, uint64_t number, ibv_send_wr* request,
                                                      ibv_sge* piece) {
  request->wr_id = tag_ | static_cast<uint32_t>(number);
  request->next = nullptr;
  const Kind kind = entry.kind;
  if (kind == Kind::kSend) {
    PrepareSend(entry, request, piece);
    return true;
  }
  if (IsUsers(kind) && ABSL_PREDICT_FALSE(!resources_.credits->Take())) return false;
  if (kind == Kind::kRead || kind == Kind::kProbe) {
    PrepareRead(entry, request);
  } else {
    PrepareAtomic(entry, request);
  }
  if (ABSL_PREDICT_FALSE(entry.bounces && !PrepareBounce(entry, request, piece))) return false;
  signalling_.Signalled();  // only one that will be issued
  return true;
}

inline void SendQueue::ReleaseMessage(Entry& entry) {
  if (entry.slot != MessagePool::kNone) PutMessage(entry);
}

ABSL_ATTRIBUTE_NOINLINE void SendQueue::PutMessage(Entry& entry) {
  resources_.messages->Put(entry.slot);
  entry.slot = MessagePool::kNone;
}

// Fills in the request of the entry with that number. Returns false if not now.
[[gnu::always_inline]] inline bool SendQueue::Fill(uint64_t number, ibv_send_wr* request, ibv_sge* piece) {
  if (ABSL_PREDICT_FALSE(number - retired_ == plan_.hardware_depth)) return false;
  Entry& entry = At(number);
  return ABSL_PREDICT_TRUE(entry.status == WcStatus::kSuccess) && Prepare(entry, number, request, piece);
}

// Rings the doorbell once for the next `count` entries. Returns false if the device refused them.
[[gnu::always_inline]] inline bool SendQueue::Hand(ibv_qp* pair, ibv_send_wr* requests, uint32_t count) {
  ibv_send_wr* refused = nullptr;
  if (ABSL_PREDICT_FALSE(ibv_post_send(pair, requests, &refused) != 0)) {
    Refused(count, refused == nullptr ? 0 : static_cast<uint32_t>(refused - requests));
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    Entry& entry = At(issued_ + i);
    in_flight_ += entry.signalled ? 1 : 0;
    if (entry.kind == Kind::kSend && entry.bytes <= inline_bytes_) ReleaseMessage(entry);
  }
  issued_ += count;
  return true;
}

// The caller ends the connection. The part of the batch that the device took is flushed with the rest.
ABSL_ATTRIBUTE_NOINLINE void SendQueue::Refused(uint32_t count, uint32_t taken) {
  for (uint32_t i = 0; i < count; ++i) {
    Entry& entry = At(issued_ + i);
    if (i < taken) in_flight_ += entry.signalled ? 1 : 0;
    if (i >= taken && IsUsers(entry.kind)) resources_.credits->Return();
  }
  issued_ += taken;
}

// A READ alone, the usual case, is issued here, with minimal work.
SendQueue::Issued SendQueue::Issue(ibv_qp* pair) {
  if (ABSL_PREDICT_FALSE(queued_ - issued_ != 1)) return IssueMany(pair);
  Entry& entry = At(issued_);
  if (ABSL_PREDICT_FALSE(!entry.plain || issued_ - retired_ == plan_.hardware_depth || !resources_.credits->Take())) {
    return IssueOne(pair);
  }
  ibv_send_wr request;
  request.wr_id = tag_ | static_cast<uint32_t>(issued_);
  request.next = nullptr;
  PrepareRead(entry, &request);
  signalling_.Signalled();
  ibv_send_wr* refused;
  if (ABSL_PREDICT_FALSE(ibv_post_send(pair, &request, &refused) != 0)) {
    Refused(1, 0);
    return Issued::kNotTaken;
  }
  ++in_flight_;
  ++issued_;
  return Issued::kAll;
}

ABSL_ATTRIBUTE_NOINLINE SendQueue::Issued SendQueue::IssueOne(ibv_qp* pair) {
  ibv_send_wr request;
  ibv_sge piece;
  if (Fill(issued_, &request, &piece) && !Hand(pair, &request, 1)) return Issued::kNotTaken;
  return HowMuch();
}

// A separate function, so that a caller that posts one request at a time pays for neither its loops nor its stack.
ABSL_ATTRIBUTE_NOINLINE SendQueue::Issued SendQueue::IssueMany(ibv_qp* pair) {
  ibv_send_wr requests[kDoorbellBatch];
  ibv_sge pieces[kDoorbellBatch];
  uint32_t count;
  do {
    for (count = 0; count < kDoorbellBatch && issued_ + count != queued_; ++count) {
      if (!Fill(issued_ + count, &requests[count], &pieces[count])) break;
      if (count > 0) requests[count - 1].next = &requests[count];
    }
    if (count > 0 && !Hand(pair, requests, count)) return Issued::kNotTaken;
  } while (count == kDoorbellBatch);
  return HowMuch();
}

// ---- Completing ----

// The device has completed a READ or atomic.
inline void SendQueue::Land(Entry& entry, WcStatus status) {
  resources_.credits->Return();
  if (ABSL_PREDICT_FALSE(entry.bounces)) LandBounced(entry, status);
}

ABSL_ATTRIBUTE_NOINLINE void SendQueue::LandBounced(Entry& entry, WcStatus status) {
  if (status == WcStatus::kSuccess) {
    Sge pieces[kMaxReadSges];
    for (size_t i = 0; i < entry.pieces; ++i) {
      pieces[i] = {reinterpret_cast<char*>(entry.to[i].addr), entry.to[i].length};
    }
    ExecuteRead(pieces, entry.pieces, entry.bounce);
  }
  bounce_.FreeOldest();
}

// SENDs without a completion precede it; or the device has no such entry.
ABSL_ATTRIBUTE_NOINLINE bool SendQueue::CompleteAnother(uint32_t number, WcStatus status, Completion* done) {
  const uint64_t target = retired_ + static_cast<uint32_t>(number - static_cast<uint32_t>(retired_));
  if (ABSL_PREDICT_FALSE(target >= issued_)) return false;
  if (ABSL_PREDICT_FALSE(!RetireSends(target))) {
    Overtake(target);
    return false;
  }
  return CompleteOldest(status, done);
}

// Retires SENDs up to `end`, or up to the first other entry. Returns whether it reached `end`.
bool SendQueue::RetireSends(uint64_t end) {
  for (; retired_ != end; ++retired_) {
    if (ABSL_PREDICT_FALSE(At(retired_).kind != Kind::kSend)) return false;
    ReleaseMessage(At(retired_));
  }
  return true;
}

// The entry with that number is done, and the oldest is not. It is retired when its turn comes.
ABSL_ATTRIBUTE_NOINLINE void SendQueue::Overtake(uint64_t number) {
  Entry& entry = At(number);
  // No device lets READs overtake. If one did, the READ would count as in flight until the connection's end reports it.
  if (entry.kind != Kind::kSend) return;
  if (std::exchange(entry.signalled, false)) --in_flight_;
  overtaken_until_ = number + 1;
  At(retired_).plain = false;  // Complete() retires nothing else with a plain entry
}

// The calls here are tail calls: so the other paths need not save registers.
ABSL_ATTRIBUTE_NOINLINE bool SendQueue::CompleteOldest(WcStatus status, Completion* done) {
  if (ABSL_PREDICT_FALSE(overtaken_until_ != 0)) return CompleteOvertaken(status, done);
  Entry& entry = At(retired_++);
  // A SEND that requested no completion gets one when it fails.
  if (entry.signalled) --in_flight_;
  if (ABSL_PREDICT_FALSE(!IsUsers(entry.kind))) {
    ReleaseMessage(entry);
    return false;
  }
  --reads_;
  done->wr_id = entry.wr_id;
  done->opcode = OpcodeOf(entry.kind);
  done->status = status;
  Land(entry, status);
  return true;
}

// Also completes what overtook the oldest and waits for nothing else.
ABSL_ATTRIBUTE_NOINLINE bool SendQueue::CompleteOvertaken(WcStatus status, Completion* done) {
  const uint64_t until = std::exchange(overtaken_until_, 0);
  const bool is_users = CompleteOldest(status, done);
  if (!RetireSends(until)) {
    overtaken_until_ = until;
    At(retired_).plain = false;
  }
  return is_users;
}

bool SendQueue::FlushNext(Completion* done) {
  while (retired_ != queued_) {
    const bool issued = retired_ < issued_;
    if (!issued) issued_ = retired_ + 1;
    Entry& entry = At(retired_++);
    if (!IsUsers(entry.kind)) {
      ReleaseMessage(entry);
      continue;
    }
    if (issued) Land(entry, WcStatus::kFlushed);
    --reads_;
    done->wr_id = entry.wr_id;
    done->opcode = OpcodeOf(entry.kind);
    done->status = entry.status == WcStatus::kSuccess ? WcStatus::kFlushed : entry.status;
    return true;
  }
  in_flight_ = 0;
  return false;
}

}  // namespace farlook::rdma::verbs
