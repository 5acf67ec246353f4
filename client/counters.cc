#include "client/counters.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/deadlines.h"
#include "client/status.h"
#include "client/work_request_id.h"
#include "kv/cell_notice.h"
#include "kv/cell_region.h"
#include "kv/counter_value.h"

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

// Whether it is for the server whatever this connection has. Of a CompareSwap that expects what is out of range the
// server makes a reset.
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

Counters::~Counters() = default;

absl::Status Counters::Check(const Operation& operation) {
  const auto live = [](int64_t value) { return kv::StateOf(value) == CellState::kLive; };
  switch (operation.kind) {
    case Kind::kFetchAdd:
      if (kv::ValidDelta(operation.operand)) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(operation.operand, " at once: at most 2^40 either way"));
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
  // None is under way. Another server may have granted more.
  flights_.clear();
  free_ = nullptr;
  attention_ = true;
}

void Counters::Lost() {
  connection_ = nullptr;
  direct_ = false;
  OperationQueue again;
  for (Flight& flight : flights_) {
    if (flight.step == Step::kIdle) continue;
    Operation* const operation = flight.operation;
    const bool unknown = flight.kind != Kind::kReadCounter && flight.step != Step::kPost;
    Release(&flight);
    if (operation == nullptr) continue;
    if (unknown) {
      ++parts_.stats->unknown_atomics;
      parts_.finished->End(operation, absl::UnknownError("the connection broke while an atomic was under way: it was "
                                                         "done once, or not"));
    } else {
      again.Push(operation);
    }
  }
  while (Operation* operation = waiting_.Pop()) again.Push(operation);
  waiting_ = again;
  stalled_.clear();
  cache_.Clear();
  owed_ = 0;
  noticed_ = 0;
}

// ---- Operations begin.

void Counters::Submit(Operation* operation) {
  operation->counter = 0;
  // Its place in the order of the client's writes is this one, whatever waits here.
  if (IsRequest(*operation)) return parts_.session->Submit(operation);
  if (connection_ == nullptr || !waiting_.empty() || !Begin(operation)) {
    waiting_.Push(operation);
    attention_ = true;
  }
}

// False: no flight is free.
bool Counters::Begin(Operation* operation) {
  if (direct_) [[likely]] {
    const CellCache::Id id = CellCache::IdOf(*hasher_, operation->key);
    if (const uint64_t cell = cache_.Find(id); cell != 0) [[likely]] {
      Flight* const flight = Acquire();
      if (flight == nullptr) return false;
      flight->operation = operation;
      flight->kind = operation->kind;
      flight->cell = cell;
      flight->hash = id.hash;
      flight->operand = operation->operand;
      flight->expected = operation->expected;
      flight->step = Step::kPost;
      PostOrStall(flight);
      return true;
    }
  }
  parts_.session->Submit(operation);
  return true;
}

Counters::Flight* Counters::Acquire() {
  Flight* const flight = free_;
  if (flight == nullptr) [[unlikely]]
    return Grow();
  free_ = flight->next_free;
  return flight;
}

Counters::Flight* Counters::Grow() {
  if (flights_.size() >= max_flights_) return nullptr;
  if (flights_.size() == words_.size() * kWordsInBuffer) {
    auto buffer = parts_.endpoint->Allocate(kWordsInBuffer * sizeof(uint64_t), /*readable_by_peers=*/false);
    if (!buffer.ok()) return nullptr;
    words_.push_back(*std::move(buffer));
  }
  Flight& flight = flights_.emplace_back();
  flight.index = static_cast<uint32_t>(flights_.size() - 1);
  return &flight;
}

void Counters::Release(Flight* flight) {
  if (flight->noticed) {
    flight->noticed = false;
    --noticed_;
    attention_ = true;
  }
  flight->operation = nullptr;
  flight->step = Step::kIdle;
  flight->next_free = free_;
  free_ = flight;
}

uint64_t* Counters::WordOf(const Flight& flight) const {
  char* const words = words_[flight.index / kWordsInBuffer]->bytes().data();
  return static_cast<uint64_t*>(static_cast<void*>(words)) + flight.index % kWordsInBuffer;
}

// ---- Posting.

bool Counters::Post(Flight* flight) {
  const uint64_t wr_id = WorkRequestId::Of(WorkRequestId::Owner::kCounters, flight);
  const uint64_t address = cells_.address + flight->cell;
  // The word belongs to the transport until Completed(), or until the connection is destroyed.
  uint64_t* const word = WordOf(*flight);
  bool done;
  if (flight->step == Step::kUndo) {
    done = connection_->PostFetchAdd(wr_id, word, address, cells_.rkey, static_cast<uint64_t>(-flight->operand));
  } else if (flight->kind == Kind::kFetchAdd) {
    done = connection_->PostFetchAdd(wr_id, word, address, cells_.rkey, static_cast<uint64_t>(flight->operand));
  } else if (flight->kind == Kind::kCompareSwap) {
    done = connection_->PostCompareSwap(wr_id, word, address, cells_.rkey, static_cast<uint64_t>(flight->expected),
                                        static_cast<uint64_t>(flight->operand));
  } else {
    const rdma::Sge to{static_cast<char*>(static_cast<void*>(word)), sizeof(uint64_t)};
    done = connection_->PostRead(wr_id, {&to, 1}, address, cells_.rkey);
  }
  if (!done) return false;
  flight->step = flight->step == Step::kUndo ? Step::kUndoPosted : Step::kPosted;
  parts_.posted->fetches = true;
  ++parts_.stats->atomics;
  return true;
}

void Counters::PostOrStall(Flight* flight) {
  attention_ = true;
  if (!Post(flight)) [[unlikely]]
    stalled_.push_back(flight);
}

void Counters::Pump() {
  while (!stalled_.empty() && Post(stalled_.front())) stalled_.erase(stalled_.begin());
  while (!waiting_.empty() && stalled_.empty() && (free_ != nullptr || flights_.size() < max_flights_)) {
    Operation* const operation = waiting_.Pop();
    if (Begin(operation)) continue;
    waiting_.Push(operation);  // no memory for a flight now
    break;
  }
  Acknowledge();
  attention_ = held_up();
}

// ---- Completions.

void Counters::Completed(uint64_t wr_id) {
  Flight* const flight = WorkRequestId::FlightOf<Flight>(wr_id);
  const int64_t old = static_cast<int64_t>(*WordOf(*flight));
  if (flight->step == Step::kUndoPosted) return End(flight, OutOfRange(flight->expected, /*add=*/true));
  CellState state = kv::StateOf(old);
  if (flight->kind == Kind::kFetchAdd) state = kv::StateOfAdd(old, flight->operand);
  if (state == CellState::kLive) [[likely]]
    return EndLive(flight, old);
  if (state == CellState::kDead) {
    // Deleted. The key may name a counter again: the server looks, and does there what is wanted.
    ++parts_.stats->dead_cells;
    cache_.Erase(flight->hash);
    Operation* const operation = flight->operation;
    Release(flight);
    if (operation != nullptr) parts_.session->Submit(operation);
    return;
  }
  if (flight->operation != nullptr) flight->operation->counter = old;
  if (flight->kind != Kind::kFetchAdd) return End(flight, OutOfRange(old, /*add=*/false));
  flight->expected = old;
  flight->step = Step::kUndo;
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

// ---- What was deleted.

absl::Status Counters::Noticed(absl::string_view message) {
  auto notice = kv::CellNotice::Decode(message);
  if (!notice.ok()) return notice.status();
  if (owed_ != 0) return absl::InvalidArgumentError("the server sent a notice before the answer to the last");
  for (size_t i = 0; i < notice->size(); ++i) cache_.Erase(notice->hash(i));
  owed_ = notice->sequence();
  attention_ = true;
  for (Flight& flight : flights_) {
    if (flight.step == Step::kIdle) continue;
    flight.noticed = true;
    ++noticed_;
  }
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

// ---- Time.

int64_t Counters::Expire(int64_t now_ns, absl::FunctionRef<void(Operation*)> expired) {
  Deadlines deadlines(now_ns);
  for (Flight& flight : flights_) {
    if (flight.operation == nullptr || !deadlines.Over(*flight.operation)) continue;
    Operation* const operation = std::exchange(flight.operation, nullptr);
    if (flight.step == Step::kPost) {
      std::erase(stalled_, &flight);
      Release(&flight);
    }
    expired(operation);
  }
  waiting_.Extract(deadlines.over(), expired);
  return deadlines.earliest_ns();
}

void Counters::Withdraw(absl::FunctionRef<void(Operation*)> take) {
  while (Operation* operation = waiting_.Pop()) take(operation);
}

uint64_t Counters::memory_bytes() const {
  return flights_.size() * sizeof(Flight) + cache_.memory_bytes() + words_.size() * kWordsInBuffer * sizeof(uint64_t);
}

}  // namespace farlook::client
