// The spare: contiguous units that are kept free so that a full table always accepts overwrites. It is as long as the
// longest item.
//
// An overwrite that needs no more room than the old item, and finds none, is written to the spare while the old item is
// alive. The old item's piece is then kept as the new item's home. The item moves home, in steps, before the spare
// serves another overwrite. So an overwrite needs no other room, however the free memory is fragmented.
//
//      whole -> lent -> published: has a home -> copied there -> whole
//                |              +- deleted, overwritten: the home is freed -> whole
//                +- abandoned -> whole
//
// See "The reserve" in docs/design-notes.md.
#ifndef FARLOOK_KV_HEAP_SPARE_H_
#define FARLOOK_KV_HEAP_SPARE_H_

#include <array>
#include <cstdint>

#include "kv/layout/region.h"
#include "kv/layout/size_class.h"

namespace farlook::kv {

// The number of pieces of each size class, and the longest class in use. Thread safety: none.
class ClassCounts {
 public:
  void Add(uint64_t bytes) {
    const SizeClass c = SizeClassFor(bytes);
    ++counts_[c];
    if (c > longest_) longest_ = c;
  }
  // Returns whether it was the last piece of the longest class.
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

// Thread safety: none; the heap guards it. Fields about the lent piece's item also change only under its partition's
// lock.
struct Spare {
  uint64_t first = 0, units = 0;  // 0: none yet

  uint64_t lent_bytes = 0;  // of the piece in the spare; 0: the spare is whole
  int owner = 0;            // its partition
  uint64_t home = 0;        // the destination of the item; 0: it is not published yet
  uint64_t copied = 0;      // bytes copied so far, from the item's beginning

  bool lent() const { return lent_bytes != 0; }
  uint64_t offset() const { return first * kUnitBytes; }
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_HEAP_SPARE_H_
