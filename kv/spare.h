// Units that are kept so that a full table takes overwrites for ever: as many contiguous ones as the longest item has.
//
// An overwrite that needs no more room than the old item, and finds none, is written there while the old one is alive.
// The old one's piece is kept then as the new one's home, and the item moves home, in steps, before the units serve
// another overwrite. So that needs no room anywhere else, however the free memory lies.
//
//     whole -> lent -> published: has a home -> copied there -> whole
//               |              +- deleted, overwritten: the home is freed -> whole
//               +- abandoned -> whole
//
// See "The reserve" in docs/design-notes.md.
#ifndef FARLOOK_KV_SPARE_H_
#define FARLOOK_KV_SPARE_H_

#include <array>
#include <cstdint>

#include "kv/region.h"
#include "kv/size_class.h"

namespace farlook::kv {

// How many pieces of each size class are in use, and which is the longest. Thread safety: none.
class ClassCounts {
 public:
  void Add(uint64_t bytes) {
    const SizeClass c = SizeClassFor(bytes);
    ++counts_[c];
    if (c > longest_) longest_ = c;
  }
  // Whether it was the last one of the longest class.
  bool Remove(uint64_t bytes) {
    const SizeClass c = SizeClassFor(bytes);
    if (--counts_[c] > 0 || c != longest_) return false;
    while (longest_ > 0 && counts_[longest_] == 0) --longest_;
    return true;
  }
  // Bytes; those of the least class if there is no piece.
  uint64_t longest_bytes() const { return SizeClassBytes(longest_); }

 private:
  std::array<uint64_t, kSizeClasses> counts_{};
  SizeClass longest_ = 0;
};

// Thread safety: none; the heap guards it. What is about the item that is there changes under its partition's lock too.
struct Spare {
  uint64_t first = 0, units = 0;  // 0: there are none yet

  uint64_t lent_bytes = 0;  // of the piece that lies there; 0: whole
  int owner = 0;            // its partition
  uint64_t home = 0;        // where the item is to move; 0: it is not published yet
  uint64_t copied = 0;      // up to here, counted from the item's beginning

  bool lent() const { return lent_bytes != 0; }
  uint64_t offset() const { return first * kUnitBytes; }
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_SPARE_H_
