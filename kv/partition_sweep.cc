// What the sweep does to a partition. Where it looks: expiry.h.
#include <algorithm>
#include <string>

#include "kv/partition.h"
#include "kv/words.h"

namespace farlook::kv {
namespace {

// How long what has expired, and was handed over, is left alone before it is handed over again.
constexpr ExpiryIndex::Tick kAgain = 4;

}  // namespace

void Partition::NoteExpiry(uint64_t hash, uint64_t expiry_ms) {
  // At time 0 nothing has expired.
  expiry_.Note(hash, expiry_ms, index_.DepthAt(PositionOf(hash)), [this](ExpiryIndex::Visit* visit) {
    VisitBucket(visit, /*clock_us=*/0, /*now_ns=*/0, /*left=*/nullptr);
  });
}

bool Partition::Sweep(size_t budget, int64_t now_ns, std::vector<ExpiredItem>* left) {
  if (sweeps_ == nullptr) return false;
  const uint64_t clock_us = sweeps_->NowUs();
  return expiry_.Sweep(
      ExpiryIndex::TickOf(clock_us / 1000), budget,
      [&](ExpiryIndex::Visit* visit) { VisitBucket(visit, clock_us, now_ns, left); },
      [this](absl::Span<const ExpiryIndex::Place> places) { Foresee(places); });
}

// A visit reads a directory's entry, what is known of the segment, the bucket, its items; each says where the next is.
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
    // What expires later than another item of this bucket changes nothing, whoever's it is.
    if (!expired && (i < items.own || tick >= visit->next)) {
      visit->next = std::min(visit->next, tick);
      continue;
    }
    const ItemLengths lengths = found.lengths();
    if (expired && lengths.kind != ItemKind::kCounter && clock_ != nullptr) {
      // No segment moves for it, so the other slots stay where they are.
      RemoveExpired(found, Merging::kLater, now_ns);
      continue;
    }
    const absl::string_view key(found.item + kItemHeaderBytes, lengths.key_bytes);
    const uint64_t hash = (*hasher_)(key);
    if (expired) {
      left->push_back({hash, std::string(key)});
      tick = ExpiryIndex::TickOf(clock_us / 1000) + kAgain;
    }
    // A main bucket's items are its own. An overflow bucket has those of other main buckets, whose cells know of them.
    if (BucketOf(hash) == visit->bucket) visit->next = std::min(visit->next, tick);
  }
}

}  // namespace farlook::kv
