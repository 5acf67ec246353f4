#include "kv/read/scan.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "kv/layout/words.h"

namespace farlook::kv {
namespace {

constexpr size_t kBucketWords = kBucketBytes / 8;

uint64_t WordAt(const char* segment, size_t place) { return LoadAs<uint64_t>(segment + 8 * place); }

}  // namespace

bool ScanPart::After(const ScanPart& covered, ScanPart* next) const {
  *next = *this;
  if (covered.bucket_end < bucket_end) {
    next->bucket = covered.bucket_end;
    // The buckets before are done only in these positions.
    next->last = covered.last;
    return true;
  }
  if (covered.last == last) return false;
  next->first = covered.last + 1;
  return true;
}

Scan::Step Scan::Start(const ReaderContext& context, const ScanPart& part, uint64_t most_bytes,
                       const ScanFilter& filter) {
  context_ = context;
  filter_ = &filter;
  part_ = part;
  most_bytes_ = most_bytes;
  looks_ = 0;
  return Again();
}

Scan::Step Scan::Again() {
  found_.Clear();
  candidates_.clear();
  first_look_ = true;
  const Directory& directory = *context_.directory;
  size_t index = directory.IndexOf(part_.first);
  entry_ = directory.At(index);
  if (!entry_.ValidIn(context_.region_bytes)) {
    return ++looks_ > kMaxLooks ? Step::kOvertaken : Step::kRefresh;
  }
  while (index + 1 < directory.size() && directory.At(index + 1) == entry_) ++index;
  covered_ = part_;
  covered_.last = std::min(part_.last, directory.LastOf(index));
  return WantSegment();
}

Scan::Step Scan::WantSegment() {
  if (++looks_ > kMaxLooks) return Step::kOvertaken;
  wants_segment_ = true;
  wanted_.assign(1, Range{entry_.offset(), kSegmentBytes});
  wanted_bytes_ = kSegmentBytes;
  return Step::kRead;
}

Scan::Step Scan::WantItems() {
  wants_segment_ = false;
  wanted_.clear();
  wanted_bytes_ = 0;
  for (const Candidate& candidate : candidates_) {
    if (candidate.state != State::kUnread) continue;
    wanted_.push_back({candidate.slot.offset(), static_cast<uint32_t>(candidate.slot.bytes())});
    wanted_bytes_ += candidate.slot.bytes();
  }
  return wanted_.empty() ? Step::kDone : Step::kRead;
}

Scan::Step Scan::Feed(const char* bytes, bool late) {
  if (!wants_segment_) return FeedItems(bytes);
  if (late) return WantSegment();  // the segment may have been retired and reused during this READ
  if (!DescribesAll(bytes)) return Step::kRefresh;
  return first_look_ ? FirstLook(bytes) : LaterLook(bytes);
}

bool Scan::DescribesAll(const char* segment) const {
  for (uint32_t number = 0; number < kBuckets; ++number) {
    const BucketInfo info(WordAt(segment, number * kBucketWords));
    if (!info.Describes(entry_.segment_id(), number) || info.link() > kOverflowBuckets) return false;
  }
  return true;
}

// Adds the slots of a bucket to the candidates. Returns false if one is not a slot.
bool Scan::AddSlots(const char* segment, uint32_t number, uint64_t* bytes) {
  for (size_t place = number * kBucketWords + 1; place < (number + 1) * kBucketWords; ++place) {
    const Slot slot(WordAt(segment, place));
    if (slot.empty()) continue;
    if (!slot.ValidIn(context_.region_bytes)) return false;  // no server writes this
    Candidate& candidate = candidates_.emplace_back();
    candidate.slot = slot;
    candidate.place = static_cast<uint16_t>(place);
    *bytes += slot.bytes();
  }
  return true;
}

Scan::Step Scan::FirstLook(const char* segment) {
  added_.reset();
  uint64_t bytes = 0;
  uint32_t bucket = covered_.bucket;
  for (; bucket < covered_.bucket_end && (bucket == covered_.bucket || bytes < most_bytes_); ++bucket) {
    if (!AddSlots(segment, bucket, &bytes)) return Again();
    const uint32_t link = BucketInfo(WordAt(segment, bucket * kBucketWords)).link();
    if (link == 0 || added_[LinkedBucket(link)]) continue;
    added_.set(LinkedBucket(link));
    if (!AddSlots(segment, LinkedBucket(link), &bytes)) return Again();
  }
  covered_.bucket_end = bucket;
  first_look_ = false;
  return WantItems();
}

Scan::Step Scan::LaterLook(const char* segment) {
  for (Candidate& candidate : candidates_) {
    if (candidate.state == State::kFinished) continue;
    const Slot slot(WordAt(segment, candidate.place));
    if (slot.empty()) {  // the key was deleted
      candidate.state = State::kFinished;
    } else if (slot == candidate.slot) {
      if (candidate.state == State::kRead) candidate.state = State::kFinished;
    } else {
      if (!slot.ValidIn(context_.region_bytes)) return Again();
      candidate.slot = slot;
      candidate.state = State::kUnread;
    }
  }
  return WantItems();
}

Scan::Step Scan::FeedItems(const char* bytes) {
  for (Candidate& candidate : candidates_) {
    if (candidate.state != State::kUnread) continue;
    candidate.state = Judge(&candidate, bytes);
    bytes += candidate.slot.bytes();
  }
  return WantSegment();
}

Scan::State Scan::Judge(Candidate* candidate, const char* bytes) {
  ItemView item;
  const Slot slot = candidate->slot;
  if (CheckItem(*context_.hasher, {bytes, slot.bytes()}, {}, &item) != ItemCheck::kOtherKey) return State::kUnread;
  const uint64_t hash = (*context_.hasher)(item.key);
  const uint32_t number = static_cast<uint32_t>(candidate->place / kBucketWords);
  const bool fits = FingerprintOf(hash) == slot.fingerprint() && (number >= kMainBuckets || BucketOf(hash) == number);
  if (!fits) return State::kUnread;
  if (item.expiry_ms != 0 && item.kind != ItemKind::kCounter && context_.clock != nullptr) {
    if (const State state = JudgeExpiry(candidate, item); state != State::kRead) return state;
  }
  // Buckets of other parts link to the same overflow bucket.
  if (!covered_.Has(hash)) return State::kRead;
  // Found twice, in two states of the slot: it is this slot's key. Otherwise a key that is stored all the time would
  // never be finished.
  if (candidate->known && candidate->hash == hash) return State::kFinished;
  candidate->known = true;
  candidate->hash = hash;
  Keep(hash, item);
  return State::kRead;
}

// An item that has expired is READ once more, since it may have been touched between the READ and the look at the
// clock. If it is the same then, it is left out.
Scan::State Scan::JudgeExpiry(Candidate* candidate, const ItemView& item) const {
  const uint64_t expiry_us = item.expiry_ms * 1000;
  if (candidate->version == item.version && candidate->expiry_ms == item.expiry_ms) return State::kFinished;
  if (context_.clock->Now().lo < expiry_us) return State::kRead;
  candidate->version = item.version;
  candidate->expiry_ms = item.expiry_ms;
  return State::kUnread;
}

void Scan::Keep(uint64_t hash, const ItemView& item) {
  if (!absl::StartsWith(item.key, filter_->prefix)) return;
  ScanItem& kept = found_.items.emplace_back();
  kept.hash = hash;
  kept.version = item.version;
  kept.expiry_ms = item.expiry_ms;
  kept.kind = item.kind;
  kept.flags = item.flags;
  kept.key_bytes = static_cast<uint16_t>(item.key.size());
  kept.value_bytes = static_cast<uint32_t>(item.value.size());
  kept.at = found_.bytes.size();
  found_.bytes.append(item.key.data(), item.key.size());
  if (filter_->values) found_.bytes.append(item.value.data(), item.value.size());
}

bool Scan::SameEntries() const {
  const Directory& directory = *context_.directory;
  const size_t last = directory.IndexOf(covered_.last);
  for (size_t index = directory.IndexOf(covered_.first); index <= last; ++index) {
    if (!(directory.At(index) == entry_)) return false;
  }
  return true;
}

}  // namespace farlook::kv
