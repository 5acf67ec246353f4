// Memory for items: slabs of equal pieces, one size class each.
//
// A slab is a run of pages: one page for small pieces, more where that wastes less, at least as many as the piece
// needs. Which pieces are used is kept here and not in the region: freed memory keeps the bytes it had until it is used
// again.
#ifndef FARLOOK_KV_SLABS_H_
#define FARLOOK_KV_SLABS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kv/page_pool.h"
#include "kv/size_class.h"

namespace farlook::kv {

struct Slab {
  uint64_t offset = 0;  // in the region
  uint32_t pages = 0;
  SizeClass size_class = 0;
  uint32_t capacity = 0;  // pieces
  uint32_t used = 0;
  uint32_t pinned = 0;           // pieces that may not move
  uint32_t search_from = 0;      // no word of the bitmap before this has a free piece
  uint32_t place = 0;            // in the list of its class's slabs with room, if it has room
  std::vector<uint64_t> bitmap;  // 1: used

  uint64_t PieceOffset(uint32_t piece) const { return offset + piece * SizeClassBytes(size_class); }
  bool Used(uint32_t piece) const { return bitmap[piece / 64] >> (piece % 64) & 1; }
};

// Thread safety: one thread at a time (a partition's lock). The pool may be shared.
class Slabs {
 public:
  // For pages numbered below `pages`.
  Slabs(PagePool* pool, uint64_t pages);
  ~Slabs();

  // Offset in the region of a piece of this class, or 0 when neither a slab nor the pool has room.
  uint64_t Allocate(SizeClass size_class);
  // Gives a piece back; a slab that becomes empty goes back to the pool.
  void Free(uint64_t offset);

  // A pinned piece's slab is never chosen by Sparsest().
  void Pin(uint64_t offset) { ++SlabOf(offset)->pinned; }
  void Unpin(uint64_t offset) { --SlabOf(offset)->pinned; }

  // The slab that is cheapest to empty: the fewest bytes in use among those whose pieces fit into other slabs of their
  // class. Null if there is none.
  Slab* Sparsest();
  // To empty a slab: take it out of use, move its pieces to pieces that Allocate gives, then Retire it. While it is
  // taken out Free() of its pieces is not allowed. PutBack undoes Withdraw.
  void Withdraw(Slab* slab);
  void PutBack(Slab* slab);
  void Retire(Slab* slab);  // its pieces' bytes are free now, and it is gone

 private:
  struct Class {
    std::vector<Slab*> with_room;
    uint64_t free_pieces = 0;  // in with_room
  };

  Slab* SlabOf(uint64_t offset) const { return of_page_[offset / kPageBytes]; }
  Slab* NewSlab(SizeClass size_class);
  void AddToRoom(Slab* slab);
  void RemoveFromRoom(Slab* slab);

  PagePool* const pool_;
  std::vector<Slab*> of_page_;  // owned: by its first page
  std::vector<Class> classes_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_SLABS_H_
