#include "kv/index.h"

#include <bit>

#include "kv/item.h"
#include "kv/limits.h"
#include "kv/words.h"

namespace farlook::kv {
namespace {

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

// The server's own items are whole: no checks.
absl::string_view KeyOf(const char* item) {
  return {item + kItemHeaderBytes, ItemLengths::From(LoadWord(item + kLengthsOffset)).key_bytes};
}

// Calls f(slot's address, slot) for slots of this hash's buckets with its fingerprint until it returns true. Returns
// that slot's address or null.
template <typename F>
char* ForMatches(char* segment, uint64_t hash, F f) {
  const uint16_t fingerprint = FingerprintOf(hash);
  char* bucket = BucketAt(segment, BucketOf(hash));
  const uint32_t link = InfoOf(bucket).link();
  for (int i = 0; i < 2; ++i) {
    for (char* at = bucket + 8; at < bucket + kBucketBytes; at += 8) {
      const Slot slot(LoadWord(at));
      if (slot.fingerprint() == fingerprint && !slot.empty() && f(slot)) return at;
    }
    if (link == 0) return nullptr;
    bucket = BucketAt(segment, LinkedBucket(link));
  }
  return nullptr;
}

}  // namespace

Index::Index(char* region, const Hasher* hasher, PagePool* pool, SharedDirectory* directory, uint64_t prefix, int bits)
    : region_(region), hasher_(hasher), pool_(pool), directory_(directory), prefix_(prefix), bits_(bits) {}

bool Index::Init() {
  const int depth = directory_->level();
  const uint64_t first = bits_ == 0 ? 0 : prefix_ << (64 - bits_);
  const std::vector<uint64_t> empty(kSegmentWords);
  for (uint64_t i = 0; i < uint64_t{1} << (depth - bits_); ++i) {
    const uint64_t offset = NewSegment(0);
    if (offset == 0) return false;
    Install(first + (i << (64 - depth)), depth, offset, empty);
  }
  return true;
}

char* Index::Find(uint64_t hash, absl::string_view key, char** item) const {
  return ForMatches(SegmentOf(hash), hash, [&](Slot slot) {
    *item = region_ + slot.offset();
    return KeyOf(*item) == key;
  });
}

char* Index::FindOffset(uint64_t hash, uint64_t offset) const {
  return ForMatches(SegmentOf(hash), hash, [&](Slot slot) { return slot.offset() == offset; });
}

void Index::PrefetchItem(uint64_t hash) const {
  ForMatches(SegmentOf(hash), hash, [&](Slot slot) {
    __builtin_prefetch(region_ + slot.offset());
    return false;
  });
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
  // A reader that sees the key there must see the way to it: the link is stored before the slot.
  StoreWord(main, info.WithLink(best + 1).word());
  return EmptySlot(BucketAt(segment, kMainBuckets + best));
}

char* Index::FindRoom(uint64_t hash, int64_t now_ns, Code* code) {
  StampRetired(now_ns);
  while (true) {
    char* segment = SegmentOf(hash);
    if (char* slot = RoomIn(segment, BucketOf(hash))) {
      overflow_keys_ += slot >= BucketAt(segment, kMainBuckets);
      return slot;
    }
    *code = Split(hash, now_ns);
    if (*code != Code::kOk) return nullptr;
  }
}

// The time that a split was told was read before the split, and the process may have been stopped between. The first
// later time was read after it.
void Index::StampRetired(int64_t now_ns) {
  for (auto at = retired_.rbegin(); at != retired_.rend() && !at->stamped; ++at) {
    if (now_ns <= at->since_ns) continue;
    at->since_ns = now_ns;
    at->stamped = true;
  }
}

uint64_t Index::NewSegment(int64_t now_ns) {
  if (!retired_.empty() && retired_.front().stamped && now_ns - retired_.front().since_ns >= kQuarantineNs) {
    const uint64_t offset = retired_.front().offset;
    retired_.pop_front();
    return offset;
  }
  if (fresh_ == fresh_end_) {
    const uint64_t page = pool_->Allocate(1);
    if (page == 0) return 0;
    ++pages_;
    fresh_ = page * kPageBytes;
    fresh_end_ = fresh_ + kPageBytes;
  }
  const uint64_t offset = fresh_;
  fresh_ += kSegmentBytes;
  segment_bytes_ += kSegmentBytes;
  return offset;
}

// Writes a segment's slots, then its descriptions, then the directory. The memory is out of quarantine, and its
// descriptions are zero, or it is fresh, and no directory entry ever led there.
void Index::Install(uint64_t position, int depth, uint64_t offset, const std::vector<uint64_t>& image) {
  const uint32_t id = directory_->NextSegmentId();
  char* segment = region_ + offset;
  for (size_t i = 0; i < image.size(); ++i) {
    if (i % kWordsPerBucket != 0) StoreWord(segment + 8 * i, image[i]);
  }
  for (uint32_t b = 0; b < kBuckets; ++b) {
    const uint32_t link = BucketInfo(image[b * kWordsPerBucket]).link();
    StoreWord(BucketAt(segment, b), BucketInfo(id, b, link).word());
  }
  depth_[id] = depth;
  directory_->Publish(position, depth, DirectoryEntry(id, offset));
  directory_->AddSegments(1);
}

Code Index::Split(uint64_t hash, int64_t now_ns) {
  const uint64_t position = PositionOf(hash);
  const DirectoryEntry entry = directory_->Find(position);
  const int depth = depth_.at(entry.segment_id());
  // Uniform hashes differ by a level or two. Keys that were made to collide would only grow the directory.
  if (depth >= directory_->max_level() || depth > static_cast<int>(std::bit_width(directory_->segments())) + 5) {
    return Code::kIndexFull;
  }
  uint64_t offsets[2];
  for (int i = 0; i < 2; ++i) {
    offsets[i] = NewSegment(now_ns);
    if (offsets[i] != 0) continue;
    if (i == 1) retired_.push_front({offsets[0], now_ns - kQuarantineNs, true});  // was not in use
    return Code::kNoMemory;
  }
  char* old = region_ + entry.offset();

  // Which half each slot goes to stands in its item's key.
  struct Held {
    uint32_t word;  // in the segment
    Slot slot;
    uint64_t hash;
    bool high;
  };
  std::vector<Held> held;
  held.reserve(kBuckets * kSlotsPerBucket);
  for (uint32_t i = 0; i < kSegmentWords; ++i) {
    if (i % kWordsPerBucket == 0) continue;
    if (const Slot slot(LoadWord(old + 8 * uint64_t{i})); !slot.empty()) held.push_back({i, slot, 0, false});
  }
  constexpr size_t kAhead = 16;
  for (size_t i = 0; i < held.size() + kAhead; ++i) {
    if (i < held.size()) {
      __builtin_prefetch(region_ + held[i].slot.offset());
      __builtin_prefetch(region_ + held[i].slot.offset() + kLineBytes);
    }
    if (i < kAhead) continue;
    Held& h = held[i - kAhead];
    h.hash = (*hasher_)(KeyOf(region_ + h.slot.offset()));
    h.high = PositionOf(h.hash) >> (63 - depth) & 1;
  }

  for (auto& image : images_) image.assign(kSegmentWords, 0);
  bool placed = true;
  for (const Held& h : held) {
    char* room = RoomIn(reinterpret_cast<char*>(images_[h.high].data()), BucketOf(h.hash));
    placed = placed && room != nullptr;
    if (placed) StoreWord(room, h.slot.word());
  }
  if (!placed) {  // Then where they were: that always fits.
    for (auto& image : images_) {
      image.assign(kSegmentWords, 0);
      for (uint32_t b = 0; b < kBuckets; ++b) image[b * kWordsPerBucket] = LoadWord(BucketAt(old, b));
    }
    for (const Held& h : held) images_[h.high][h.word] = h.slot.word();
  }

  // The new segments, the directory, and only then the old one's descriptions: a reader always has a way to its key.
  const uint64_t low = depth == 0 ? 0 : position >> (64 - depth) << (64 - depth);
  Install(low, depth + 1, offsets[0], images_[0]);
  Install(low | 1ull << (63 - depth), depth + 1, offsets[1], images_[1]);
  for (uint32_t b = 0; b < kBuckets; ++b) StoreWord(BucketAt(old, b), 0);
  retired_.push_back({entry.offset(), now_ns, false});
  depth_.erase(entry.segment_id());
  directory_->AddSegments(-1);
  ++splits_;
  return Code::kOk;
}

}  // namespace farlook::kv
