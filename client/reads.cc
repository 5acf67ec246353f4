#include "client/reads.h"

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "client/deadlines.h"
#include "kv/item.h"
#include "kv/limits.h"
#include "kv/words.h"

namespace farlook::client {

using Step = kv::Lookup::Step;

Reads::Reads(const Parts& parts, uint32_t max_in_flight) : parts_(parts), max_in_flight_(max_in_flight) {}

Reads::~Reads() = default;

void Reads::Connect(const Ready& ready) {
  connection_ = ready.connection;
  capabilities_ = connection_->capabilities();
  table_ = ready.table;
  context_ = ready.context;
  max_flights_ = capabilities_.local ? std::min(max_in_flight_, kLocalFlights) : max_in_flight_;
}

void Reads::Lost() {
  connection_ = nullptr;
  OperationQueue again;
  for (Flight& flight : flights_) {
    if (!flight.in_use) continue;
    if (flight.operation != nullptr) again.Push(flight.operation);
    flight.pending = 0;
    Release(&flight);
  }
  while (Operation* operation = waiting_.Pop()) again.Push(operation);
  waiting_ = again;
  unplaced_.clear();
  stalled_.clear();
  refreshing_.clear();
  refresher_ = nullptr;
}

// One more flight, or null when there are as many as there may be (or memory is short: then they wait for each other).
Reads::Flight* Reads::Grow() {
  if (flights_.size() >= max_flights_) return nullptr;
  const size_t in_buffer = BufferPool::kChunkBytes / 2 / kStagingBytes;
  if (flights_.size() == staging_.size() * in_buffer) {
    auto buffer = parts_.endpoint->Allocate(in_buffer * kStagingBytes, /*readable_by_peers=*/false);
    if (!buffer.ok()) return nullptr;
    staging_.push_back(*std::move(buffer));
  }
  Flight& flight = flights_.emplace_back();
  flight.staging = staging_.back()->bytes().data() + (flights_.size() - 1) % in_buffer * kStagingBytes;
  flight.in_use = true;
  return &flight;
}

inline void Reads::Release(Flight* flight) {
  flight->operation = nullptr;
  flight->in_use = false;
  if (flight->large) [[unlikely]] {
    flight->large = false;
    flight->direct = false;
    flight->whole = false;
    flight->piece.Release();
    flight->piece_bytes = 0;
  }
  flight->next_free = free_;
  free_ = flight;
}

void Reads::Submit(Operation* operation) {
  Flight* flight = connection_ != nullptr && waiting_.empty() ? Acquire() : nullptr;
  if (flight == nullptr) {
    waiting_.Push(operation);
    return;
  }
  Begin(flight, operation, kv::Slot(), /*from_cache=*/true);
}

void Reads::SubmitAt(Operation* operation, kv::Slot slot) {
  Flight* flight = connection_ != nullptr ? Acquire() : nullptr;
  if (flight == nullptr) {
    waiting_.Push(operation);  // the slot is only a hint
    return;
  }
  Begin(flight, operation, slot, /*from_cache=*/false);
}

inline void Reads::Begin(Flight* flight, Operation* operation, kv::Slot slot, bool from_cache) {
  const uint64_t hash = (*context_.hasher)(operation->key);
  if (from_cache && parts_.cache->enabled()) slot = parts_.cache->Find(hash);
  flight->operation = operation;
  flight->from_cache = from_cache && !slot.empty();
  flight->restarts = 0;
  flight->since_ns = parts_.time->last_ns();
  flight->bucket_offset = 0;
  Continue(flight, flight->lookup.Start(context_, operation->key, hash, slot));
}

// Every step goes through here; what is not the common case, through Advance().
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
          if (!parts_.directory->directory()->Trusts(flight->lookup.hash(), flight->lookup.entry(), now_ns))
              [[unlikely]] {
            if (!Confirm(flight)) return;
            step = flight->lookup.Resume();
            continue;
          }
          if (flight->from_cache) parts_.cache->Erase(flight->lookup.hash());
          ++parts_.stats->misses;
          return EndAbsent(flight);
        }
        if (++flight->restarts > kMaxRestarts) return Ask(flight);
        Count(*flight);
        flight->since_ns = parts_.time->last_ns();
        step = flight->lookup.Start(context_, flight->lookup.key(), flight->lookup.hash());
        continue;
      case Step::kRefresh:
        if (!Refresh(flight)) return;
        step = flight->lookup.Resume();
        continue;
      case Step::kAskServer:
        return Ask(flight);
    }
  }
}

// Decides where the bytes that are wanted shall go, and posts the READ.
inline void Reads::Read(Flight* flight) {
  const kv::Range& wanted = flight->lookup.wanted();
  flight->posted_bytes = 0;
  if (wanted.bytes > kStagingBytes || flight->large) [[unlikely]] {
    if (!PlaceLarge(flight)) return;
  } else {
    flight->to[0] = {flight->staging, wanted.bytes};
  }
  if (!flight->lookup.wants_item()) {
    if (flight->bucket_offset == wanted.offset) ++parts_.stats->read_retries;
    if (flight->bucket_offset == 0) flight->bucket_offset = wanted.offset;
  }
  if (!Post(flight)) [[unlikely]]
    stalled_.push_back(flight);
}

// False: the flight has ended, or waits for memory (unplaced_).
bool Reads::PlaceLarge(Flight* flight) {
  const uint32_t bytes = flight->lookup.wanted().bytes;
  const uint32_t head_bytes = flight->lookup.item_head_bytes();
  Operation* operation = flight->operation;
  flight->large = true;
  flight->direct = false;
  flight->to[1] = {nullptr, 0};
  if (capabilities_.any_local_memory && !flight->whole && WantsValue(operation->kind) && flight->lookup.wants_item() &&
      bytes >= head_bytes + kMinDirectBytes) {
    const uint32_t rest_bytes = bytes - head_bytes;
    if (operation->to.string == nullptr && !operation->to.buffer.empty()) {
      // What follows the value in the item's memory means nothing, so a buffer of just the value's length will do.
      const uint64_t room = std::min<uint64_t>(rest_bytes, operation->to.buffer.size());
      flight->to[1] = {operation->to.buffer.data(), static_cast<uint32_t>(room)};
      flight->direct = true;
    } else if (operation->to.string != nullptr && rest_bytes >= kMinStringBytes) {
      if (!Resize(operation->to.string, rest_bytes)) {
        End(flight, NoMemoryForValue(rest_bytes));
        return false;
      }
      flight->to[1] = {operation->to.string->data(), rest_bytes};
      flight->direct = true;
    }
  }
  const uint32_t staged_bytes = flight->direct ? head_bytes : bytes;
  flight->to[0] = {flight->staging, staged_bytes};
  if (staged_bytes <= kStagingBytes) return true;
  if (flight->piece_bytes < staged_bytes) {
    // Given back first: those that wait must not hold what each other waits for.
    flight->piece.Release();
    flight->piece_bytes = 0;
    // More at once would be no faster, and memory of its own for each costs system calls. Only flights use this pool.
    if (parts_.pool->UsedUpFor(staged_bytes)) {
      unplaced_.push_back(flight);
      return false;
    }
    auto piece = parts_.pool->Take(staged_bytes);
    if (!piece.ok()) {
      End(flight, piece.status());
      return false;
    }
    flight->piece = *std::move(piece);
    flight->piece_bytes = staged_bytes;
  }
  flight->to[0].data = flight->piece.data();
  return true;
}

// Posts what is not posted yet of the READ. False: not all found room.
inline bool Reads::Post(Flight* flight) {
  if (flight->large) [[unlikely]]
    return PostLarge(flight);
  // The memory belongs to the transport until Completed(), or until the connection is destroyed.
  const uint64_t wr_id = WorkRequestId::Of(WorkRequestId::Owner::kReads, flight);
  const rdma::Sge* to = &flight->to[0];
  if (!connection_->PostRead(wr_id, {to, 1}, table_.address + flight->lookup.wanted().offset, table_.rkey)) {
    return false;
  }
  flight->posted_bytes = to->bytes;
  flight->pending = 1;
  parts_.posted->fetches = true;
  return true;
}

// The same for what takes several READs or pieces.
bool Reads::PostLarge(Flight* flight) {
  const uint64_t wr_id = WorkRequestId::Of(WorkRequestId::Owner::kReads, flight);
  const uint64_t start = table_.address + flight->lookup.wanted().offset;
  const uint64_t limit = capabilities_.max_read_bytes / 8 * 8;
  const rdma::Sge head = flight->to[0], rest = flight->to[1];
  while (flight->posted_bytes < flight->wanted_bytes()) {
    rdma::Sge pieces[2];
    size_t count = 0;
    uint32_t at = flight->posted_bytes, bytes = 0;
    const auto add = [&](char* data, uint64_t available) {
      pieces[count++] = {data, static_cast<uint32_t>(std::min(available, limit - bytes))};
      bytes += pieces[count - 1].bytes;
    };
    if (at < head.bytes) add(head.data + at, head.bytes - at);
    if (at + bytes >= head.bytes && rest.bytes != 0 && bytes < limit && count < capabilities_.max_read_sges) {
      const uint32_t from = at + bytes - head.bytes;
      add(rest.data + from, rest.bytes - from);
    }
    if (!connection_->PostRead(wr_id, {pieces, count}, start + at, table_.rkey)) return false;
    flight->posted_bytes += bytes;
    ++flight->pending;
    parts_.posted->fetches = true;
  }
  return true;
}

// All that was posted has completed.
void Reads::Arrived(Flight* flight) {
  if (flight->operation == nullptr) [[unlikely]]
    return Release(flight);
  if (flight->large) [[unlikely]]
    return FeedLarge(flight);
  const absl::string_view bytes(flight->staging, flight->to[0].bytes);
  Continue(flight, flight->lookup.Feed(bytes, /*late=*/false));
}

// Whether what did not fit in the caller's memory may belong to the item: head and value disagree about the length, as
// far as a head that nothing was verified of can tell.
bool Reads::CutShort(const Flight& flight) const {
  const uint64_t have = flight.wanted_bytes(), want = flight.lookup.wanted().bytes;
  if (have == want) return false;
  const kv::ItemLengths lengths = kv::ItemLengths::From(kv::LoadAs<uint64_t>(flight.to[0].data + kv::kLengthsOffset));
  return kv::ItemBytes(lengths.key_bytes, lengths.value_bytes) > have;
}

void Reads::FeedLarge(Flight* flight) {
  if (flight->posted_bytes < flight->wanted_bytes()) return;  // the rest is stalled
  const absl::string_view head(flight->to[0].data, flight->to[0].bytes);
  if (!flight->direct) return Continue(flight, flight->lookup.Feed(head, /*late=*/false));
  if (CutShort(*flight)) {
    flight->whole = true;
    return Read(flight);
  }
  // Claims the length that was wanted, since the lookup insists on it. The item ends before what was not read.
  const absl::string_view rest(flight->to[1].data, flight->lookup.wanted().bytes - head.size());
  Continue(flight, flight->lookup.Feed(head, /*late=*/false, rest));
}

void Reads::Found(Flight* flight) {
  const kv::Lookup& lookup = flight->lookup;
  const kv::ItemView& item = lookup.item();
  Operation* operation = flight->operation;
  if (operation->kind == Kind::kTtl) [[unlikely]]
    return EndTtl(flight);
  if (item.kind != kv::ItemKind::kValue) [[unlikely]] {
    return EndAsCounter(flight);
  }
  if (parts_.cache->enabled()) {
    const bool hit = lookup.bucket_reads() == 0 && flight->from_cache;
    if (hit) ++parts_.stats->cached_hits;
    if (!hit || lookup.moved()) {
      parts_.cache->Insert(lookup.hash(), lookup.slot());
    }
  }
  ++parts_.stats->hits;
  operation->version = item.version;
  if (flight->direct) [[unlikely]] {
    operation->value_bytes = item.value.size();
    if (operation->to.string != nullptr) operation->to.string->resize(item.value.size());
  } else if (WantsValue(operation->kind) && !Copy(item.value, operation)) [[unlikely]] {
    return EndNotCopied(flight);
  }
  Count(*flight);
  Release(flight);
  parts_.finished->End(operation);
}

// The errors of Found(), apart, so that it needs little of the stack.
ABSL_ATTRIBUTE_NOINLINE void Reads::EndAsCounter(Flight* flight) {
  End(flight, absl::FailedPreconditionError("the key names a counter"));
}
ABSL_ATTRIBUTE_NOINLINE void Reads::EndTtl(Flight* flight) {
  const uint64_t expiry_ms = flight->lookup.item().expiry_ms;
  Operation* operation = flight->operation;
  operation->version = flight->lookup.item().version;
  operation->left_ms = LeftMs(expiry_ms, expiry_ms == 0 ? 0 : parts_.session->clock()->Now().hi);
  ++parts_.stats->hits;
  Count(*flight);
  Release(flight);
  parts_.finished->End(operation);
}
ABSL_ATTRIBUTE_NOINLINE void Reads::EndNotCopied(Flight* flight) {
  End(flight, NotCopied(flight->lookup.item().value, *flight->operation));
}

bool Reads::NotFoundInTime(const Flight& flight, int64_t now_ns) const {
  return now_ns - flight.since_ns <= kv::kMaxBucketReadNs;
}

// Is it known that the bucket was in the index? True: the directory has news for this flight. False: it waits.
bool Reads::Confirm(Flight* flight) {
  const kv::Lookup& lookup = flight->lookup;
  if (!(parts_.directory->directory()->Find(lookup.hash()) == lookup.entry())) return true;
  if (!parts_.directory->busy()) {
    ++parts_.stats->directory_refreshes;
    parts_.directory->Confirm();
    parts_.posted->fetches |= parts_.directory->Post();
  }
  flight->absent = true;
  refreshing_.push_back(flight);
  return false;
}

// True: the directory has news for this flight already. False: it waits for them.
bool Reads::Refresh(Flight* flight) {
  if (!parts_.directory->busy()) {
    if (parts_.directory->Refresh(flight->lookup.hash(), flight->lookup.stale_entry())) return true;
    ++parts_.stats->directory_refreshes;
    parts_.posted->fetches |= parts_.directory->Post();
    refresher_ = flight;
  }
  refreshing_.push_back(flight);
  return false;
}

void Reads::Refreshed() {
  std::vector<Flight*> flights;
  flights.swap(refreshing_);
  const Flight* const refresher = std::exchange(refresher_, nullptr);
  for (Flight* flight : flights) {
    if (std::exchange(flight->absent, false)) {
      Advance(flight, Step::kNotFound);
    } else {
      Advance(flight, flight == refresher ? flight->lookup.Resume() : Step::kRefresh);
    }
  }
}

void Reads::Ask(Flight* flight) {
  Operation* operation = flight->operation;
  Count(*flight);
  ++parts_.stats->server_gets;
  Release(flight);
  parts_.session->Submit(operation);  // overtaken by writers too often: the server looks
}

inline void Reads::Count(const Flight& flight) {
  parts_.stats->bucket_reads += flight.lookup.bucket_reads();
  parts_.stats->item_reads += flight.lookup.item_reads();
  if (flight.from_cache && flight.lookup.cached_was_stale()) ++parts_.stats->stale_locations;
}

void Reads::End(Flight* flight, absl::Status status) {
  Operation* operation = flight->operation;
  Count(*flight);
  Release(flight);
  parts_.finished->End(operation, std::move(status));
}

void Reads::EndAbsent(Flight* flight) {
  Operation* operation = flight->operation;
  Count(*flight);
  Release(flight);
  parts_.finished->EndAbsent(operation);
}

void Reads::Pump() {
  parts_.posted->fetches |= parts_.directory->Post();
  while (!stalled_.empty()) {
    if (!Post(stalled_.front())) break;
    stalled_.pop_front();
  }
  // Each at most once: who finds no memory is the last again.
  for (size_t tries = unplaced_.size(); tries > 0; --tries) {
    Flight* flight = unplaced_.front();
    if (parts_.pool->UsedUpFor(flight->to[0].bytes)) break;
    unplaced_.pop_front();
    Read(flight);
  }
  while (!waiting_.empty() && stalled_.empty() && unplaced_.empty()) {
    Flight* flight = Acquire();
    if (flight == nullptr) break;
    Begin(flight, waiting_.Pop(), kv::Slot(), /*from_cache=*/true);
  }
}

bool Reads::ExpiryNeedsBreak(int64_t now_ns) const {
  return std::any_of(flights_.begin(), flights_.end(), [now_ns](const Flight& flight) {
    return flight.operation != nullptr && flight.direct && flight.pending > 0 &&
           flight.operation->deadline_ns <= now_ns;
  });
}

int64_t Reads::Expire(int64_t now_ns, absl::FunctionRef<void(Operation*)> expired) {
  Deadlines deadlines(now_ns);
  for (Flight& flight : flights_) {
    if (flight.operation == nullptr || !deadlines.Over(*flight.operation)) continue;
    std::erase(unplaced_, &flight);
    std::erase(stalled_, &flight);
    std::erase(refreshing_, &flight);
    Operation* operation = std::exchange(flight.operation, nullptr);
    Count(flight);
    if (flight.pending == 0) Release(&flight);
    expired(operation);
  }
  waiting_.Extract(deadlines.over(), expired);
  return deadlines.earliest_ns();
}

void Reads::Withdraw(absl::FunctionRef<void(Operation*)> take) {
  while (Operation* operation = waiting_.Pop()) take(operation);
}

uint64_t Reads::memory_bytes() const {
  uint64_t bytes = flights_.size() * sizeof(Flight);
  for (const auto& buffer : staging_) bytes += buffer->bytes().size();
  return bytes;
}

}  // namespace farlook::client
