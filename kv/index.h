// One partition's part of the index: finding slots, growing by splitting segments, shrinking by merging them.
//
// Invariants:
//   * A slot never moves within its segment. A split, a merge and a move leave old segments as they are and build new
//     ones.
//   * A retired segment's descriptions are zero and its slots stay as they were for at least kQuarantineNs.
//   * Memory leaves the index only kQuarantineNs after the index's epoch was increased (segment_pool.h). A reader with
//     an old directory believes no bucket without a look at the epoch.
// See "Retired segments", "Merges" and "Memory that leaves the index" in docs/design-notes.md.
#ifndef FARLOOK_KV_INDEX_H_
#define FARLOOK_KV_INDEX_H_

#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/strings/string_view.h"
#include "kv/fingerprints.h"
#include "kv/hash.h"
#include "kv/item.h"
#include "kv/key_place.h"
#include "kv/message.h"
#include "kv/segment.h"
#include "kv/segment_image.h"
#include "kv/segment_pool.h"
#include "kv/shared_directory.h"
#include "kv/slot.h"
#include "kv/words.h"

namespace farlook::kv {

// To which half of its segment each slot will go when that is split, as far as is known. That stands in no slot but in
// the item's key, and a split that must read 3,000 keys takes too long. So segments that will be split soon are
// prepared for it, a few slots with each key that comes, and keys that come tell it themselves. A slot's key stays the
// same from FindRoom() to Removed(), whatever becomes of its item, so what is known stays true.
struct Halves {
  uint64_t known[kSegmentWords / 64];  // a bit for each word of the segment
  uint64_t upper[kSegmentWords / 64];
  uint32_t next;  // the first word that was not looked at

  bool Known(uint32_t word) const { return known[word / 64] >> word % 64 & 1; }
  bool Upper(uint32_t word) const { return upper[word / 64] >> word % 64 & 1; }
  void Set(uint32_t word, bool is_upper) {
    known[word / 64] |= uint64_t{1} << word % 64;
    upper[word / 64] = (upper[word / 64] & ~(uint64_t{1} << word % 64)) | uint64_t{is_upper} << word % 64;
  }
};

enum class Merging : uint8_t { kNow, kLater };

// Thread safety: one thread at a time (the partition's lock), but LookAhead and the prefetches.
class Index {
 public:
  struct Options {
    uint64_t prefix = 0;  // serves the positions whose top `bits` these are
    int bits = 0;
    uint64_t region_bytes = 0;  // and how many partitions there are: how much chosen hashes may take
  };
  Index(char* region, const Hasher* hasher, SegmentPool* pool, SharedDirectory* directory, const Options& options);

  // Makes the first segments. False: not enough memory.
  bool Init();

  // Where a key's slot and its item are.
  struct Found {
    char* slot = nullptr;  // null: absent
    char* item = nullptr;
  };
  Found Find(const KeyPlace& place, absl::string_view key) const {
    if (place.turn == turn_.load(std::memory_order_relaxed)) [[likely]] {
      // What the slot holds by now is looked at like any other. Of a request that came alone nobody looked for it
      // ahead.
      const uint16_t fingerprint = FingerprintOf(place.hash);
      char* const slot = place.slot != nullptr ? place.slot : LikelySlot(place.bucket, fingerprint);
      const Slot in_slot(LoadWord(slot));
      if (in_slot.fingerprint() == fingerprint && !in_slot.empty()) [[likely]] {
        char* const item = region_ + in_slot.offset();
        if (Bears(item, key)) [[likely]]
          return {slot, item};
      }
    }
    return Seek(place, key);
  }
  // The same where nobody looked ahead.
  Found Find(uint64_t hash, absl::string_view key) const { return Seek({hash}, key); }
  // Where the slot is that holds an item at this offset, or null.
  char* FindOffset(uint64_t hash, uint64_t offset) const;

  // The segment that serves a position, and the last position that it does.
  char* SegmentAt(uint64_t position, uint64_t* last) const {
    const uint64_t offset = directory_->Find(position).offset();
    const SegmentInfo& info = *pool_->info(offset);
    *last = info.depth == 0 ? ~uint64_t{0} : info.position | ~uint64_t{0} >> info.depth;
    return region_ + offset;
  }

  // How many top bits of positions the segment serves that serves this one.
  int DepthAt(uint64_t position) const { return pool_->info(directory_->Find(position).offset())->depth; }

  // An empty slot for a hash, splitting segments as needed, which is in use from now on. Null with *code: kNoMemory
  // (nothing in the pool; try again when there is), kIndexFull.
  char* FindRoom(uint64_t hash, int64_t now_ns, Code* code);
  // This slot is empty now. May merge its segment with another: now, or, for who removes many in one call, with the
  // next calls of Tidy().
  void Removed(const char* slot, Merging merging, int64_t now_ns) {
    SegmentInfo* info = pool_->info(static_cast<uint64_t>(slot - region_));
    --keys_;
    --info->keys;
    if (merging == Merging::kLater) {
      if (info->keys <= info->look_at) [[unlikely]]
        MergeLater(info);
      return;
    }
    // What the pool is told of the time comes before what is retired now.
    if (now_ns >= tidy_ns_) [[unlikely]]
      Tidy(now_ns);
    if (info->keys <= info->look_at) [[unlikely]]
      MergeFrom(info->position, now_ns);
  }

  // A bounded piece of what is to be done now and then: ends quarantines, merges what could not be merged before, moves
  // a segment to where it had better lie, lets memory leave. Writers call it as they come.
  void Tidy(int64_t now_ns);
  size_t merges_put_off() const { return to_merge_.size(); }
  // Whether Tidy() will have something to do though nobody writes.
  bool untidy() const { return !to_merge_.empty() || misplaced_; }

  // Where a key's main bucket is at the moment, for Find(). `position` is that of place->hash. Needs no lock: the turn
  // is looked at first, so that it is another under the lock if the bucket is.
  void LookAhead(uint64_t position, KeyPlace* place) const {
    place->turn = turn_.load(std::memory_order_acquire);
    place->bucket = MainBucket(position, place->hash);
    place->slot = nullptr;
  }
  // Has the items brought into cache that the bucket seems to have for the key, and notes the slot of one.
  void PrefetchItem(KeyPlace* place) const {
    PrefetchItemIn(place->bucket, place);
    // Where the segment has left the index meanwhile its memory may be anything.
    if (const uint32_t link = BucketInfo(LoadWord(place->bucket)).link(); link - 1 < kOverflowBuckets) [[unlikely]]
      PrefetchItemIn(LinkedFrom(place->bucket, BucketOf(place->hash), link), place);
  }
  // Hints about the bucket of this number in the segment that serves a position: each reads what the one before brings
  // into cache.
  void PrefetchEntry(uint64_t position) const { directory_->Prefetch(position); }
  void PrefetchBucket(uint64_t position, uint32_t number) const;
  void PrefetchItems(uint64_t position, uint32_t number) const;

  uint64_t splits() const { return splits_; }
  uint64_t merges() const { return merges_; }
  uint64_t moves() const { return moves_; }
  uint64_t overflow_keys() const { return overflow_keys_; }

 private:
  // The server's own items are whole: no checks.
  static absl::string_view KeyOf(const char* item) {
    return {item + kItemHeaderBytes, ItemLengths::From(LoadWord(item + kLengthsOffset)).key_bytes};
  }
  static bool Bears(const char* item, absl::string_view key) {
    const absl::string_view its_key = KeyOf(item);
    return SameKey(its_key.data(), its_key.size(), key.data(), key.size());
  }
  // The first slot that bears the fingerprint, as it seems; any other where there is none.
  static char* LikelySlot(char* bucket, uint16_t fingerprint) {
    constexpr uint32_t kLastWord = 1u << (kWordsPerBucket - 1);
    return bucket + 8 * std::countr_zero(LikelyWords(bucket, fingerprint) | kLastWord);
  }
  // A hint, so no slot need be looked at but those that bear the fingerprint, as it seems.
  void PrefetchItemIn(char* bucket, KeyPlace* place) const {
    for (uint32_t likely = LikelyWords(bucket, FingerprintOf(place->hash)); likely != 0; likely &= likely - 1) {
      place->slot = bucket + 8 * std::countr_zero(likely);
      __builtin_prefetch(region_ + Slot(LoadWord(place->slot)).offset());
    }
  }
  // The overflow bucket to which the main bucket of this number links.
  template <typename Char>
  static Char* LinkedFrom(Char* main, uint32_t number, uint32_t link) {
    return main - uint64_t{number} * kBucketBytes + uint64_t{LinkedBucket(link)} * kBucketBytes;
  }
  // Calls f(slot) for slots of this hash's buckets, of which `main` is the first, with its fingerprint until it returns
  // true. Returns that slot's address or null.
  template <typename F>
  static char* ForMatches(char* main, uint64_t hash, F f);
  Found Seek(const KeyPlace& place, absl::string_view key) const;
  char* SegmentAt(uint64_t position) const { return region_ + directory_->Find(position).offset(); }
  char* SegmentOf(uint64_t hash) const { return SegmentAt(PositionOf(hash)); }
  char* MainBucket(uint64_t position, uint64_t hash) const {
    return SegmentAt(position) + uint64_t{BucketOf(hash)} * kBucketBytes;
  }
  char* RoomIn(char* segment, uint32_t bucket);
  bool MaySplit(int depth) const;
  Code Split(uint64_t hash, int64_t now_ns);
  void MergeFrom(uint64_t position, int64_t now_ns);
  void MergeLater(SegmentInfo* info);
  void PutOff(uint64_t position);
  bool Merge(uint64_t position, int64_t now_ns);
  void MoveDown(uint64_t offset, int64_t now_ns);
  template <typename Skip, typename F>
  uint32_t ForEachHeld(const char* segment, uint32_t from, uint32_t most, Skip skip, F f) const;
  void Prepare(SegmentInfo* info, const char* segment, const char* taken, uint64_t hash);
  bool Place(const char* segment, const SegmentInfo* to_split);
  void PlaceWhereTheyWere(const char* segment, const SegmentInfo& info);
  void Install(uint64_t position, int depth, uint64_t offset, const SegmentImage& image, uint32_t keys);
  void Retire(uint64_t offset, int64_t now_ns);

  char* const region_;
  const Hasher* const hasher_;
  SegmentPool* const pool_;
  SharedDirectory* const directory_;
  const uint64_t prefix_;
  const int bits_;
  const uint64_t slack_;  // segments that there may be whatever there are of keys

  // Grows whenever the directory leads to another segment than before, right behind that: from 1 on.
  std::atomic<uint64_t> turn_{0};

  int first_depth_ = 0;
  uint64_t keys_ = 0;
  uint64_t segments_ = 0;
  uint64_t splits_ = 0;
  uint64_t merges_ = 0;
  uint64_t moves_ = 0;
  uint64_t overflow_keys_ = 0;

  int64_t tidy_ns_ = 0;            // the next time
  uint64_t seen_ = 0;              // of the pool, for its Advance()
  bool misplaced_ = false;         // whether one was found at the last look
  std::deque<uint64_t> to_merge_;  // positions; the pool knows how many

  std::deque<Halves> halves_;  // all that there are
  std::vector<Halves*> free_halves_;

  SegmentImage images_[2];  // scratch
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_INDEX_H_
