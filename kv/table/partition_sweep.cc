// Sweeping a partition. expiry.h decides where to look.
#include <algorithm>
#include <string>

#include "kv/layout/words.h"
#include "kv/table/partition.h"

namespace farlook::kv {
namespace {

// Number of ticks after which an expired item that was handed over is handed over again.
constexpr ExpiryIndex::Tick kAgain = 4;
// Number of buckets that a write without room looks at.
constexpr size_t kSweptBuckets = 8;
constexpr uint64_t kForEver = ~uint64_t{0};

// The beginning of a tick, in microseconds of the table's clock.
uint64_t StartUs(ExpiryIndex::Tick tick) { return (uint64_t{tick} << ExpiryIndex::kTickBits) * 1000; }

}  // namespace

void Partition::NoteExpiry(uint64_t hash, uint64_t expiry_ms) {
  // At time 0 nothing has expired, so the visit removes nothing.
  expiry_.Note(hash, expiry_ms, index_.DepthAt(PositionOf(hash)), [this](ExpiryIndex::Visit* visit) {
    VisitBucket(visit, /*clock_us=*/0, /*now_ns=*/0, /*left=*/nullptr);
  });
}

bool Partition::Sweep(size_t budget, int64_t now_ns, std::vector<ExpiredItem>* left, bool to_now) {
  if (sweeps_ == nullptr) return false;
  const uint64_t clock_us = sweeps_->NowUs();
  const ExpiryIndex::Tick now = ExpiryIndex::TickOf(clock_us / 1000);
  if (!expiry_.in_round()) round_us_ = kForEver;
  round_us_ = std::min(round_us_, to_now ? clock_us : StartUs(now));
  const bool more = expiry_.Sweep(
      now + (to_now ? 1 : 0), budget, [&](ExpiryIndex::Visit* visit) { VisitBucket(visit, clock_us, now_ns, left); },
      [this](absl::Span<const ExpiryIndex::Place> places) { Foresee(places); });
  if (!expiry_.in_round() && round_us_ > swept_us_.load(std::memory_order_relaxed)) {
    swept_us_.store(round_us_, std::memory_order_relaxed);
  }
  return more;
}

uint64_t Partition::SweptUs() const {
  const ExpiryIndex::Tick due = expiry_.due();
  if (due == ExpiryIndex::kNever) return kForEver;
  return std::max(swept_us_.load(std::memory_order_relaxed), StartUs(due));
}

bool Partition::SweepSome(int64_t now_ns) {
  if (clock_ == nullptr || expiry_.due() >= ExpiryIndex::TickOf(clock_->NowUs() / 1000)) return false;
  return Sweep(kSweptBuckets, now_ns, /*left=*/nullptr);
}

// A visit reads a directory's entry, the segment's properties, the bucket, its items; each gives the address of the
// next.
void Partition::Foresee(absl::Span<const ExpiryIndex::Place> places) const {
  for (const ExpiryIndex::Place& place : places) index_.PrefetchEntry(place.position);
  for (const ExpiryIndex::Place& place : places) index_.PrefetchBucket(place.position, place.bucket);
  for (const ExpiryIndex::Place& place : places) index_.PrefetchItems(place.position, place.bucket);
}

void Partition::VisitBucket(ExpiryIndex::Visit* visit, uint64_t clock_us, int64_t now_ns,
                            std::vector<ExpiredItem>* left) {
  for (;;) {
    uint64_t last = 0;
    char* const segment = index_.SegmentAt(visit->first, &last);
    ++visit->segments;
    ItemsToSweep items;
    const BucketInfo info(LoadWord(segment + uint64_t{visit->bucket} * kBucketBytes));
    Gather(segment, visit->bucket, &items);
    items.own = items.count;
    if (info.link() != 0) Gather(segment, LinkedBucket(info.link()), &items);
    visit->looked += info.link() != 0 ? 2 : 1;
    SweepItems(items, clock_us, now_ns, visit, left);
    visit->done = last >= visit->last;
    if (visit->done) return;
    visit->first = last + 1;
    if (visit->looked >= visit->budget) return;
  }
}

void Partition::Gather(char* segment, uint32_t number, ItemsToSweep* items) const {
  char* const bucket = segment + uint64_t{number} * kBucketBytes;
  for (size_t i = 1; i < kWordsPerBucket; ++i) {
    const Slot slot(LoadWord(bucket + 8 * i));
    if (slot.empty()) continue;
    __builtin_prefetch(region_ + slot.offset());
    items->slots[items->count++] = bucket + 8 * i;
  }
}

void Partition::SweepItems(const ItemsToSweep& items, uint64_t clock_us, int64_t now_ns, ExpiryIndex::Visit* visit,
                           std::vector<ExpiredItem>* left) {
  for (size_t i = 0; i < items.count; ++i) {
    const Found found{{items.slots[i], region_ + Slot(LoadWord(items.slots[i])).offset()}};
    const uint64_t expiry_ms = found.expiry_ms();
    if (expiry_ms == 0) continue;
    ExpiryIndex::Tick tick = ExpiryIndex::TickOf(expiry_ms);
    const bool expired = HasExpired(expiry_ms, clock_us);
    // An item that expires later than another one of this bucket changes nothing, whichever main bucket it belongs to.
    if (!expired && (i < items.own || tick >= visit->next)) {
      visit->next = std::min(visit->next, tick);
      continue;
    }
    const ItemLengths lengths = found.lengths();
    if (expired && lengths.kind != ItemKind::kCounter && clock_ != nullptr) {
      // Merging is put off, so no segment changes and the other slots stay where they are.
      RemoveExpired(found, Merging::kLater, now_ns);
      continue;
    }
    const absl::string_view key(found.item + kItemHeaderBytes, lengths.key_bytes);
    const uint64_t hash = (*hasher_)(key);
    if (expired && left != nullptr) {
      left->push_back({hash, std::string(key)});
      tick = ExpiryIndex::TickOf(clock_us / 1000) + kAgain;
    } else if (expired) {
      round_us_ = 0;  // it stays, so the round has not removed all
    }
    // A main bucket has only its own items. An overflow bucket also has those of other main buckets, whose cells cover
    // them.
    if (BucketOf(hash) == visit->bucket) visit->next = std::min(visit->next, tick);
  }
}

}  // namespace farlook::kv
