// Rebuilds a heap from the page map of a region that another process left, and from the pieces that its index names.
//
// The page map says which units have blocks and runs. It does not say which pieces of a block are used: only a slot
// says that. So memory that no slot names is free, also a block or a run that was assigned and not used.
#ifndef FARLOOK_KV_HEAP_HEAP_RECOVERY_H_
#define FARLOOK_KV_HEAP_HEAP_RECOVERY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kv/heap/heap.h"
#include "kv/layout/region.h"
#include "kv/layout/slot.h"
#include "kv/layout/words.h"

namespace farlook::kv {

// Order of calls: Read(), Adopt(), then Claim() for each slot, Finish(). Thread safety: none.
class HeapRecovery {
 public:
  // `heap`: new, and not used by others yet.
  explicit HeapRecovery(Heap* heap);

  // Decodes the page map and stores nothing. DATA_LOSS names the first word that no server wrote.
  absl::Status Read();
  // The units of the index, by offset, ascending.
  const std::vector<uint64_t>& index_units() const { return index_units_; }
  bool IsIndexUnit(uint64_t offset) const { return At(offset) == State::kIndex; }

  // Gives the heap the units that the map names. Each block is empty at first.
  void Adopt();
  // Fetch what MayBe() and Claim() of a slot read: first its block, then its cell. REQUIRES Slot::ValidIn().
  void PrefetchBlock(Slot slot) const {
    const Block* const block = heap_->block_of_[slot.offset() / kUnitBytes];
    if (block != nullptr) block->PrefetchSelf();
  }
  void PrefetchCell(Slot slot) const {
    const Block* const block = heap_->block_of_[slot.offset() / kUnitBytes];
    if (block != nullptr) block->PrefetchCell(block->CellOf(slot.offset()));
  }
  // Returns whether this slot may name a piece of the partition, which may be claimed already.
  bool MayBe(int partition, Slot slot) const;
  // Marks the piece as used. Returns false if another piece has a part of it. REQUIRES MayBe().
  bool Claim(int partition, Slot slot);
  // The offset of the claimed piece that has the cell at `offset`, or 0.
  uint64_t PieceAt(uint64_t offset) const;
  // Returns whether the cell at `offset` belongs to no claimed piece and not to the index.
  bool IsHole(uint64_t offset) const;
  // Makes DEAD whatever could be an item in memory that no claimed piece has. Looks at all of it.
  void EndHoles();
  // Frees what has no piece, and prepares the heap for use. Afterwards nothing else may be called.
  void Finish();

 private:
  enum class State : uint8_t { kFree, kReserved, kIndex, kBlock, kRun, kClaimedRun };
  struct Extent {
    uint64_t first, units;
    BlockKind kind;
    uint8_t partition;
  };

  absl::Status ReadWord(uint64_t unit, uint64_t* units);
  absl::Status Damaged(uint64_t unit) const;
  void EndItems(uint64_t from, uint64_t to);
  static bool IsRest(MapWord word) { return word.word() == MapWord(MapWord::Use::kRest, 0, 0, 0).word(); }
  MapWord WordOf(uint64_t unit) const {
    return MapWord(LoadWord(heap_->region_ + heap_->header_.map_offset + 8 * unit));
  }
  State At(uint64_t offset) const {
    const uint64_t unit = offset / kUnitBytes;
    return unit < states_.size() ? states_[unit] : State::kReserved;
  }

  Heap* const heap_;
  std::vector<State> states_;  // by unit; of a run, its first unit says whether it was claimed
  std::vector<Extent> items_;  // blocks and runs
  std::vector<uint64_t> index_units_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_HEAP_HEAP_RECOVERY_H_
