// The blocks of one kind that one owner has: where a piece comes from and goes back to.
//
// Pieces come from an extent that the set has at hand: a hole, or the rest of a block, whose cells follow one another.
// When the next piece does not fit there any more, what is left becomes a hole again and another extent is taken: from
// the block whose longest hole is the shortest that suffices, there the shortest hole that does. Blocks stand in lists
// by their longest holes and by their free cells, so nothing is searched but one block's bits.
#ifndef FARLOOK_KV_BLOCK_SET_H_
#define FARLOOK_KV_BLOCK_SET_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "kv/block.h"
#include "kv/figure.h"

namespace farlook::kv {

// How much of each unit of the region is in use, in sixteenths, about. kStays: cannot be moved. Who looks for units
// that are cheap to empty reads it without any block's lock.
class UnitLoad {
 public:
  static constexpr uint8_t kFull = 16, kStays = 255;
  void Set(uint8_t load) { load_.store(load, std::memory_order_relaxed); }
  uint8_t Get() const { return load_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint8_t> load_{0};
};

// Thread safety: one thread at a time, but for the figures.
class BlockSet {
 public:
  struct Piece {
    Block* block = nullptr;  // null: none
    uint32_t cell = 0;
    uint64_t offset() const { return block->OffsetOf(cell); }
  };

  // `loads` outlives the set: see UnitLoad.
  BlockSet(BlockKind kind, UnitLoad* loads) : shape_(ShapeOf(kind)), loads_(loads) {}

  // A piece: the one that was freed last, if it has this length, or one from the extent at hand.
  Piece Allocate(uint32_t cells) {
    if (freed_cells_ == cells) {
      freed_cells_ = 0;
      used_cells_ += cells;
      return freed_;
    }
    if (at_hand_.cells() < cells) return {};
    const Piece piece{block_at_hand_, at_hand_.begin};
    piece.block->Begin(piece.cell);
    at_hand_.begin += cells;
    used_cells_ += cells;
    return piece;
  }
  // Puts a hole of at least `cells` at hand. False, and nothing changed: there is none.
  bool UseHole(uint32_t cells);
  // How many holes UseHole() has looked at since this was last asked.
  uint64_t TakeLooks() { return std::exchange(looks_, 0); }
  // Takes a block that is empty and of no set, and has all of it at hand.
  void UseBlock(Block* block);
  // Whether more than an eighth of the blocks are holes: then holes come before new blocks.
  bool sparse() const { return hole_cells() * 8 > blocks_.value() * shape_.cells; }

  // Gives a piece back. True: its block is empty now, and no longer of the set.
  bool Free(Block* block, uint32_t cell, uint32_t cells);

  // The block with about the most free cells, at least `least_free`, that has no pinned piece and is not the victim.
  // Null: none. Looks at a few of each list.
  Block* Sparsest(uint32_t least_free) const;
  // The block that is being emptied, into which no piece is put, or null.
  Block* victim() const { return victim_; }
  // Makes a block the victim, in place of any other; null: none. True: it is empty already, and no longer of the set,
  // nor the victim. A victim that becomes empty is neither, too.
  bool Bar(Block* block);
  // What is at hand is the compactor's until the victim is empty: between Park and Unpark others do not get it, as it
  // may be of a block that only compaction may take.
  void Park();
  void Unpark();

  const BlockShape& shape() const { return shape_; }
  // Figures: any thread.
  uint64_t blocks() const { return blocks_.value(); }
  uint64_t used_cells() const { return used_cells_.value(); }
  uint64_t free_bytes() const {  // within blocks
    const uint64_t cells = blocks_.value() * shape_.cells, used = used_cells_.value();
    return cells > used ? (cells - used) << shape_.cell_shift : 0;
  }
  // The longest hole, or what is at hand, in cells. Not for any thread.
  uint32_t LongestHole() const;

 private:
  static constexpr int kHoleLists = 64, kFreeLists = 17;
  using Lists = std::array<Block*, kHoleLists>;

  uint64_t hole_cells() const {
    return blocks_.value() * shape_.cells - used_cells_.value() - at_hand_.cells() - freed_cells_;
  }
  void List(Block* block);
  void Unlist(Block* block);
  void LetGo();  // of what is at hand
  void LetGoParked();
  void SettleFreed();  // makes a hole of the piece that was freed last

  const BlockShape& shape_;
  UnitLoad* const loads_;
  Block* block_at_hand_ = nullptr;
  Block::Extent at_hand_;
  Block* block_parked_ = nullptr;
  Block::Extent parked_;
  Piece freed_;               // not yet a hole, as it may be wanted at once; never all that its block has
  uint32_t freed_cells_ = 0;  // 0: none
  Block* victim_ = nullptr;
  uint64_t holes_mask_ = 0;  // which of by_hole_ are not empty
  Lists by_hole_{};          // blocks by the length of their longest hole
  Lists by_free_{};          // by their free cells, in sixteenths
  uint64_t looks_ = 0;
  Figure blocks_, used_cells_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_BLOCK_SET_H_
