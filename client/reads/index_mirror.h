// Known parts of the table's index: images of buckets of 128 bytes as they were READ, updated by slots in replies. A
// key whose bucket is here costs one READ, that of the item, even if it was never used before.
//
// Images are hints. A reader checks the item as always, and accepts that a key is absent only from a bucket that it
// READs. So lost, outdated or partly stored images, or noise from another process, cost READs and nothing else.
//
// An image's first word names its segment and bucket, and is compared with the directory's entry. Its place follows
// from these two. The mirror is an array of places for segments, a power of two. A bucket's image is in the place of
// its segment's id, or in a second place by a hash of the id. Ids are assigned in order, and a growing table splits its
// oldest segments first. So its segments' ids are close together, and a mirror as long as the index has room for nearly
// all. After merges and moves ids are scattered, and few images find both places taken. Then the image with the lower
// id is replaced: its segment is more likely gone.
#ifndef FARLOOK_CLIENT_READS_INDEX_MIRROR_H_
#define FARLOOK_CLIENT_READS_INDEX_MIRROR_H_

#include <bit>
#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "client/reads/mirror_memory.h"
#include "kv/layout/fingerprints.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/layout/words.h"
#include "kv/read/directory.h"

namespace farlook::client {

// Thread safety: one thread. Other threads, also of other processes, may have mirrors on the same memory.
class IndexMirror {
 public:
  IndexMirror() = default;  // disabled: nothing is ever found

  // Starts mirroring the table of `directory`, which outlives this; without memory it is disabled. REQUIRES
  // memory.bytes() is 0 or a power of two of at least kBucketBytes.
  void Attach(MirrorMemory memory, const kv::Directory* directory);

  bool enabled() const { return images_ != nullptr; }

  // Returns a possible location of the key with this hash, or an empty slot. REQUIRES enabled().
  kv::Slot Find(uint64_t hash) const {
    const char* const word = WordOf(hash);
    if (word == nullptr) return kv::Slot();
    const kv::Slot slot(kv::LoadWord(word));
    return slot.fingerprint() == kv::FingerprintOf(hash) ? slot : kv::Slot();  // others may have stored since
  }

  // Stores whole buckets that were READ in the region's index.
  void Fill(absl::string_view buckets);
  // Stores the location of the key with this hash. REQUIRES enabled(), and the slot has the hash's fingerprint.
  void Insert(uint64_t hash, kv::Slot slot);
  // Removes the location that Find() returns.
  void Erase(uint64_t hash);

  uint64_t bytes() const { return memory_.bytes(); }

 private:
  // The two places of a segment's bucket.
  char* FirstPlace(uint32_t segment_id, uint32_t number) const {
    return images_ + ((uint64_t{segment_id} * kv::kSegmentBytes + uint64_t{number} * kv::kBucketBytes) & mask_);
  }
  char* SecondPlace(uint32_t segment_id, uint32_t number) const {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
    return FirstPlace(static_cast<uint32_t>(segment_id * kOdd >> 32), number);
  }
  // Returns the image of that bucket, or null.
  char* ImageOf(uint32_t segment_id, uint32_t number) const {
    char* image = FirstPlace(segment_id, number);
    if (kv::BucketInfo(kv::LoadWord(image)).Describes(segment_id, number)) [[likely]]
      return image;
    image = SecondPlace(segment_id, number);
    return kv::BucketInfo(kv::LoadWord(image)).Describes(segment_id, number) ? image : nullptr;
  }
  // Returns the place where an image of that bucket is to be stored.
  char* PlaceFor(uint32_t segment_id, uint32_t number) const;
  // Returns the word with the fingerprint, in the image of the main bucket or of its overflow bucket, or null.
  char* WordOf(uint64_t hash) const {
    const uint32_t segment_id = directory_->Find(hash).segment_id();
    uint32_t number = kv::BucketOf(hash);
    for (int looks = 0; looks < 2; ++looks) {
      char* const image = ImageOf(segment_id, number);
      if (image == nullptr) break;
      const kv::BucketInfo info(kv::LoadWord(image));
      const uint32_t likely = kv::LikelyWords(image, kv::FingerprintOf(hash));
      if (likely != 0) [[likely]]
        return image + 8 * static_cast<uint64_t>(std::countr_zero(likely));
      if (info.link() == 0 || info.link() > kv::kOverflowBuckets) break;
      number = kv::LinkedBucket(info.link());
    }
    return nullptr;
  }

  MirrorMemory memory_;
  const kv::Directory* directory_ = nullptr;
  char* images_ = nullptr;
  uint64_t mask_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_READS_INDEX_MIRROR_H_
