#include "client/counters/counters.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/op/status.h"
#include "client/op/work_request_id.h"
#include "kv/layout/cell_region.h"
#include "kv/layout/counter_value.h"
#include "kv/wire/cell_notice.h"

namespace farlook::client {
namespace {

using kv::CellState;

constexpr absl::string_view kRange = "a counter's range, [-2^61, 2^61)";

absl::Status OutOfRange(int64_t value, bool add) {
  if (add) {
    return absl::OutOfRangeError(
        absl::StrCat("the sum would be outside of ", kRange, "; the counter held ", value, ", and nothing was added"));
  }
  return absl::OutOfRangeError(absl::StrCat("the counter holds ", value, ", which is outside of ", kRange,
                                            "; a CompareSwap that expects this value resets it"));
}

// Returns whether the server must execute it, whatever this connection can. The server treats a CompareSwap that
// expects an out-of-range value as a reset.
bool IsRequest(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kFetchAdd:
      return operation.exactly_once;
    case Kind::kCompareSwap:
      return operation.exactly_once || kv::StateOf(operation.expected) != CellState::kLive;
    default:
      return operation.kind != Kind::kReadCounter;
  }
}

absl::Status StatusFor(const Operation& operation, kv::Code code) {
  if (code != kv::Code::kOutOfRange) return CounterStatusOf(code);
  return OutOfRange(operation.counter, operation.kind == Kind::kFetchAdd);
}

}  // namespace

Counters::Counters(const Parts& parts, uint32_t max_in_flight, uint64_t cache_bytes)
    : parts_(parts), max_in_flight_(std::min(max_in_flight, kMaxFlights)), cache_(cache_bytes) {}

absl::Status Counters::Check(const Operation& operation) {
  const auto live = [](int64_t value) { return kv::StateOf(value) == CellState::kLive; };
  switch (operation.kind) {
    case Kind::kFetchAdd:
      if (!kv::ValidDelta(operation.operand)) {
        return absl::InvalidArgumentError(absl::StrCat(operation.operand, " at once: at most 2^40 either way"));
      }
      if (operation.ttl_ms != 0 && !operation.create) {
        return absl::InvalidArgumentError("a ttl for an add that creates no counter");
      }
      if (!operation.create || live(operation.expected)) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(operation.expected, " is outside of ", kRange));
    case Kind::kCompareSwap:
      if (kv::StateOf(operation.expected) == CellState::kDead) {
        return absl::InvalidArgumentError(absl::StrCat("no counter ever has the value ", operation.expected));
      }
      [[fallthrough]];
    case Kind::kCreateCounter:
      if (live(operation.operand)) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(operation.operand, " is outside of ", kRange));
    default:
      return absl::OkStatus();
  }
}

// ---- Connections.

void Counters::Connect(const Ready& ready) {
  connection_ = ready.connection;
  cells_ = ready.welcome->counters;
  hasher_ = ready.context.hasher;
  direct_ = cells_.rkey != 0 && connection_->capabilities().atomics;
  max_flights_ = direct_ ? std::min(max_in_flight_, ready.welcome->atomics) : max_in_flight_;
  parts_.posted->more = true;
}

void Counters::Lost() {
  connection_ = nullptr;
  direct_ = false;
  OperationQueue again;
  parts_.flights->ForEachOf(this, [&](Flight* flight) {
    Operation* const operation = flight->operation;
    const AtomicState& atomic = flight->atomic;
    const bool unknown = atomic.kind != Kind::kReadCounter && atomic.step != Step::kPost;
    if (flight->linked()) flight->Unlink();
    Release(flight);
    if (operation == nullptr) return;
    if (unknown) {
      ++parts_.stats->unknown_atomics;
      parts_.finished->End(operation, absl::UnknownError("the connection broke while an atomic was under way: it was "
                                                         "done once, or not"));
    } else {
      again.Push(operation);
    }
  });
  again.Append(&waiting_);
  waiting_.Append(&again);
  cache_.Clear();
  owed_ = 0;
  noticed_ = 0;
}

// ---- Starting operations.

void Counters::Start(Operation* operation) {
  operation->counter = 0;
  // Its place in the order of the client's writes is here, whatever waits.
  if (IsRequest(*operation)) return parts_.session->Start(operation);
  operation->engine = this;
  if (connection_ == nullptr || !waiting_.empty() || !Begin(operation)) {
    waiting_.Push(operation);
    parts_.posted->more = true;
  }
}

// Returns false if no flight is free.
bool Counters::Begin(Operation* operation) {
  if (direct_) [[likely]] {
    const CellCache::Id id = CellCache::IdOf(*hasher_, operation->key);
    if (const uint64_t cell = cache_.Find(id); cell != 0) [[likely]] {
      Flight* const flight = in_use_ < max_flights_ ? parts_.flights->Take(operation, this) : nullptr;
      if (flight == nullptr) return false;
      ++in_use_;
      AtomicState& atomic = flight->atomic;
      atomic.kind = operation->kind;
      atomic.cell = cell;
      atomic.hash = id.hash;
      atomic.operand = operation->operand;
      atomic.expected = operation->expected;
      atomic.step = Step::kPost;
      PostOrStall(flight);
      return true;
    }
  }
  parts_.session->Start(operation);
  return true;
}

void Counters::Release(Flight* flight) {
  if (flight->atomic.noticed) {
    flight->atomic.noticed = false;
    --noticed_;
    parts_.posted->more = true;
  }
  --in_use_;
  parts_.flights->Give(flight);
}

// Returns the word that receives the old value.
uint64_t* Counters::WordOf(const Flight& flight) { return static_cast<uint64_t*>(static_cast<void*>(flight.own)); }

// ---- Posting.

bool Counters::Post(Flight* flight) {
  const uint64_t wr_id = WorkRequestId::Of(WorkRequestId::Owner::kCounters, flight);
  const uint64_t address = cells_.address + flight->atomic.cell;
  // The word belongs to the transport until Completed(), or until the connection is destroyed.
  uint64_t* const word = WordOf(*flight);
  bool done;
  if (flight->atomic.step == Step::kUndo) {
    done = connection_->PostFetchAdd(wr_id, word, address, cells_.rkey, static_cast<uint64_t>(-flight->atomic.operand));
  } else if (flight->atomic.kind == Kind::kFetchAdd) {
    done = connection_->PostFetchAdd(wr_id, word, address, cells_.rkey, static_cast<uint64_t>(flight->atomic.operand));
  } else if (flight->atomic.kind == Kind::kCompareSwap) {
    done =
        connection_->PostCompareSwap(wr_id, word, address, cells_.rkey, static_cast<uint64_t>(flight->atomic.expected),
                                     static_cast<uint64_t>(flight->atomic.operand));
  } else {
    const rdma::Sge to{static_cast<char*>(static_cast<void*>(word)), sizeof(uint64_t)};
    done = connection_->PostRead(wr_id, {&to, 1}, address, cells_.rkey);
  }
  if (!done) return false;
  flight->atomic.step = flight->atomic.step == Step::kUndo ? Step::kUndoPosted : Step::kPosted;
  parts_.posted->fetches = true;
  ++parts_.stats->atomics;
  return true;
}

void Counters::PostOrStall(Flight* flight) {
  if (Post(flight)) [[likely]]
    return;
  stalled_.Push(flight);
  parts_.posted->more = true;
}

void Counters::Pump() {
  while (!stalled_.empty() && Post(stalled_.front())) stalled_.Pop();
  while (!waiting_.empty() && stalled_.empty() && in_use_ < max_flights_) {
    Operation* const operation = waiting_.Pop();
    if (Begin(operation)) continue;
    waiting_.PushFront(operation);  // no memory for a flight now
    break;
  }
  Acknowledge();
}

// ---- Completions.

void Counters::Completed(uint64_t wr_id) {
  Flight* const flight = WorkRequestId::FlightOf<Flight>(wr_id);
  const int64_t old = static_cast<int64_t>(*WordOf(*flight));
  if (flight->atomic.step == Step::kUndoPosted) return End(flight, OutOfRange(flight->atomic.expected, /*add=*/true));
  CellState state = kv::StateOf(old);
  if (flight->atomic.kind == Kind::kFetchAdd) state = kv::StateOfAdd(old, flight->atomic.operand);
  if (state == CellState::kLive) [[likely]]
    return EndLive(flight, old);
  if (state == CellState::kDead) {
    // Deleted. The key may name a counter again: the server looks it up, and executes the operation.
    ++parts_.stats->dead_cells;
    cache_.Erase(flight->atomic.hash);
    Operation* const operation = flight->operation;
    Release(flight);
    if (operation != nullptr) parts_.session->Start(operation);
    return;
  }
  if (flight->operation != nullptr) flight->operation->counter = old;
  if (flight->atomic.kind != Kind::kFetchAdd) return End(flight, OutOfRange(old, /*add=*/false));
  flight->atomic.expected = old;
  flight->atomic.step = Step::kUndo;
  PostOrStall(flight);
}

void Counters::EndLive(Flight* flight, int64_t old) {
  Operation* const operation = flight->operation;
  Release(flight);
  if (operation == nullptr) [[unlikely]]
    return;
  operation->counter = old;
  parts_.finished->End(operation);
}

void Counters::End(Flight* flight, absl::Status status) {
  Operation* const operation = flight->operation;
  Release(flight);
  if (operation != nullptr) parts_.finished->End(operation, std::move(status));
}

void Counters::Answered(Operation* operation, const kv::Reply& reply) {
  ++parts_.stats->counter_requests;
  const bool tells =
      reply.code == kv::Code::kOk || reply.code == kv::Code::kExists || reply.code == kv::Code::kOutOfRange;
  kv::CounterResult result;
  if (tells && !kv::CounterResult::Decode(reply.payload, &result)) {
    return parts_.finished->End(operation, absl::InternalError("the server's answer about a counter makes no sense"));
  }
  operation->counter = result.value;
  if (direct_ && result.cell != 0 && kv::ValidCell(result.cell, cells_.bytes)) {
    cache_.Insert(CellCache::IdOf(*hasher_, operation->key), result.cell);
  }
  parts_.finished->End(operation, StatusFor(*operation, reply.code));
}

// ---- Deleted counters.

absl::Status Counters::Noticed(absl::string_view message) {
  auto notice = kv::CellNotice::Decode(message);
  if (!notice.ok()) return notice.status();
  if (owed_ != 0) return absl::InvalidArgumentError("the server sent a notice before the answer to the last");
  for (size_t i = 0; i < notice->size(); ++i) cache_.Erase(notice->hash(i));
  owed_ = notice->sequence();
  parts_.posted->more = true;
  parts_.flights->ForEachOf(this, [this](Flight* flight) {
    flight->atomic.noticed = true;
    ++noticed_;
  });
  return absl::OkStatus();
}

void Counters::Acknowledge() {
  if (owed_ == 0 || noticed_ != 0) return;
  kv::Request request;
  request.type = kv::RequestType::kCellsDropped;
  request.operands.operand = static_cast<int64_t>(owed_);
  char bytes[kv::kMaxRequestHeadBytes];
  if (!connection_->PostSend({bytes, request.EncodeHead(bytes)}, {})) return;
  owed_ = 0;
  parts_.posted->messages = true;
}

// ---- Operations that end early.

void Counters::Cancel(Operation* operation) {
  if (operation->queued()) return operation->Linked<QueueTag>::Unlink();
  Flight* const flight = operation->flight;
  flight->operation = nullptr;
  if (flight->atomic.step != Step::kPost) return;  // it stays until the atomic has completed
  flight->Unlink();
  Release(flight);
}

void Counters::Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) {
  waiting_.Extract([which](const Operation* operation) { return which(*operation); }, take);
}

}  // namespace farlook::client
