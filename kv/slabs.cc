#include "kv/slabs.h"

#include <bit>

namespace farlook::kv {
namespace {

constexpr uint64_t PagesForOne(SizeClass size_class) {
  return (SizeClassBytes(size_class) + kPageBytes - 1) / kPageBytes;
}

// The fewest pages, up to eight times what one piece needs at least, of which no more than an eighth is left over.
uint64_t PreferredPages(SizeClass size_class) {
  const uint64_t bytes = SizeClassBytes(size_class);
  const uint64_t least = PagesForOne(size_class);
  for (uint64_t pages = least; pages <= 8; ++pages) {
    if (pages * kPageBytes % bytes <= pages * kPageBytes / 8) return pages;
  }
  return least;
}

}  // namespace

Slabs::Slabs(PagePool* pool, uint64_t pages) : pool_(pool), of_page_(pages, nullptr), classes_(kSizeClasses) {}

Slabs::~Slabs() {
  for (uint64_t page = 0; page < of_page_.size();) {
    Slab* slab = of_page_[page];
    page += slab == nullptr ? 1 : slab->pages;
    delete slab;
  }
}

void Slabs::AddToRoom(Slab* slab) {
  Class& c = classes_[slab->size_class];
  slab->place = static_cast<uint32_t>(c.with_room.size());
  c.with_room.push_back(slab);
  c.free_pieces += slab->capacity - slab->used;
}

void Slabs::RemoveFromRoom(Slab* slab) {
  Class& c = classes_[slab->size_class];
  c.with_room[slab->place] = c.with_room.back();
  c.with_room[slab->place]->place = slab->place;
  c.with_room.pop_back();
  c.free_pieces -= slab->capacity - slab->used;
}

Slab* Slabs::NewSlab(SizeClass size_class) {
  uint64_t pages = PreferredPages(size_class);
  uint64_t first = pool_->Allocate(pages);
  if (first == 0 && pages != PagesForOne(size_class)) {
    pages = PagesForOne(size_class);
    first = pool_->Allocate(pages);
  }
  if (first == 0) return nullptr;
  Slab* slab = new Slab;
  slab->offset = first * kPageBytes;
  slab->pages = static_cast<uint32_t>(pages);
  slab->size_class = size_class;
  slab->capacity = static_cast<uint32_t>(pages * kPageBytes / SizeClassBytes(size_class));
  slab->bitmap.assign((slab->capacity + 63) / 64, 0);
  if (slab->capacity % 64 != 0) slab->bitmap.back() = ~0ull << slab->capacity % 64;  // what does not exist is in use
  for (uint64_t i = 0; i < pages; ++i) of_page_[first + i] = slab;
  AddToRoom(slab);
  return slab;
}

uint64_t Slabs::Allocate(SizeClass size_class) {
  Class& c = classes_[size_class];
  Slab* slab = c.with_room.empty() ? NewSlab(size_class) : c.with_room.back();
  if (slab == nullptr) return 0;
  while (slab->bitmap[slab->search_from] == ~0ull) ++slab->search_from;
  uint64_t& word = slab->bitmap[slab->search_from];
  const int bit = std::countr_one(word);
  if (slab->used + 1 == slab->capacity)
    RemoveFromRoom(slab);  // counts its last piece out, too
  else
    --c.free_pieces;
  word |= 1ull << bit;
  ++slab->used;
  return slab->PieceOffset(slab->search_from * 64 + static_cast<uint32_t>(bit));
}

void Slabs::Free(uint64_t offset) {
  Slab* slab = SlabOf(offset);
  const uint32_t piece = static_cast<uint32_t>((offset - slab->offset) / SizeClassBytes(slab->size_class));
  slab->bitmap[piece / 64] &= ~(1ull << piece % 64);
  if (piece / 64 < slab->search_from) slab->search_from = piece / 64;
  if (slab->used-- == slab->capacity)
    AddToRoom(slab);
  else
    ++classes_[slab->size_class].free_pieces;
  if (slab->used == 0 && slab->pinned == 0) {
    RemoveFromRoom(slab);
    Retire(slab);
  }
}

Slab* Slabs::Sparsest() {
  Slab* best = nullptr;
  uint64_t least = ~0ull;
  for (const Class& c : classes_) {
    for (Slab* slab : c.with_room) {
      if (slab->pinned > 0 || c.free_pieces - (slab->capacity - slab->used) < slab->used) continue;
      const uint64_t bytes = slab->used * SizeClassBytes(slab->size_class);
      if (bytes < least) {
        least = bytes;
        best = slab;
      }
    }
  }
  return best;
}

void Slabs::Withdraw(Slab* slab) { RemoveFromRoom(slab); }
void Slabs::PutBack(Slab* slab) {
  slab->search_from = 0;  // pieces were moved out anywhere
  AddToRoom(slab);
}

void Slabs::Retire(Slab* slab) {
  const uint64_t first = slab->offset / kPageBytes;
  for (uint64_t i = 0; i < slab->pages; ++i) of_page_[first + i] = nullptr;
  pool_->Free(first, slab->pages);
  delete slab;
}

}  // namespace farlook::kv
