// What is known here of the table's index: images of buckets, of 128 bytes as they were READ, with slots that replies
// told put in. Keys whose bucket is here cost one READ, that of the item, also those that nobody here ever asked for.
//
// Images are hints. A reader checks the item that it finds as any other, and learns that a key is absent only from a
// bucket that it READs, so what is forgotten, out of date, half stored, or noise that another process put there, costs
// READs and nothing else.
//
// A bucket's image lies at its offset in the region, modulo the mirror's length, a power of two. The index lies at the
// region's beginning, without gaps but for those that it leaves as it shrinks; so a mirror as long as the index has
// room for all of it, and in one that is shorter the last that was READ stays. An image's first word says of which
// segment and bucket it is: that is compared with what the directory says.
#ifndef FARLOOK_CLIENT_INDEX_MIRROR_H_
#define FARLOOK_CLIENT_INDEX_MIRROR_H_

#include <bit>
#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "client/mirror_memory.h"
#include "kv/directory.h"
#include "kv/fingerprints.h"
#include "kv/segment.h"
#include "kv/slot.h"
#include "kv/words.h"

namespace farlook::client {

// Thread safety: one thread; others, of other processes too, may have the same memory in mirrors of their own.
class IndexMirror {
 public:
  IndexMirror() = default;  // disabled: nothing is ever found

  // From here on it is of the table that `directory` leads to, which outlives it; with no memory it is disabled.
  // REQUIRES memory.bytes() is a power of two of at least kBucketBytes, or 0.
  void Attach(MirrorMemory memory, const kv::Directory* directory);

  bool enabled() const { return images_ != nullptr; }

  // Where the key of this hash may lie, or an empty slot. REQUIRES enabled().
  kv::Slot Find(uint64_t hash) const {
    const char* const word = WordOf(hash);
    if (word == nullptr) return kv::Slot();
    const kv::Slot slot(kv::LoadWord(word));
    return slot.fingerprint() == kv::FingerprintOf(hash) ? slot : kv::Slot();  // others may have stored since
  }

  // `buckets` was READ at this offset of the region, a multiple of kBucketBytes, as the length is.
  void Fill(uint64_t offset, absl::string_view buckets);
  // The key of this hash lies there. REQUIRES enabled(), and the slot bears the hash's fingerprint.
  void Insert(uint64_t hash, kv::Slot slot);
  // The key of this hash is not where Find() says.
  void Erase(uint64_t hash);

  uint64_t bytes() const { return memory_.bytes(); }

 private:
  char* ImageAt(uint64_t offset) const { return images_ + (offset & mask_); }
  char* ImageOf(kv::DirectoryEntry entry, uint32_t number) const {
    return ImageAt(entry.offset() + uint64_t{number} * kv::kBucketBytes);
  }
  // The word that bears the fingerprint, in the main bucket's image or in that of its overflow bucket; or null.
  char* WordOf(uint64_t hash) const {
    const kv::DirectoryEntry entry = directory_->Find(hash);
    uint32_t number = kv::BucketOf(hash);
    for (int looks = 0; looks < 2; ++looks) {
      char* const image = ImageOf(entry, number);
      const kv::BucketInfo info(kv::LoadWord(image));
      if (!info.Describes(entry.segment_id(), number)) break;
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

#endif  // FARLOOK_CLIENT_INDEX_MIRROR_H_
