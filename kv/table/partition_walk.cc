// A walk over a partition's items, by which a primary fills a backup.
#include "kv/layout/words.h"
#include "kv/table/partition.h"

namespace farlook::kv {

// A key's bucket is the same in every segment that serves its position. So the walk passes all positions for one bucket
// after the other: splits and merges meanwhile hide no key from it.
bool Partition::WalkItems(WalkPlace* place, size_t budget,
                          absl::FunctionRef<void(uint64_t hash, const ItemView& item)> see) const {
  const uint64_t first = bits_ == 0 ? 0 : prefix_ << (64 - bits_);
  const uint64_t end = first | ~uint64_t{0} >> bits_;  // the last position
  for (size_t looked = 0; looked < budget; ++looked) {
    uint64_t last = 0;
    const char* const segment = index_.SegmentAt(first + place->passed, &last);
    const BucketInfo info(LoadWord(segment + uint64_t{place->bucket} * kBucketBytes));
    ShowBucket(segment + uint64_t{place->bucket} * kBucketBytes, place->bucket, see);
    if (info.link() != 0) {
      ShowBucket(segment + uint64_t{LinkedBucket(info.link())} * kBucketBytes, place->bucket, see);
    }
    if (last < end) {
      place->passed = last + 1 - first;
    } else {
      place->passed = 0;
      if (++place->bucket == kMainBuckets) return false;
    }
  }
  return true;
}

// Shows a bucket's items; of an overflow bucket only those of main bucket `of`.
void Partition::ShowBucket(const char* bucket, uint32_t of,
                           absl::FunctionRef<void(uint64_t hash, const ItemView& item)> see) const {
  // Prefetch all items, so that their cache misses overlap.
  for (size_t i = 1; i < kWordsPerBucket; ++i) {
    const Slot slot(LoadWord(bucket + 8 * i));
    if (!slot.empty()) __builtin_prefetch(region_ + slot.offset());
  }
  for (size_t i = 1; i < kWordsPerBucket; ++i) {
    const Slot slot(LoadWord(bucket + 8 * i));
    if (slot.empty()) continue;
    const Found found{{nullptr, region_ + slot.offset()}};
    const ItemView item = ViewOf(found);
    const uint64_t hash = (*hasher_)(item.key);
    if (BucketOf(hash) == of && !Expired(found)) see(hash, item);
  }
}

}  // namespace farlook::kv
