#include "client/reads/reads.h"

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "client/op/work_request_id.h"
#include "kv/layout/expiry_word.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/words.h"

namespace farlook::client {

using Step = kv::Lookup::Step;

void Reads::Connect(const Ready& ready) {
  connection_ = ready.connection;
  capabilities_ = connection_->capabilities();
  table_ = ready.table;
  context_ = ready.context;
  last_own_ = context_.region_bytes - ReadBuffer::kOwnBytes;
  watch_ = ready.watch;
  at_once_ = capabilities_.reads_at_once && watch_ == nullptr;
  max_flights_ = capabilities_.local ? std::min(max_in_flight_, kLocalFlights) : max_in_flight_;
}

void Reads::Lost() {
  connection_ = nullptr;
  OperationQueue again;
  parts_.flights->ForEachOf(this, [&](Flight* flight) {
    if (flight->linked()) flight->Unlink();
    flight->get.absent = false;
    if (flight->operation != nullptr) again.Push(flight->operation);
    flight->pending = 0;
    Release(flight);
  });
  again.Append(&waiting_);
  waiting_.Append(&again);
  refresher_ = nullptr;
  max_flights_ = 0;
  at_once_ = false;
}

// REQUIRES: its landing is not large.
inline void Reads::Free(Flight* flight) {
  --in_use_;
  parts_.flights->Give(flight);
}

inline void Reads::Release(Flight* flight) {
  if (flight->get.buffer.large()) [[unlikely]]
    flight->get.buffer.Release();
  Free(flight);
}

// Queues the operation for a connection or a flight.
ABSL_ATTRIBUTE_NOINLINE void Reads::Await(Operation* operation) {
  waiting_.Push(operation);
  parts_.posted->more = true;
}

ABSL_ATTRIBUTE_NOINLINE void Reads::Park(Flight* flight, FlightQueue* queue) {
  queue->Push(flight);
  parts_.posted->more = true;
}

void Reads::Start(Operation* operation) {
  operation->engine = this;
  Flight* flight = waiting_.empty() ? Acquire(operation) : nullptr;
  if (flight == nullptr) {
    Await(operation);
    return;
  }
  Begin(flight);
}

void Reads::StartAt(Operation* operation, kv::Slot slot, uint64_t version) {
  operation->engine = this;
  Flight* flight = Acquire(operation);
  if (flight == nullptr) {
    Await(operation);  // the slot is only a hint
    return;
  }
  flight->get.remembered = flight->get.at_first = false;
  flight->get.since_ns = parts_.time->last_ns();
  Continue(flight, StartLookup(flight, HashOf(*operation), slot, version));
}

// Looks in the mirror. The item at that location is READ first: usually it proves itself.
[[gnu::always_inline]] inline void Reads::Begin(Flight* flight) {
  if (!AimAtFirst(flight)) [[unlikely]]
    return BeginLookup(flight, flight->get.hash, flight->get.slot);
  PostOrPark(flight);
}

// Returns false if the mirror has no location that can be READ first.
[[gnu::always_inline]] inline bool Reads::AimAtFirst(Flight* flight) {
  const Operation& operation = *flight->operation;
  GetState& get = flight->get;
  const uint64_t hash = HashOf(operation);
  const kv::Slot slot = parts_.mirror->enabled() ? parts_.mirror->Find(hash) : kv::Slot();
  get.hash = hash;
  get.slot = slot;
  get.at_first = !slot.empty() && IsOneOf(operation.kind, Kind::kGet, Kind::kExists) &&
                 slot.bytes() <= ReadBuffer::kOwnBytes && slot.offset() <= last_own_;
  if (!get.at_first) [[unlikely]]
    return false;
  get.from = table_.address + slot.offset();
  get.buffer.PlaceSmall(flight->own, static_cast<uint32_t>(slot.bytes()));
  return true;
}

bool Reads::RunAtOnce(Operation* operation, absl::FunctionRef<void()> begin) {
  Flight* const flight = waiting_.empty() ? Acquire(operation) : nullptr;
  if (flight == nullptr || !AimAtFirst(flight)) [[unlikely]] {
    begin();
    operation->engine = this;
    flight == nullptr ? Await(operation) : BeginLookup(flight, flight->get.hash, flight->get.slot);
    return false;
  }
  const uint64_t wr_id = WorkRequestId::Of(WorkRequestId::Owner::kReads, flight);
  const rdma::AtOnce read =
      connection_->ReadAtOnce(wr_id, flight->get.buffer.small(), flight->get.from, table_.rkey, looks_);
  if (read == rdma::AtOnce::kDone && TakeAtFirst(flight)) [[likely]] {
    if (!operation->status.ok()) [[unlikely]]
      operation->status = absl::OkStatus();
    operation->done = true;
    return true;
  }
  begin();
  operation->engine = this;
  switch (read) {
    case rdma::AtOnce::kDone:
      BeginAfterAll(flight);
      break;
    case rdma::AtOnce::kPosted:
      flight->pending = 1;
      break;
    case rdma::AtOnce::kNo:
      PostOrPark(flight);
      break;
  }
  return false;
}

// `slot`: location in the mirror, or empty.
ABSL_ATTRIBUTE_NOINLINE void Reads::BeginLookup(Flight* flight, uint64_t hash, kv::Slot slot) {
  flight->get.at_first = false;
  flight->get.remembered = !slot.empty();
  flight->get.since_ns = parts_.time->last_ns();
  Continue(flight, StartLookup(flight, hash, slot, /*reported_version=*/0));
}

Step Reads::StartLookup(Flight* flight, uint64_t hash, kv::Slot slot, uint64_t reported_version) {
  GetState& get = flight->get;
  get.restarts = 0;
  get.reported_version = reported_version;
  get.bucket_offset = 0;
  return get.lookup.Start(context_, flight->operation->key, hash, slot);
}

// Every step passes here; uncommon ones continue in Advance().
inline void Reads::Continue(Flight* flight, Step step) {
  if (step == Step::kRead) [[likely]] {
    Read(flight);
  } else if (step == Step::kFound) {
    Found(flight);
  } else {
    Advance(flight, step);
  }
}

void Reads::Advance(Flight* flight, Step step) {
  for (;;) {
    switch (step) {
      case Step::kRead:
        return Read(flight);
      case Step::kFound:
        return Found(flight);
      case Step::kNotFound:
        if (const int64_t now_ns = parts_.time->NowNs(); NotFoundInTime(*flight, now_ns)) {
          const kv::Lookup& lookup = flight->get.lookup;
          if (!parts_.directory->directory()->Trusts(lookup.hash(), lookup.entry(), now_ns)) [[unlikely]] {
            if (!Confirm(flight)) return;
            step = flight->get.lookup.Resume();
            continue;
          }
          return Absent(flight);
        }
        if (++flight->get.restarts > kMaxRestarts) return Ask(flight);
        Count(*flight);
        flight->get.since_ns = parts_.time->last_ns();
        step = flight->get.lookup.Start(context_, flight->get.lookup.key(), flight->get.lookup.hash());
        continue;
      case Step::kRefresh:
        if (!Refresh(flight)) return;
        step = flight->get.lookup.Resume();
        continue;
      case Step::kAskServer:
        return Ask(flight);
    }
  }
}

// Chooses memory for the wanted bytes, and posts the READ.
inline void Reads::Read(Flight* flight) {
  GetState& get = flight->get;
  const kv::Range& wanted = get.lookup.wanted();
  if (wanted.bytes > ReadBuffer::kOwnBytes || get.buffer.large()) [[unlikely]] {
    if (!PlaceLarge(flight)) return;
  } else {
    get.buffer.PlaceSmall(flight->own, wanted.bytes);
  }
  if (!get.lookup.wants_item()) {
    if (get.bucket_offset == wanted.offset) ++parts_.stats->read_retries;
    if (get.bucket_offset == 0) get.bucket_offset = wanted.offset;
  }
  get.from = table_.address + wanted.offset;
  PostOrPark(flight);
}

inline void Reads::PostOrPark(Flight* flight) {
  if (!Post(flight)) [[unlikely]]
    Park(flight, &stalled_);
}

// Returns false if the flight has ended or waits for memory (unplaced_).
bool Reads::PlaceLarge(Flight* flight) {
  GetState& get = flight->get;
  const auto placed = get.buffer.PlaceLarge(get.lookup, flight->operation, flight->own, capabilities_,
                                            *parts_.user_memory, parts_.pool);
  if (!placed.ok()) {
    // The remembered location may be noise of another process, with any length: read the bucket instead.
    if (std::exchange(get.remembered, false) && get.lookup.bucket_reads() == 0) {
      Continue(flight, get.lookup.Start(context_, get.lookup.key(), get.lookup.hash()));
    } else {
      End(flight, placed.status());
    }
    return false;
  }
  if (!*placed) Park(flight, &unplaced_);
  return *placed;
}

// Posts the remaining work requests of the READ. Returns false if some found no room.
inline bool Reads::Post(Flight* flight) {
  const uint64_t wr_id = WorkRequestId::Of(WorkRequestId::Owner::kReads, flight);
  // The memory belongs to the transport until Completed(), or until the connection is destroyed.
  const bool done = flight->get.buffer.Post(connection_, wr_id, flight->get.from, table_.rkey, &flight->pending);
  parts_.posted->fetches = true;
  return done;
}

inline void Reads::Hit(Operation* operation, kv::Slot slot, uint64_t version) {
  ++parts_.stats->hits;
  parts_.touches->Hit(slot);
  operation->version = version;
}

// Returns whether the get ends with the item at the mirror's location. Then its flight is free.
[[gnu::always_inline]] inline bool Reads::TakeAtFirst(Flight* flight) {
  GetState& get = flight->get;
  Operation* const operation = flight->operation;
  const absl::string_view bytes = get.buffer.head();
  uint64_t version = 0;
  absl::string_view value;
  if (watch_ != nullptr ||
      !kv::IsPlainItem(*context_.hasher, bytes.data(), bytes.size(), operation->key, &version, &value)) [[unlikely]] {
    return false;
  }
  if (operation->kind == Kind::kGet && !Copy(value, operation)) [[unlikely]]
    return false;
  ++parts_.stats->cached_hits;
  ++parts_.stats->item_reads;
  Hit(operation, get.slot, version);
  Free(flight);
  return true;
}

// Passes the bytes to the lookup, which continues.
[[gnu::always_inline]] inline void Reads::Feed(Flight* flight) {
  if (flight->get.buffer.large()) [[unlikely]]
    return FeedLarge(flight);
  kv::Lookup& lookup = flight->get.lookup;
  if (!lookup.wants_item()) parts_.mirror->Fill(flight->get.buffer.head());
  Continue(flight, lookup.Feed(flight->get.buffer.head(), /*late=*/false));
}

// All posted work requests have completed.
void Reads::Arrived(Flight* flight) {
  Operation* const operation = flight->operation;
  if (operation == nullptr) [[unlikely]]
    return Release(flight);
  if (!flight->get.at_first) [[unlikely]]
    return Feed(flight);
  if (!TakeAtFirst(flight)) [[unlikely]]
    return BeginAfterAll(flight);
  parts_.finished->End(operation);
}

// Slow path: the bytes READ at the mirror's location are not plainly the item. Starts a lookup.
ABSL_ATTRIBUTE_NOINLINE void Reads::BeginAfterAll(Flight* flight) {
  GetState& get = flight->get;
  get.at_first = false;
  get.remembered = true;
  get.since_ns = parts_.time->last_ns();
  const Step step = StartLookup(flight, get.hash, get.slot, /*reported_version=*/0);
  // Usually it wants just these bytes.
  get.lookup.wants_item() ? Feed(flight) : Continue(flight, step);
}

void Reads::FeedLarge(Flight* flight) {
  ReadBuffer& buffer = flight->get.buffer;
  kv::Lookup& lookup = flight->get.lookup;
  if (!buffer.whole_posted()) return;  // the rest found no room yet
  if (!buffer.direct()) return Continue(flight, lookup.Feed(buffer.head(), /*late=*/false));
  if (buffer.CutShort(lookup.wanted().bytes)) {
    buffer.KeepWhole();
    return Read(flight);
  }
  Continue(flight, lookup.Feed(buffer.head(), /*late=*/false, buffer.rest(lookup.wanted().bytes)));
}

void Reads::Found(Flight* flight) {
  if (watch_ != nullptr) [[unlikely]]
    return Judge(flight, /*absent=*/false);
  EndFound(flight);
}

void Reads::Absent(Flight* flight) {
  if (watch_ != nullptr) [[unlikely]]
    return Judge(flight, /*absent=*/true);
  EndAbsent(flight);
}

// In a group, a result ends the get, waits, or is left to the server. A version that the server itself reported needs
// no further proof: a version of a key has the same value for ever.
ABSL_ATTRIBUTE_NOINLINE void Reads::Judge(Flight* flight, bool absent) {
  if (!absent && flight->get.reported_version != 0 && flight->get.lookup.item().version == flight->get.reported_version)
    return EndFound(flight);
  flight->get.absent = absent;
  flight->get.completed_ns = parts_.time->last_ns();
  flight->get.begun = watch_->begun();
  Settle(flight, watch_->Judge(flight->get.completed_ns, flight->get.begun));
}

void Reads::JudgeAgain() {
  FlightQueue flights;
  flights.Append(&unconfirmed_);
  while (Flight* const flight = flights.Pop()) {
    Settle(flight, watch_->Judge(flight->get.completed_ns, flight->get.begun));
  }
}

void Reads::Settle(Flight* flight, EpochWatch::Verdict verdict) {
  if (verdict == EpochWatch::Verdict::kNotYet) return Park(flight, &unconfirmed_);  // a round may begin now
  const bool absent = std::exchange(flight->get.absent, false);
  if (verdict == EpochWatch::Verdict::kAsk) {
    Ask(flight);
  } else if (absent) {
    EndAbsent(flight);
  } else {
    EndFound(flight);
  }
}

inline void Reads::EndFound(Flight* flight) {
  const kv::Lookup& lookup = flight->get.lookup;
  const kv::ItemView& item = lookup.item();
  Operation* operation = flight->operation;
  if (operation->kind == Kind::kTtl) [[unlikely]]
    return EndTtl(flight);
  if (item.kind != kv::ItemKind::kValue) [[unlikely]] {
    return EndAsCounter(flight);
  }
  if (flight->get.remembered && lookup.bucket_reads() == 0) {
    ++parts_.stats->cached_hits;
    if (lookup.moved()) parts_.mirror->Insert(lookup.hash(), lookup.slot());
  }
  Hit(operation, lookup.slot(), item.version);
  if (flight->get.buffer.direct()) [[unlikely]] {
    operation->value_bytes = item.value.size();
    if (operation->to.string != nullptr) operation->to.string->resize(item.value.size());
  } else if (WantsValue(operation->kind) && !Copy(item.value, operation)) [[unlikely]] {
    return EndNotCopied(flight);
  }
  Count(*flight);
  Release(flight);
  parts_.finished->End(operation);
}

// The errors of Found(), in separate functions so that it needs little stack.
ABSL_ATTRIBUTE_NOINLINE void Reads::EndAsCounter(Flight* flight) {
  End(flight, absl::FailedPreconditionError("the key names a counter"));
}
ABSL_ATTRIBUTE_NOINLINE void Reads::EndTtl(Flight* flight) {
  const kv::ItemView& item = flight->get.lookup.item();
  const uint64_t expiry_ms = item.expiry_ms;
  Operation* operation = flight->operation;
  operation->version = item.version;
  operation->kept = (item.flags & kv::RequestOptions::kKeep) != 0;
  operation->left_ms = LeftMs(expiry_ms, expiry_ms == 0 ? 0 : parts_.session->clock()->Now().hi);
  ++parts_.stats->hits;
  Count(*flight);
  Release(flight);
  parts_.finished->End(operation);
}
ABSL_ATTRIBUTE_NOINLINE void Reads::EndNotCopied(Flight* flight) {
  End(flight, NotCopied(flight->get.lookup.item().value, *flight->operation));
}

bool Reads::NotFoundInTime(const Flight& flight, int64_t now_ns) const {
  return now_ns - flight.get.since_ns <= kv::kMaxBucketReadNs;
}

// Confirms that the bucket was in the index. Returns true if the directory has changed for this flight; false if it
// waits.
bool Reads::Confirm(Flight* flight) {
  const kv::Lookup& lookup = flight->get.lookup;
  if (!(parts_.directory->directory()->Find(lookup.hash()) == lookup.entry())) return true;
  if (!parts_.directory->busy()) {
    ++parts_.stats->directory_refreshes;
    parts_.directory->Confirm();
    parts_.posted->fetches |= parts_.directory->Post();
  }
  flight->get.absent = true;
  Park(flight, &refreshing_);
  return false;
}

// Returns true if the directory has already changed for this flight; false if it waits for the refresh.
bool Reads::Refresh(Flight* flight) {
  if (!parts_.directory->busy()) {
    if (parts_.directory->Refresh(flight->get.lookup.hash(), flight->get.lookup.stale_entry())) return true;
    ++parts_.stats->directory_refreshes;
    parts_.posted->fetches |= parts_.directory->Post();
    refresher_ = flight;
  }
  Park(flight, &refreshing_);
  return false;
}

void Reads::Refreshed() {
  FlightQueue flights;
  flights.Append(&refreshing_);
  const Flight* const refresher = std::exchange(refresher_, nullptr);
  while (Flight* const flight = flights.Pop()) {
    if (std::exchange(flight->get.absent, false)) {
      Advance(flight, Step::kNotFound);
    } else {
      Advance(flight, flight == refresher ? flight->get.lookup.Resume() : Step::kRefresh);
    }
  }
}

void Reads::Ask(Flight* flight) {
  Operation* operation = flight->operation;
  Count(*flight);
  ++parts_.stats->server_gets;
  Release(flight);
  parts_.session->Start(operation);  // overtaken by writers too often: the server looks
}

inline void Reads::Count(const Flight& flight) {
  parts_.stats->bucket_reads += flight.get.lookup.bucket_reads();
  parts_.stats->item_reads += flight.get.lookup.item_reads();
  if (flight.get.remembered && flight.get.lookup.cached_was_stale()) ++parts_.stats->stale_locations;
}

void Reads::End(Flight* flight, absl::Status status) {
  Operation* operation = flight->operation;
  Count(*flight);
  Release(flight);
  parts_.finished->End(operation, std::move(status));
}

void Reads::EndAbsent(Flight* flight) {
  Operation* operation = flight->operation;
  ++parts_.stats->misses;
  Count(*flight);
  Release(flight);
  parts_.finished->EndAbsent(operation);
}

void Reads::Pump() {
  parts_.posted->fetches |= parts_.directory->Post();
  while (!stalled_.empty()) {
    if (!Post(stalled_.front())) break;
    stalled_.Pop();
  }
  // Each flight is tried at most once: one that finds no memory goes to the end again.
  FlightQueue tried;
  tried.Append(&unplaced_);
  while (!tried.empty() && !tried.front()->get.buffer.Waits(*parts_.pool)) Read(tried.Pop());
  tried.Append(&unplaced_);
  unplaced_.Append(&tried);
  while (!waiting_.empty() && stalled_.empty() && unplaced_.empty()) {
    Flight* flight = Acquire(waiting_.front());
    if (flight == nullptr) break;
    waiting_.Pop();
    Begin(flight);
  }
}

bool Reads::MayStillWrite(const Operation& operation) const {
  if (operation.queued()) return false;
  const Flight* const flight = operation.flight;
  return flight->get.buffer.direct() && flight->pending > 0;
}

void Reads::Cancel(Operation* operation) {
  if (operation->queued()) return operation->Linked<QueueTag>::Unlink();
  Flight* const flight = operation->flight;
  if (flight->linked()) flight->Unlink();
  if (flight == refresher_) refresher_ = nullptr;
  flight->get.absent = false;
  if (!flight->get.at_first) Count(*flight);
  flight->operation = nullptr;
  if (flight->pending == 0) Release(flight);
}

void Reads::Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) {
  waiting_.Extract([which](const Operation* operation) { return which(*operation); }, take);
}

}  // namespace farlook::client
