// A segment that a split, a merge or a move (index.h) builds in private memory. That happens under the partition's
// lock, so the used slots of each bucket are counted instead of searched for.
#ifndef FARLOOK_KV_INDEX_SEGMENT_IMAGE_H_
#define FARLOOK_KV_INDEX_SEGMENT_IMAGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/layout/limits.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"

namespace farlook::kv {

// Only the links of its descriptions are valid. Thread safety: none.
class SegmentImage {
 public:
  SegmentImage() : words_(kSegmentWords, 0) {}

  uint64_t word(size_t i) const { return words_[i]; }
  uint32_t keys() const { return keys_; }

  void Clear() {
    std::fill(words_.begin(), words_.end(), 0);
    used_.fill(0);
    keys_ = 0;
  }

  // Adds a slot to this main bucket, or to the overflow bucket that it links to, or to the emptiest one. Returns false
  // if those are full.
  bool Add(Slot slot, uint32_t bucket) {
    if (used_[bucket] == kSlotsPerBucket) {
      uint32_t link = BucketInfo(words_[bucket * kWordsPerBucket]).link();
      if (link == 0) {
        link = 1 + static_cast<uint32_t>(std::min_element(used_.begin() + kMainBuckets, used_.end()) -
                                         (used_.begin() + kMainBuckets));
        if (used_[LinkedBucket(link)] == kSlotsPerBucket) return false;
        words_[bucket * kWordsPerBucket] = BucketInfo().WithLink(link).word();
      }
      bucket = LinkedBucket(link);
      if (used_[bucket] == kSlotsPerBucket) return false;
    }
    words_[bucket * kWordsPerBucket + 1 + used_[bucket]++] = slot.word();
    ++keys_;
    return true;
  }
  // Returns whether the overflow buckets, filled by Add() only, are half empty, so that the segment does not soon split
  // again.
  bool HasRoomToGrow() const {
    return std::all_of(used_.begin() + kMainBuckets, used_.end(),
                       [](uint8_t used) { return kSlotsPerBucket - used >= kSlotsPerBucket / 2; });
  }

  // For copies of another segment, word by word: call Clear() before the next Add().
  void SetWord(size_t i, uint64_t word) { words_[i] = word; }
  void SetSlot(size_t i, Slot slot) {
    words_[i] = slot.word();
    ++keys_;
  }

 private:
  std::vector<uint64_t> words_;
  std::array<uint8_t, kBuckets> used_{};  // number of slots of each bucket: its first ones
  uint32_t keys_ = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_INDEX_SEGMENT_IMAGE_H_
