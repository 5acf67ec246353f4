// A block: contiguous units of the region that hold pieces for items of any size class, with holes between them. The
// used cells are recorded here, two bits for each cell, and not in the region: a freed piece keeps its bytes until it
// is used again.
//
//      kind    units       pieces        cells
//      small   1           to 4 KiB      2,048 of 32 bytes      of one partition
//      medium  8 aligned   to 64 KiB     2,048 of 256 bytes     of all partitions
//      large   32 aligned  to 512 KiB    512 of 4 KiB           of all partitions
//
// A size class's bytes are a multiple of the cells of its kind, so no cell is lost. Two bits for each cell are at most
// 0.8 % of a block (a small one).
#ifndef FARLOOK_KV_HEAP_BLOCK_H_
#define FARLOOK_KV_HEAP_BLOCK_H_

#include <array>
#include <cstdint>
#include <memory>

#include "kv/layout/limits.h"
#include "kv/layout/region.h"
#include "kv/layout/size_class.h"

namespace farlook::kv {

// The page map (region.h) stores these numbers.
enum class BlockKind : uint8_t { kSmall = 1, kMedium = 2, kLarge = 3, kRun = 4 };

struct BlockShape {
  uint32_t units;
  int cell_shift;  // log2 of a cell's bytes
  uint32_t cells;
  uint64_t most_bytes;  // of a piece

  constexpr uint32_t CellsFor(uint64_t bytes) const {
    return static_cast<uint32_t>((bytes + (uint64_t{1} << cell_shift) - 1) >> cell_shift);
  }
  constexpr uint64_t bytes() const { return units * kUnitBytes; }
};

inline constexpr BlockShape kSmallShape{1, 5, 2048, 4 << 10};
inline constexpr BlockShape kMediumShape{8, 8, 2048, 64 << 10};
inline constexpr BlockShape kLargeShape{32, 12, 512, 512 << 10};

// REQUIRES kind is not kRun.
constexpr const BlockShape& ShapeOf(BlockKind kind) {
  return kind == BlockKind::kSmall ? kSmallShape : kind == BlockKind::kMedium ? kMediumShape : kLargeShape;
}

constexpr BlockKind KindFor(uint64_t bytes) {
  if (bytes <= kSmallShape.most_bytes) return BlockKind::kSmall;
  if (bytes <= kMediumShape.most_bytes) return BlockKind::kMedium;
  return bytes <= kLargeShape.most_bytes ? BlockKind::kLarge : BlockKind::kRun;
}

static_assert(kSmallShape.cells << kSmallShape.cell_shift == kSmallShape.bytes());
static_assert(kMediumShape.cells << kMediumShape.cell_shift == kMediumShape.bytes());
static_assert(kLargeShape.cells << kLargeShape.cell_shift == kLargeShape.bytes());
static_assert(SizeClassBytes(SizeClassFor(kSmallShape.most_bytes + 1)) % (1 << kMediumShape.cell_shift) == 0 &&
                  SizeClassBytes(SizeClassFor(kMediumShape.most_bytes + 1)) % (1 << kLargeShape.cell_shift) == 0,
              "size classes are multiples of the cells of their kind");

// Thread safety: none.
class Block {
 public:
  static constexpr uint32_t kMostCells = 2048;

  struct Extent {
    uint32_t begin = 0, end = 0;
    uint32_t cells() const { return end - begin; }
  };

  // Makes the whole block one hole. `owned`: pieces have separate owners (SetOwner).
  void Reset(uint64_t offset, BlockKind kind, bool owned);

  uint64_t offset() const { return offset_; }
  BlockKind kind() const { return kind_; }
  const BlockShape& shape() const { return ShapeOf(kind_); }
  uint32_t cells() const { return cells_; }
  uint32_t CellOf(uint64_t offset) const { return static_cast<uint32_t>((offset - offset_) >> shift_); }
  uint64_t OffsetOf(uint32_t cell) const { return offset_ + (uint64_t{cell} << shift_); }

  uint32_t free_cells() const { return free_; }  // in holes
  uint32_t longest() const { return longest_; }  // the longest hole
  bool empty() const { return free_ == cells_; }

  // Takes the shortest hole of at least `cells`: the caller owns the extent. Empty if there is none. `*looks` grows by
  // the number of holes looked at, at most kMostCells / 2.
  Extent TakeHole(uint32_t cells, uint64_t* looks);
  // Marks the beginning of a piece at the beginning of the caller's extent.
  void Begin(uint32_t cell) { begins_[cell / 64] |= uint64_t{1} << cell % 64; }
  // Recovery: marks a piece as used. Returns false if a cell of it is not free.
  bool Occupy(uint32_t cell, uint32_t cells);
  // Recovery: fetch what Occupy() reads, the cell's bits after the rest.
  void PrefetchSelf() const { __builtin_prefetch(this, 1); }
  void PrefetchCell(uint32_t cell) const {
    __builtin_prefetch(&used_[cell / 64], 1);
    __builtin_prefetch(&begins_[cell / 64], 1);
  }
  // Recovery: finds the longest hole after the last call of Occupy().
  void MeasureHoles();
  bool IsFree(uint32_t cell) const { return (used_[cell / 64] >> cell % 64 & 1) == 0; }
  // Turns cells of a piece or of the caller into a hole, joined with the adjacent holes.
  void Free(uint32_t cell, uint32_t cells);

  // The first piece that begins at `from` or after, or cells() if there is none; and a piece's length.
  uint32_t NextPiece(uint32_t from) const;
  uint32_t CellsOfPiece(uint32_t cell) const;

  void SetOwner(uint32_t cell, uint8_t owner) { owners_[cell] = owner; }
  uint8_t OwnerOf(uint32_t cell) const { return owners_[cell]; }

  // For the owner of the block (BlockSet).
  struct Links {
    Block* before = nullptr;
    Block* after = nullptr;
    int list = -1;  // number of the list; -1: none
  };
  Links by_hole, by_free;
  uint32_t pinned = 0;    // pieces that may not move
  uint8_t partition = 0;  // the partition that owns it, or MapWord::kShared
  bool barred = false;    // takes no new piece: it is being emptied

 private:
  using Bits = std::array<uint64_t, kMostCells / 64>;

  // The first cell from `from` on whose bit is `set`, or cells_.
  uint32_t Next(const Bits& bits, uint32_t from, bool set) const;
  // Number of free cells immediately before `cell`.
  uint32_t FreeBefore(uint32_t cell) const;
  // Returns whether one of these cells' bits is set.
  static bool HasAny(const Bits& bits, uint32_t from, uint32_t cells);
  static void Fill(Bits& bits, uint32_t from, uint32_t cells, bool set);

  uint64_t offset_ = 0;
  BlockKind kind_ = BlockKind::kSmall;
  int shift_ = 0;
  uint32_t cells_ = 0;
  uint32_t free_ = 0;
  uint32_t longest_ = 0;
  Bits used_, begins_;
  std::unique_ptr<uint8_t[]> owners_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_HEAP_BLOCK_H_
