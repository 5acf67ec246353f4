// One partition's part of the index: finding slots, growing by splitting segments, shrinking by merging them.
//
// Invariants:
//   * A slot never moves within its segment. A split, a merge and a move leave old segments as they are and build new
//     ones.
//   * A retired segment's descriptions are zero and its slots stay unchanged for at least kQuarantineNs.
//   * Memory leaves the index only kQuarantineNs after the index's epoch was increased (segment_pool.h). A reader with
//     an old directory relies on no bucket without checking the epoch.
// See "Retired segments", "Merges" and "Memory that leaves the index" in docs/design-notes.md.
#ifndef FARLOOK_KV_INDEX_INDEX_H_
#define FARLOOK_KV_INDEX_INDEX_H_

#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/strings/string_view.h"
#include "kv/index/segment_image.h"
#include "kv/index/segment_pool.h"
#include "kv/index/shared_directory.h"
#include "kv/layout/fingerprints.h"
#include "kv/layout/hash.h"
#include "kv/layout/item.h"
#include "kv/layout/key_place.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/layout/words.h"
#include "kv/wire/message.h"

namespace farlook::kv {

// For each slot of a segment, the half that it will belong to after a split, as far as known. The slot does not show
// that, only the item's key does, and a split that has to read 3,000 keys takes too long. So a segment that will be
// split soon is prepared, a few slots at a time, as new keys arrive. The half of a new key's own slot is known from its
// hash. A slot's key stays the same from FindRoom() to Removed(), whatever happens to its item, so the recorded half
// stays right.
struct Halves {
  uint64_t known[kSegmentWords / 64];  // a bit for each word of the segment
  uint64_t upper[kSegmentWords / 64];
  uint32_t next;  // the first word that was not examined

  bool Known(uint32_t word) const { return known[word / 64] >> word % 64 & 1; }
  bool Upper(uint32_t word) const { return upper[word / 64] >> word % 64 & 1; }
  void Set(uint32_t word, bool is_upper) {
    known[word / 64] |= uint64_t{1} << word % 64;
    upper[word / 64] = (upper[word / 64] & ~(uint64_t{1} << word % 64)) | uint64_t{is_upper} << word % 64;
  }
};

enum class Merging : uint8_t { kNow, kLater };

// Thread safety: one thread at a time (the partition's lock), except LookAhead and the prefetches.
class Index {
 public:
  struct Options {
    uint64_t prefix = 0;  // serves the positions with these top `bits`
    int bits = 0;
    uint64_t region_bytes = 0;  // with `bits`, bounds the memory that chosen hashes may take
  };
  Index(char* region, const Hasher* hasher, SegmentPool* pool, SharedDirectory* directory, const Options& options);

  // Makes the first segments. Returns false if there is not enough memory.
  bool Init();

  // Recovery, instead of Init(): takes over a segment with this many keys, to which the directory leads for the
  // positions that share `depth` top bits with `position`.
  void Adopt(uint64_t offset, uint64_t position, int depth, uint32_t keys);

  // A key's slot and item.
  struct Found {
    char* slot = nullptr;  // null: absent
    char* item = nullptr;
  };
  Found Find(const KeyPlace& place, absl::string_view key) const {
    if (place.turn == turn_.load(std::memory_order_relaxed)) [[likely]] {
      // The slot's present content is checked like any other. A request that arrived alone has no slot from a look
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
  // The same without a look ahead.
  Found Find(uint64_t hash, absl::string_view key) const { return Seek({hash}, key); }
  // Returns the slot that holds an item at this offset, or null.
  char* FindOffset(uint64_t hash, uint64_t offset) const;

  // The segment that serves a position, and the last position that it serves.
  char* SegmentAt(uint64_t position, uint64_t* last) const {
    const uint64_t offset = directory_->Find(position).offset();
    const SegmentInfo& info = *pool_->info(offset);
    *last = info.depth == 0 ? ~uint64_t{0} : info.position | ~uint64_t{0} >> info.depth;
    return region_ + offset;
  }

  // The segment that serves this position: the number of top bits that its positions share.
  int DepthAt(uint64_t position) const { return pool_->info(directory_->Find(position).offset())->depth; }

  // Returns an empty slot for a hash, splitting segments as needed; it counts as used from now on. Null with *code:
  // kNoMemory (nothing in the pool; try again when there is), kIndexFull, kMakingRoom (call again).
  char* FindRoom(uint64_t hash, int64_t now_ns, Code* code);
  // Reports that this slot is empty now. May merge its segment with another: now, or in the next calls of Tidy() for a
  // caller that removes many in one call.
  void Removed(const char* slot, Merging merging, int64_t now_ns) {
    SegmentInfo* info = pool_->info(static_cast<uint64_t>(slot - region_));
    --keys_;
    --info->keys;
    if (merging == Merging::kLater) {
      if (info->keys <= info->look_at) [[unlikely]] {
        PutOff(info->position);
        info->look_at = 0;  // until Tidy() examines the segment, so that it has one entry in to_merge_
      }
      return;
    }
    // Pass the time to the pool before anything is retired now.
    if (now_ns >= tidy_ns_) [[unlikely]]
      Tidy(now_ns);
    if (info->keys <= info->look_at) [[unlikely]]
      MergeFrom(info->position, now_ns);
  }

  // A bounded part of the periodic work: ends quarantines, performs merges that were put off, moves a segment to a
  // lower place, returns memory. Writers call it with their calls.
  void Tidy(int64_t now_ns);
  size_t merges_put_off() const { return to_merge_.size(); }
  // Returns whether Tidy() will have work to do even without writes.
  bool untidy() const { return !to_merge_.empty() || misplaced_; }

  // Finds the present main bucket of a key, for Find(). `position` is that of place->hash. Needs no lock: the turn is
  // read first, so that under the lock a changed bucket implies another turn.
  void LookAhead(uint64_t position, KeyPlace* place) const {
    place->turn = turn_.load(std::memory_order_acquire);
    place->bucket = MainBucket(position, place->hash);
    place->slot = nullptr;
  }
  // Prefetches the items that the bucket seems to have for the key, and notes the slot of one.
  void PrefetchItem(KeyPlace* place) const {
    PrefetchItemIn(place->bucket, place);
    // If the segment left the index meanwhile, its memory may hold anything.
    if (const uint32_t link = BucketInfo(LoadWord(place->bucket)).link(); link - 1 < kOverflowBuckets) [[unlikely]]
      PrefetchItemIn(LinkedFrom(place->bucket, BucketOf(place->hash), link), place);
  }
  // Prefetches for the bucket of this number in the segment that serves a position. Each reads what the one before
  // brings into cache.
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
  // The first slot that seems to have the fingerprint; any other slot if there is none.
  static char* LikelySlot(char* bucket, uint16_t fingerprint) {
    constexpr uint32_t kLastWord = 1u << (kWordsPerBucket - 1);
    return bucket + 8 * std::countr_zero(LikelyWords(bucket, fingerprint) | kLastWord);
  }
  // A hint, so only slots that seem to have the fingerprint are examined.
  void PrefetchItemIn(char* bucket, KeyPlace* place) const {
    for (uint32_t likely = LikelyWords(bucket, FingerprintOf(place->hash)); likely != 0; likely &= likely - 1) {
      place->slot = bucket + 8 * std::countr_zero(likely);
      __builtin_prefetch(region_ + Slot(LoadWord(place->slot)).offset());
    }
  }
  // The overflow bucket that the main bucket of this number links to.
  template <typename Char>
  static Char* LinkedFrom(Char* main, uint32_t number, uint32_t link) {
    return main - uint64_t{number} * kBucketBytes + uint64_t{LinkedBucket(link)} * kBucketBytes;
  }
  // Calls f(slot) for the slots with this hash's fingerprint in its buckets, the first of which is `main`, until f
  // returns true. Returns that slot's address or null.
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
  const uint64_t slack_;  // number of segments that are allowed regardless of the number of keys

  // From 1 on. Increased immediately after each change of a directory entry.
  std::atomic<uint64_t> turn_{0};

  int first_depth_ = 0;
  uint64_t keys_ = 0;
  uint64_t segments_ = 0;
  uint64_t splits_ = 0;
  uint64_t merges_ = 0;
  uint64_t moves_ = 0;
  uint64_t overflow_keys_ = 0;

  int64_t tidy_ns_ = 0;            // the time of the next Tidy()
  uint64_t seen_ = 0;              // of the pool, for its Advance()
  bool misplaced_ = false;         // one was found at the last check
  std::deque<uint64_t> to_merge_;  // positions; the pool knows their number

  std::deque<Halves> halves_;  // all of them, also those in free_halves_
  std::vector<Halves*> free_halves_;

  SegmentImage images_[2];  // scratch
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_INDEX_INDEX_H_
