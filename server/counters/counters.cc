#include "server/counters/counters.h"

#include <utility>

#include "kv/layout/counter_value.h"
#include "kv/layout/expiry_word.h"

namespace farlook::server {
namespace {

using kv::CellState;
using kv::Code;

Outcome WithValue(Code code, int64_t value) { return {code, 0, {}, {value, 0}}; }

// The result after a device failed.
constexpr Code kDeviceFailed = Code::kOutcomeUnknown;

}  // namespace

Counters::Counters(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time,
                   absl::Span<char> region, std::unique_ptr<CellWriter> writer, const std::vector<uint64_t>& used)
    : table_(table),
      locks_(locks),
      clock_(clock),
      time_(time),
      writer_(std::move(writer)),
      pool_(region.size(), used) {}

Outcome Counters::Execute(const kv::Request& request, uint64_t hash, bool with_cell, LockTimes* times) {
  TimedLock lock(locks_->of(hash), times);
  uint64_t cell = 0;
  const Code code = table_->FindCounter(hash, request.key, &cell);
  Outcome outcome;
  if (request.type == kv::RequestType::kCounterCreate && code == Code::kNotFound) {
    outcome = Create(request, hash, request.operands.operand, request.operands.operand, &cell);
  } else if (request.option.create && code == Code::kNotFound) {
    outcome = CreateAndAdd(request, hash, &cell);
  } else if (code != Code::kOk) {
    return Outcome(code);
  } else {
    switch (request.type) {
      case kv::RequestType::kCounterAdd:
        outcome = Add(request.operands.operand, cell);
        break;
      case kv::RequestType::kCounterSwap:
        outcome = Swap(request.operands.operand, request.operands.desired, cell);
        break;
      case kv::RequestType::kCounterDelete:
        return Delete(request, hash, cell);
      default:
        outcome = Read(cell);
        if (request.type == kv::RequestType::kCounterCreate) outcome.code = Code::kExists;
    }
  }
  if (with_cell) outcome.counter.cell = cell;
  return outcome;
}

void Counters::Expire(absl::string_view key, uint64_t hash, uint64_t clock_us) {
  kv::LockedPartition lock(locks_->of(hash));
  uint64_t cell = 0;
  kv::ItemView item;
  if (table_->FindCounter(hash, key, &cell) != Code::kOk || table_->Get(hash, key, &item).code != Code::kOk ||
      !kv::HasExpired(item.expiry_ms, clock_us)) {
    return;
  }
  kv::Request request;
  request.key = key;
  Delete(request, hash, cell);
}

// The cell is unknown to others: its last holders have acknowledged or disconnected, and no item names it.
bool Counters::Set(uint64_t cell, int64_t value) {
  int64_t now, old;
  return writer_->Read(cell, &now) && writer_->FetchAdd(cell, kv::Difference(value, now), &old);
}

Outcome Counters::Create(const kv::Request& request, uint64_t hash, int64_t value, int64_t told, uint64_t* cell) {
  const uint64_t fresh = AllocateCell();
  if (fresh == 0) return Outcome(Code::kNoMemory);
  if (!Set(fresh, value)) return Outcome(kDeviceFailed);  // the cell is lost, which is the safe side
  const int64_t now_ns = clock_->NowNs();
  const uint64_t expiry_ms = time_.ExpiryMs(request.option.ttl_us, now_ns);
  const kv::WriteResult inserted = table_->InsertCounter(hash, request.key, fresh, expiry_ms, now_ns);
  if (inserted.code != Code::kOk) {
    if (Set(fresh, static_cast<int64_t>(kv::kPoison))) FreeCell(fresh);
    return Outcome(inserted.code);
  }
  *cell = fresh;
  return WithValue(Code::kOk, told);
}

// The counter holds the sum from the start.
Outcome Counters::CreateAndAdd(const kv::Request& request, uint64_t hash, uint64_t* cell) {
  const int64_t initial = request.option.initial, delta = request.operands.operand;
  if (kv::StateOfAdd(initial, delta) != CellState::kLive) return WithValue(Code::kOutOfRange, initial);
  return Create(request, hash, kv::AddedTo(initial, delta), initial, cell);
}

Outcome Counters::Add(int64_t delta, uint64_t cell) {
  int64_t old, passing;
  if (!writer_->FetchAdd(cell, delta, &old)) return Outcome(kDeviceFailed);
  if (kv::StateOfAdd(old, delta) == CellState::kLive) return WithValue(Code::kOk, old);
  // Taken back, as a client does after its own add.
  if (!writer_->FetchAdd(cell, -delta, &passing)) return Outcome(kDeviceFailed);
  return WithValue(Code::kOutOfRange, old);
}

Outcome Counters::Swap(int64_t expected, int64_t desired, uint64_t cell) {
  int64_t old;
  if (!writer_->CompareSwap(cell, expected, desired, &old)) return Outcome(kDeviceFailed);
  const bool counts = old == expected || kv::StateOf(old) == CellState::kLive;
  return WithValue(counts ? Code::kOk : Code::kOutOfRange, old);
}

Outcome Counters::Read(uint64_t cell) {
  int64_t value;
  if (!writer_->Read(cell, &value)) return Outcome(kDeviceFailed);
  return WithValue(kv::StateOf(value) == CellState::kLive ? Code::kOk : Code::kOutOfRange, value);
}

Outcome Counters::Delete(const kv::Request& request, uint64_t hash, uint64_t cell) {
  int64_t old, passing;
  if (!writer_->FetchAdd(cell, static_cast<int64_t>(kv::kPoison), &old)) return Outcome(kDeviceFailed);
  // A value out of range would, poisoned, be near an end of the dead range: this moves it to the middle.
  if (kv::StateOf(old) != CellState::kLive && !writer_->FetchAdd(cell, kv::Difference(0, old), &passing)) {
    return Outcome(kDeviceFailed);
  }
  table_->DeleteCounter(hash, request.key);
  Retire(cell, hash);
  return WithValue(Code::kOk, old);
}

// --- Cells ---

uint64_t Counters::AllocateCell() {
  absl::MutexLock lock(&mutex_);
  return pool_.Allocate();
}

void Counters::FreeCell(uint64_t cell) {
  absl::MutexLock lock(&mutex_);
  pool_.Free(cell);
}

void Counters::TakeReleased() {
  quarantine_.TakeReleased(&released_);
  for (const uint64_t cell : released_) pool_.Free(cell);
  released_.clear();
}

void Counters::Retire(uint64_t cell, uint64_t hash) {
  {
    absl::MutexLock lock(&mutex_);
    quarantine_.Retire(cell, hash);
    TakeReleased();
    if (quarantine_.holders() == 0) return;
  }
  for (News& news : news_) {
    if (!news.any.exchange(true, std::memory_order_acq_rel)) news.wake();
  }
}

// --- Connections ---

int Counters::AddWorker(std::function<void()> wake) {
  news_.emplace_back(std::move(wake));
  return static_cast<int>(news_.size()) - 1;
}

bool Counters::TakeNews(int worker) {
  std::atomic<bool>& any = news_[static_cast<size_t>(worker)].any;
  return any.load(std::memory_order_relaxed) && any.exchange(false, std::memory_order_acq_rel);
}

Counters::Holder Counters::Enroll() {
  absl::MutexLock lock(&mutex_);
  return quarantine_.Enroll();
}

void Counters::Leave(Holder holder) {
  absl::MutexLock lock(&mutex_);
  quarantine_.Leave(holder);
  TakeReleased();
}

uint64_t Counters::NextNotice(Holder holder, size_t most, std::vector<uint64_t>* hashes) {
  absl::MutexLock lock(&mutex_);
  return quarantine_.NextNotice(holder, most, hashes);
}

bool Counters::Acknowledge(Holder holder, uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  if (!quarantine_.Acknowledge(holder, sequence)) return false;
  TakeReleased();
  return true;
}

CounterStats Counters::stats() const {
  absl::MutexLock lock(&mutex_);
  CounterStats stats;
  stats.cells = pool_.total();
  stats.cells_free = pool_.free();
  stats.cells_quarantined = quarantine_.waiting();
  stats.counters = stats.cells - stats.cells_free - stats.cells_quarantined;
  stats.holders = quarantine_.holders();
  return stats;
}

}  // namespace farlook::server
