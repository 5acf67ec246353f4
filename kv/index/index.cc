#include "kv/index/index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "kv/layout/fingerprints.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/words.h"

namespace farlook::kv {
namespace {

// A segment is split when a key finds no room, mostly with some 3,000 keys. Two are merged if together they have at
// most this many keys. So hundreds of puts or deletes are needed before the reverse happens.
constexpr uint32_t kMergeKeys = 1800;
// Minimum average number of keys for each segment, apart from a few segments. Uniform hashes never come near it.
constexpr uint64_t kLeastKeys = 512;
// A segment with at least kPrepareFrom keys is prepared for a split: kPrepareSlots slots with every kPrepareEvery-th
// new key.
constexpr uint32_t kPrepareFrom = 1600;
constexpr uint32_t kPrepareSlots = 48;
constexpr uint32_t kPrepareEvery = 8;
// Limits of one call.
constexpr int kMostMerges = 4;
constexpr uint32_t kFewKeys = 128;
// Interval between two runs of Tidy().
constexpr int64_t kTidyNs = 1'000'000;
constexpr size_t kMostToMerge = 1024;

char* BucketAt(char* segment, uint32_t number) { return segment + uint64_t{number} * kBucketBytes; }

BucketInfo InfoOf(const char* bucket) { return BucketInfo(LoadWord(bucket)); }

uint32_t EmptySlots(const char* bucket) {
  uint32_t n = 0;
  for (size_t i = 1; i < kWordsPerBucket; ++i) n += LoadWord(bucket + 8 * i) == 0;
  return n;
}

char* EmptySlot(char* bucket) {
  for (size_t i = 1; i < kWordsPerBucket; ++i) {
    if (LoadWord(bucket + 8 * i) == 0) return bucket + 8 * i;
  }
  return nullptr;
}

}  // namespace

Index::Index(char* region, const Hasher* hasher, SegmentPool* pool, SharedDirectory* directory, const Options& options)
    : region_(region),
      hasher_(hasher),
      pool_(pool),
      directory_(directory),
      prefix_(options.prefix),
      bits_(options.bits),
      slack_(4 + (options.region_bytes / kSegmentBytes / 32 >> options.bits)) {}

bool Index::Init() {
  first_depth_ = directory_->level();
  const uint64_t first = bits_ == 0 ? 0 : prefix_ << (64 - bits_);
  for (uint64_t i = 0; i < uint64_t{1} << (first_depth_ - bits_); ++i) {
    const uint64_t offset = pool_->Allocate(static_cast<uint32_t>(prefix_));
    if (offset == 0) return false;
    Install(first + (i << (64 - first_depth_)), first_depth_, offset, images_[0], 0);
  }
  return true;
}

void Index::Adopt(uint64_t offset, uint64_t position, int depth, uint32_t keys) {
  first_depth_ = std::max(kStepBits, bits_);
  *pool_->info(offset) = {position,   nullptr,    static_cast<uint16_t>(keys),
                          kMergeKeys, kMergeKeys, static_cast<uint8_t>(depth)};
  turn_.store(1, std::memory_order_relaxed);
  directory_->AddSegments(1);
  ++segments_;
  keys_ += keys;
}

template <typename F>
char* Index::ForMatches(char* main, uint64_t hash, F f) {
  const uint16_t fingerprint = FingerprintOf(hash);
  for (char* bucket = main;;) {
    for (char* at = bucket + 8; at < bucket + kBucketBytes; at += 8) {
      const Slot slot(LoadWord(at));
      if (slot.fingerprint() == fingerprint && !slot.empty() && f(slot)) return at;
    }
    const uint32_t link = InfoOf(main).link();
    if (bucket != main || link == 0) return nullptr;
    bucket = LinkedFrom(main, BucketOf(hash), link);
  }
}

// The key was not found through its hint: searches all slots of its buckets.
Index::Found Index::Seek(const KeyPlace& place, absl::string_view key) const {
  const bool holds = place.turn == turn_.load(std::memory_order_relaxed);
  char* const main = holds ? place.bucket : MainBucket(PositionOf(place.hash), place.hash);
  char* item = nullptr;
  char* const slot = ForMatches(main, place.hash, [&](Slot in_slot) {
    item = region_ + in_slot.offset();
    return Bears(item, key);
  });
  return {slot, item};
}

char* Index::FindOffset(uint64_t hash, uint64_t offset) const {
  return ForMatches(MainBucket(PositionOf(hash), hash), hash, [&](Slot slot) { return slot.offset() == offset; });
}

void Index::PrefetchBucket(uint64_t position, uint32_t number) const {
  const uint64_t offset = directory_->Find(position).offset();
  const char* const bucket = region_ + offset + uint64_t{number} * kBucketBytes;
  __builtin_prefetch(pool_->info(offset));
  for (size_t at = 0; at < kBucketBytes; at += kLineBytes) __builtin_prefetch(bucket + at);
}

// Prefetches only the lines of the overflow bucket, not its items: few buckets have one.
void Index::PrefetchItems(uint64_t position, uint32_t number) const {
  const char* const segment = region_ + directory_->Find(position).offset();
  const char* const bucket = segment + uint64_t{number} * kBucketBytes;
  for (size_t i = 1; i < kWordsPerBucket; ++i) {
    const Slot slot(LoadWord(bucket + 8 * i));
    if (!slot.empty()) __builtin_prefetch(region_ + slot.offset());
  }
  const uint32_t link = InfoOf(bucket).link();
  if (link == 0) return;
  const char* const linked = segment + uint64_t{LinkedBucket(link)} * kBucketBytes;
  for (size_t at = 0; at < kBucketBytes; at += kLineBytes) __builtin_prefetch(linked + at);
}

char* Index::RoomIn(char* segment, uint32_t bucket) {
  char* main = BucketAt(segment, bucket);
  if (char* slot = EmptySlot(main)) return slot;
  const BucketInfo info = InfoOf(main);
  if (info.link() != 0) return EmptySlot(BucketAt(segment, LinkedBucket(info.link())));
  uint32_t best = 0, most = 0;
  for (uint32_t i = 0; i < kOverflowBuckets; ++i) {
    const uint32_t empty = EmptySlots(BucketAt(segment, kMainBuckets + i));
    if (empty > most) {
      most = empty;
      best = i;
    }
  }
  if (most == 0) return nullptr;
  // The link is stored before the slot: a reader that could see the key there must see the link.
  StoreWord(main, info.WithLink(best + 1).word());
  return EmptySlot(BucketAt(segment, kMainBuckets + best));
}

char* Index::FindRoom(uint64_t hash, int64_t now_ns, Code* code) {
  if (now_ns >= tidy_ns_) [[unlikely]]
    Tidy(now_ns);
  for (bool split = false;; split = true) {
    char* segment = SegmentOf(hash);
    if (char* slot = RoomIn(segment, BucketOf(hash))) {
      overflow_keys_ += slot >= BucketAt(segment, kMainBuckets);
      ++keys_;
      SegmentInfo* info = pool_->info(static_cast<uint64_t>(segment - region_));
      if (++info->keys >= kPrepareFrom || info->halves != nullptr) Prepare(info, segment, slot, hash);
      return slot;
    }
    // Colliding hashes may need several splits, but one is the limit for one call.
    *code = split ? Code::kMakingRoom : Split(hash, now_ns);
    if (*code != Code::kOk) return nullptr;
  }
}

// Calls f(number of the word, slot, hash) for `most` slots of a segment in use, from the word `from` on. Omits those
// for which skip(number of the word, slot) returns true. Returns the word after the last. Slots do not hold the hash,
// so each item's key is read. The memory is prefetched in two steps: first the beginning of the item, then the rest of
// its key.
template <typename Skip, typename F>
uint32_t Index::ForEachHeld(const char* segment, uint32_t from, uint32_t most, Skip skip, F f) const {
  constexpr uint32_t kFar = 32, kNear = 16;
  struct Held {
    uint32_t word;
    Slot slot;
  };
  std::array<Held, kFar> ring;
  uint32_t found = 0, done = 0;
  const auto near = [&](uint32_t i) {
    const char* item = region_ + ring[i % kFar].slot.offset();
    const size_t end = kItemHeaderBytes + KeyOf(item).size();
    for (size_t at = kLineBytes; at < end; at += kLineBytes) __builtin_prefetch(item + at);
  };
  const auto finish = [&](uint32_t i) {
    const Held& held = ring[i % kFar];
    f(held.word, held.slot, (*hasher_)(KeyOf(region_ + held.slot.offset())));
  };
  uint32_t word = from;
  for (; word < kSegmentWords && found < most; ++word) {
    if (word % kWordsPerBucket == 0) continue;
    const Slot slot(LoadWord(segment + 8 * uint64_t{word}));
    if (slot.empty() || skip(word, slot)) continue;
    if (found - done == kFar) finish(done++);
    ring[found % kFar] = {word, slot};
    __builtin_prefetch(region_ + slot.offset());
    if (++found >= kNear) near(found - kNear);
  }
  for (; done < found; ++done) finish(done);
  return word;
}

// Handles a new key in a segment that may be split soon.
void Index::Prepare(SegmentInfo* info, const char* segment, const char* taken, uint64_t hash) {
  if (info->halves == nullptr) {
    if (free_halves_.empty()) {
      free_halves_.push_back(&halves_.emplace_back());
    }
    info->halves = free_halves_.back();
    free_halves_.pop_back();
    *info->halves = Halves();
  }
  Halves& halves = *info->halves;
  const auto set = [&](uint32_t word, Slot, uint64_t its_hash) {
    halves.Set(word, (PositionOf(its_hash) >> (63 - info->depth) & 1) != 0);
  };
  set(static_cast<uint32_t>(taken - segment) / 8, Slot(), hash);
  if (halves.next >= kMainBuckets * kWordsPerBucket || info->keys % kPrepareEvery != 0) return;
  const auto known = [&](uint32_t word, Slot) { return halves.Known(word); };
  halves.next = ForEachHeld(segment, halves.next, kPrepareSlots, known, set);
}

// Puts the slots of a segment into images_: for a split, into the image of their half; otherwise all into the first
// one. Returns false if there is no room.
bool Index::Place(const char* segment, const SegmentInfo* to_split) {
  bool placed = true;
  const auto place = [&](Slot slot, uint32_t bucket, size_t half) {
    placed = placed && images_[half].Add(slot, bucket);
  };
  // Slots in a main bucket belong to that bucket, so their hash is not needed.
  const Halves* halves = to_split == nullptr ? nullptr : to_split->halves;
  const auto known = [&](uint32_t word, Slot slot) {
    if (word >= kMainBuckets * kWordsPerBucket) return false;
    if (to_split != nullptr && (halves == nullptr || !halves->Known(word))) return false;
    place(slot, static_cast<uint32_t>(word / kWordsPerBucket), to_split != nullptr && halves->Upper(word) ? 1 : 0);
    return true;
  };
  ForEachHeld(segment, 0, kSegmentWords, known, [&](uint32_t, Slot slot, uint64_t hash) {
    place(slot, BucketOf(hash), to_split == nullptr ? 0 : PositionOf(hash) >> (63 - to_split->depth) & 1);
  });
  return placed;
}

// For halves that do not fit when built from scratch: each slot keeps its place, which always fits.
void Index::PlaceWhereTheyWere(const char* segment, const SegmentInfo& info) {
  for (int half = 0; half < 2; ++half) {
    images_[half].Clear();
    for (uint32_t b = 0; b < kBuckets; ++b) {
      images_[half].SetWord(b * kWordsPerBucket, LoadWord(segment + uint64_t{b} * kBucketBytes));
    }
  }
  const auto place = [&](uint32_t word, Slot slot, size_t half) { images_[half].SetSlot(word, slot); };
  const auto known = [&](uint32_t word, Slot slot) {
    if (info.halves == nullptr || !info.halves->Known(word)) return false;
    place(word, slot, info.halves->Upper(word) ? 1 : 0);
    return true;
  };
  ForEachHeld(segment, 0, kSegmentWords, known, [&](uint32_t word, Slot slot, uint64_t hash) {
    place(word, slot, PositionOf(hash) >> (63 - info.depth) & 1);
  });
}

// Writes a segment's slots, then its descriptions, then the directory. REQUIRES no entry in force leads to the memory.
void Index::Install(uint64_t position, int depth, uint64_t offset, const SegmentImage& image, uint32_t keys) {
  const uint32_t id = directory_->NextSegmentId();
  char* segment = region_ + offset;
  for (size_t i = 0; i < kSegmentWords; ++i) {
    if (i % kWordsPerBucket != 0) StoreWord(segment + 8 * i, image.word(i));
  }
  for (uint32_t b = 0; b < kBuckets; ++b) {
    const uint32_t link = BucketInfo(image.word(b * kWordsPerBucket)).link();
    StoreWord(BucketAt(segment, b), BucketInfo(id, b, link).word());
  }
  *pool_->info(offset) = {position,   nullptr,    static_cast<uint16_t>(keys),
                          kMergeKeys, kMergeKeys, static_cast<uint8_t>(depth)};
  directory_->Publish(position, depth, DirectoryEntry(id, offset));
  turn_.store(turn_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  directory_->AddSegments(1);
  ++segments_;
}

// REQUIRES no directory entry leads to the segment any more, so that a reader always has a way to its key.
void Index::Retire(uint64_t offset, int64_t now_ns) {
  char* old = region_ + offset;
  for (uint32_t b = 0; b < kBuckets; ++b) StoreWord(BucketAt(old, b), 0);
  if (Halves* halves = std::exchange(pool_->info(offset)->halves, nullptr)) free_halves_.push_back(halves);
  seen_ = pool_->Retire(offset, now_ns);
  directory_->AddSegments(-1);
  --segments_;
}

// Bounds the growth of the index by keys that were chosen to collide.
bool Index::MaySplit(int depth) const {
  const uint64_t first = uint64_t{1} << (first_depth_ - bits_);
  return depth < directory_->max_level() && depth <= static_cast<int>(std::bit_width(directory_->segments())) + 5 &&
         segments_ < first + slack_ + keys_ / kLeastKeys;
}

Code Index::Split(uint64_t hash, int64_t now_ns) {
  const DirectoryEntry entry = directory_->Find(PositionOf(hash));
  const SegmentInfo& info = *pool_->info(entry.offset());
  const int depth = info.depth;
  if (!MaySplit(depth)) return Code::kIndexFull;
  if (!directory_->MakeLevel(depth + 1)) return Code::kMakingRoom;
  uint64_t offsets[2];
  for (int i = 0; i < 2; ++i) {
    offsets[i] = pool_->Allocate(static_cast<uint32_t>(prefix_));
    if (offsets[i] != 0) continue;
    if (i == 1) pool_->Cancel(offsets[0]);
    return Code::kNoMemory;
  }
  const char* old = region_ + entry.offset();
  for (SegmentImage& image : images_) image.Clear();
  if (!Place(old, &info)) PlaceWhereTheyWere(old, info);

  Install(info.position, depth + 1, offsets[0], images_[0], images_[0].keys());
  Install(info.position | 1ull << (63 - depth), depth + 1, offsets[1], images_[1], images_[1].keys());
  Retire(entry.offset(), now_ns);
  ++splits_;
  return Code::kOk;
}

// Merges the segment that serves this position with its sibling, then the result with its own sibling, as long as they
// are sparse enough.
void Index::MergeFrom(uint64_t position, int64_t now_ns) {
  for (int merges = 0; merges < kMostMerges; ++merges) {
    if (!Merge(position, now_ns)) return;
    if (pool_->info(directory_->Find(position).offset())->keys > kFewKeys) break;
  }
  if (to_merge_.size() < kMostToMerge) PutOff(position);
}

void Index::PutOff(uint64_t position) {
  to_merge_.push_back(position);
  pool_->AddPutOff(1);
}

bool Index::Merge(uint64_t position, int64_t now_ns) {
  const DirectoryEntry entry = directory_->Find(position);
  SegmentInfo& info = *pool_->info(entry.offset());
  if (info.depth <= first_depth_) {
    info.look_at = 0;
    return false;
  }
  const DirectoryEntry other_entry = directory_->Find(info.position ^ 1ull << (64 - info.depth));
  SegmentInfo& other = *pool_->info(other_entry.offset());
  if (other.depth != info.depth) {  // its parts are examined when they are merged
    info.look_at = info.keys / 2;
    return false;
  }
  const uint32_t keys = uint32_t{info.keys} + other.keys;
  const uint32_t most = std::min(info.merge_most, other.merge_most);
  if (keys > most) {
    const uint32_t fewer = (keys - most + 1) / 2;
    info.look_at = static_cast<uint16_t>(info.keys > fewer ? info.keys - fewer : 0);
    return false;
  }
  const uint64_t offset = pool_->Allocate(static_cast<uint32_t>(prefix_));
  if (offset == 0) {
    info.look_at = info.keys - info.keys / 8;
    if (to_merge_.size() < kMostToMerge) PutOff(position);
    return false;
  }
  images_[0].Clear();
  const uint64_t first = std::min(info.position, other.position);
  const int depth = info.depth;
  if (!Place(region_ + entry.offset(), nullptr) || !Place(region_ + other_entry.offset(), nullptr) ||
      !images_[0].HasRoomToGrow()) {  // colliding hashes
    pool_->Cancel(offset);
    info.merge_most = other.merge_most = static_cast<uint16_t>(keys - keys / 4 - 1);
    info.look_at = info.keys - info.keys / 8;
    return false;
  }
  Install(first, depth - 1, offset, images_[0], images_[0].keys());
  Retire(entry.offset(), now_ns);
  Retire(other_entry.offset(), now_ns);
  ++merges_;
  return true;
}

// Copies the segment to lower memory, under a new id.
void Index::MoveDown(uint64_t offset, int64_t now_ns) {
  const uint64_t to = pool_->Allocate(static_cast<uint32_t>(prefix_));
  if (to == 0) return;
  if (to > offset) return pool_->Cancel(to);
  const SegmentInfo info = *pool_->info(offset);
  for (size_t i = 0; i < kSegmentWords; ++i) images_[0].SetWord(i, LoadWord(region_ + offset + 8 * i));
  Install(info.position, info.depth, to, images_[0], info.keys);
  pool_->info(to)->merge_most = info.merge_most;
  pool_->info(to)->halves = info.halves;
  pool_->info(offset)->halves = nullptr;
  Retire(offset, now_ns);
  ++moves_;
}

void Index::Tidy(int64_t now_ns) {
  tidy_ns_ = now_ns + kTidyNs;
  seen_ = pool_->Advance(now_ns, seen_);
  if (!to_merge_.empty()) {
    const uint64_t position = to_merge_.back();
    to_merge_.pop_back();
    pool_->AddPutOff(-1);
    MergeFrom(position, now_ns);
    return;
  }
  const uint64_t offset = pool_->Misplaced(static_cast<uint32_t>(prefix_));
  misplaced_ = offset != 0;
  if (misplaced_) MoveDown(offset, now_ns);
}

}  // namespace farlook::kv
