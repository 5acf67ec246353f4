// The blocks of one kind that one owner has. Allocates and frees their pieces.
//
// Pieces come from the extent at hand: consecutive cells of a hole, or of the rest of a block. If the next piece does
// not fit there, the rest becomes a hole again and another extent is taken. It comes from the block whose longest hole
// is the shortest that suffices, and is there the shortest hole that suffices. Blocks are in lists by their longest
// holes and by their free cells, so only one block's bits are searched.
#ifndef FARLOOK_KV_HEAP_BLOCK_SET_H_
#define FARLOOK_KV_HEAP_BLOCK_SET_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "kv/heap/block.h"
#include "kv/heap/figure.h"

namespace farlook::kv {

// The approximate use of each unit of the region, in sixteenths. kStays: cannot be moved. The search for units that are
// cheap to empty reads it without any block's lock.
class UnitLoad {
 public:
  static constexpr uint8_t kFull = 16, kStays = 255;
  void Set(uint8_t load) { load_.store(load, std::memory_order_relaxed); }
  uint8_t Get() const { return load_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint8_t> load_{0};
};

// Thread safety: one thread at a time, except for the figures.
class BlockSet {
 public:
  struct Piece {
    Block* block = nullptr;  // null: none
    uint32_t cell = 0;
    uint64_t offset() const { return block->OffsetOf(cell); }
  };

  // `loads` outlives the set: see UnitLoad.
  BlockSet(BlockKind kind, UnitLoad* loads) : shape_(ShapeOf(kind)), loads_(loads) {}

  // Returns a piece: the one that was freed last, if it has this length, or one from the extent at hand.
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
  // Takes a hole of at least `cells` as the extent at hand. Returns false, and changes nothing, if there is none.
  bool UseHole(uint32_t cells);
  // Number of holes that UseHole() and UseBlock() have looked at since the last call.
  uint64_t TakeLooks() { return std::exchange(looks_, 0); }
  // Adds a block that is empty and in no set, and takes all of it as the extent at hand.
  void UseBlock(Block* block);
  // Recovery: adds a block that has pieces and is in no set.
  void Adopt(Block* block);
  // Returns whether more than an eighth of the blocks are holes: then holes are used before new blocks.
  bool sparse() const { return hole_cells() * 8 > blocks_.value() * shape_.cells; }

  // Frees a piece. Returns true if its block became empty and left the set.
  bool Free(Block* block, uint32_t cell, uint32_t cells);

  // Returns about the block with the most free cells, at least `least_free`, among those without a pinned piece and
  // other than the victim. Null: none. Looks at a few blocks of each list.
  Block* Sparsest(uint32_t least_free) const;
  // The block that is being emptied, which takes no new piece, or null.
  Block* victim() const { return victim_; }
  // Makes a block the victim instead of any other; null: none. Returns true if the block was already empty: then it
  // left the set and is not the victim. A victim that becomes empty later also leaves the set and is no longer the
  // victim.
  bool Bar(Block* block);
  // Reserve the extent at hand for the compactor until the victim is empty. Between Park and Unpark others do not use
  // it, as its block may be one that only compaction may take.
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
  // The longest hole, or the extent at hand, in cells. Not for any thread.
  uint32_t LongestHole() const;

 private:
  static constexpr int kHoleLists = 64, kFreeLists = 17;
  using Lists = std::array<Block*, kHoleLists>;

  uint64_t hole_cells() const {
    return blocks_.value() * shape_.cells - used_cells_.value() - at_hand_.cells() - freed_cells_;
  }
  void List(Block* block);
  void Unlist(Block* block);
  void LetGo();  // gives up the extent at hand
  void LetGoParked();
  void SettleFreed();  // makes a hole of the piece that was freed last

  const BlockShape& shape_;
  UnitLoad* const loads_;
  Block* block_at_hand_ = nullptr;
  Block::Extent at_hand_;
  Block* block_parked_ = nullptr;
  Block::Extent parked_;
  Piece freed_;               // not yet a hole, as it may be reused at once; never the last piece of its block
  uint32_t freed_cells_ = 0;  // 0: none
  Block* victim_ = nullptr;
  uint64_t holes_mask_ = 0;  // bit i: by_hole_[i] is not empty
  Lists by_hole_{};          // blocks by the length of their longest hole
  Lists by_free_{};          // by their free cells, in sixteenths
  uint64_t looks_ = 0;
  Figure blocks_, used_cells_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_HEAP_BLOCK_SET_H_
