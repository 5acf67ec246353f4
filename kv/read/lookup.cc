#include "kv/read/lookup.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kv/layout/fingerprints.h"
#include "kv/layout/words.h"

namespace farlook::kv {

Lookup::Step Lookup::Start(const ReaderContext& context, absl::string_view key, uint64_t hash, Slot cached) {
  context_ = context;
  key_ = key;
  hash_ = hash;
  phase_ = Phase::kCached;
  cached_was_stale_ = moved_ = false;
  retries_ = expiry_looks_ = 0;
  second_look_ = false;
  rounds_ = bucket_reads_ = item_reads_ = 0;
  if (!cached.empty()) {
    slot_ = cached;
    return WantItem();
  }
  return WantMain();
}

Lookup::Step Lookup::Resume() {
  second_look_ = false;
  return WantMain();
}

Lookup::Step Lookup::WantMain() {
  if (rounds_++ >= kMaxRounds) {
    phase_ = Phase::kDone;
    return Step::kAskServer;
  }
  bucket_ = 0;
  only_others_ = true;
  entry_ = context_.directory->Find(hash_);
  if (!entry_.ValidIn(context_.region_bytes)) {
    phase_ = Phase::kDone;
    return Step::kRefresh;
  }
  return WantBucket(BucketOf(hash_));
}

Lookup::Step Lookup::WantBucket(uint32_t number) {
  phase_ = Phase::kBucket;
  wanted_ = {entry_.offset() + uint64_t{number} * kBucketBytes, kBucketBytes};
  return Step::kRead;
}

Lookup::Step Lookup::WantItem() {
  if (!slot_.ValidIn(context_.region_bytes)) [[unlikely]]  // no server writes this
    return Again();
  wanted_ = {slot_.offset(), static_cast<uint32_t>(slot_.bytes())};
  return Step::kRead;
}

// A writer overtook the lookup. The information gathered so far is worthless.
Lookup::Step Lookup::Again() {
  second_look_ = false;
  return WantMain();
}

Lookup::Step Lookup::Feed(absl::string_view bytes, bool late) {
  if (bytes.size() != wanted_.bytes) [[unlikely]]
    return Again();
  if (phase_ == Phase::kBucket) {
    ++bucket_reads_;
    // The segment may have been retired and reused during this READ.
    return late ? Again() : FeedBucket(bytes);
  }
  if (phase_ == Phase::kDone) [[unlikely]]
    return Step::kAskServer;
  ++item_reads_;
  return FeedItem(CheckItem(*context_.hasher, bytes, key_, &item_), bytes.data());
}

Lookup::Step Lookup::Feed(absl::string_view head, bool late, absl::string_view rest) {
  if (rest.data() == nullptr) return Feed(head, late);
  if (head.size() + rest.size() != wanted_.bytes) return Again();
  if (!wants_item()) return Step::kAskServer;
  ++item_reads_;
  return FeedItem(CheckSplitItem(*context_.hasher, head, rest, key_, &item_), head.data());
}

Lookup::Step Lookup::FeedBucket(absl::string_view bytes) {
  const BucketInfo info(LoadAs<uint64_t>(bytes.data()));
  const uint32_t number = bucket_ == 0 ? BucketOf(hash_) : LinkedBucket(looks_[0].link);
  if (!info.Describes(entry_.segment_id(), number)) {
    phase_ = Phase::kDone;
    return Step::kRefresh;
  }
  const uint32_t link = bucket_ == 0 ? info.link() : 0;  // only main buckets link
  if (link > kOverflowBuckets) return Again();           // no server writes this

  Look& look = looks_[bucket_];
  std::array<uint64_t, kSlotsPerBucket> second;
  uint64_t* const slots = second_look_ ? second.data() : look.slots.data();
  uint32_t matches = MatchingWords(bytes.data(), FingerprintOf(hash_));
  uint32_t count = 0;
  for (; matches != 0; matches &= matches - 1) {
    const Slot slot(LoadAs<uint64_t>(bytes.data() + 8 * std::countr_zero(matches)));
    if (slot.empty()) continue;
    slots[count++] = slot.word();
  }
  if (second_look_ && !(look.link == link && look.count == count && std::equal(slots, slots + count, &look.slots[0]))) {
    return Again();
  }
  look.count = static_cast<uint8_t>(count);
  look.link = static_cast<uint8_t>(link);
  next_ = 0;
  if (count == 0) return BucketDone();
  phase_ = Phase::kItem;
  slot_ = Slot(look.slots[0]);
  return WantItem();
}

// This READ did not find the key's item at the cached location.
Lookup::Step Lookup::FeedStale(ItemCheck check, const char* bytes) {
  if (check == ItemCheck::kDead && !moved_) {
    const Slot hint(LoadAs<uint64_t>(bytes + kChecksumOffset));
    if (hint.fingerprint() == FingerprintOf(hash_) && hint.ValidIn(context_.region_bytes) &&
        hint.offset() != slot_.offset()) {
      moved_ = true;
      slot_ = hint;
      return WantItem();
    }
  }
  if (check != ItemCheck::kOtherKey && retries_ < kMaxRetries) {
    ++retries_;
    return WantItem();
  }
  cached_was_stale_ = true;
  moved_ = false;
  return WantMain();
}

// A put with condition kPresent, and a Touch, read the clock after they made the item unreadable. So if a READ posted
// after the expiry time shows a readable item, none of them can succeed any more.
Lookup::Step Lookup::FeedExpiring() {
  if (item_.kind == ItemKind::kCounter) {  // it stays until the sweep deletes it, for adds and for gets
    phase_ = Phase::kDone;
    return Step::kFound;
  }
  if (context_.clock == nullptr || expiry_looks_ > kMaxExpiryLooks) {
    phase_ = Phase::kDone;
    return Step::kAskServer;
  }
  const ReaderClock::Interval now = context_.clock->Now();
  const uint64_t expiry_us = item_.expiry_ms * 1000;
  if (now.hi < expiry_us) {
    phase_ = Phase::kDone;
    return Step::kFound;
  }
  const bool same = expiry_looks_ > 0 && item_.version == expiring_version_ && item_.expiry_ms == expiring_ms_;
  if (same) {
    phase_ = Phase::kDone;
    return clock_lo_ >= expiry_us ? Step::kNotFound : Step::kAskServer;
  }
  ++expiry_looks_;
  expiring_version_ = item_.version;
  expiring_ms_ = item_.expiry_ms;
  clock_lo_ = now.lo;
  return WantItem();
}

Lookup::Step Lookup::FeedItem(ItemCheck check, const char* bytes) {
  if (check == ItemCheck::kValid) {
    if (item_.expiry_ms != 0) [[unlikely]]
      return FeedExpiring();
    phase_ = Phase::kDone;
    return Step::kFound;
  }
  if (phase_ == Phase::kCached) return FeedStale(check, bytes);
  Look& look = looks_[bucket_];
  if (check == ItemCheck::kOtherKey) {
    if (!second_look_) {
      look.versions[next_] = item_.version;
    } else if (look.versions[next_] != item_.version) {
      return Again();
    }
  } else {
    if (second_look_) return Again();
    only_others_ = false;  // but another slot may still have the key
  }
  if (++next_ < look.count) {
    slot_ = Slot(look.slots[next_]);
    return WantItem();
  }
  return BucketDone();
}

// No slot of this bucket holds the key.
Lookup::Step Lookup::BucketDone() {
  if (bucket_ == 0 && looks_[0].link != 0) {
    bucket_ = 1;
    return WantBucket(LinkedBucket(looks_[0].link));
  }
  if (!only_others_) return Again();
  const bool matched = looks_[0].count > 0 || (bucket_ == 1 && looks_[1].count > 0);
  if (!matched || second_look_) {
    phase_ = Phase::kDone;
    return Step::kNotFound;
  }
  // The slots' items may have been replaced between the READ of the bucket and theirs: look once more.
  second_look_ = true;
  return WantMain();
}

}  // namespace farlook::kv
