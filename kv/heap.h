// The memory of the region: pieces for items, and units of 64 KiB for the index.
//
// Items to 4 KiB lie in small blocks, which belong to one partition each, so that partitions do not meet; longer ones
// in medium and large blocks, which all share; what is longer than 512 KiB in units of its own. See block.h, and
// "Blocks" in docs/design-notes.md.
//
// A unit's use stands in the region's page map before the unit is used. All else is private to the process.
//
// Thread safety: calls that name a partition are made under its lock, all others by any thread. What is shared is
// guarded here.
#ifndef FARLOOK_KV_HEAP_H_
#define FARLOOK_KV_HEAP_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kv/block.h"
#include "kv/block_set.h"
#include "kv/region.h"
#include "kv/spare.h"
#include "kv/units.h"

namespace farlook::kv {

// Who wants memory: how many units must stay free for others.
enum class Claim : uint8_t {
  kNewKey,      // leaves the reserve
  kOverwrite,   // leaves what compaction needs; so does the index
  kCompaction,  // leaves nothing
};

struct HeapStats {
  struct Kind {
    uint64_t blocks = 0;
    uint64_t bytes = 0;       // of blocks
    uint64_t used_bytes = 0;  // of pieces
  };
  std::array<Kind, 4> kinds;    // small, medium, large; runs
  uint64_t free_bytes = 0;      // of units, the spare's too
  uint64_t reserve_bytes = 0;   // of those, what new keys do not get
  uint64_t longest_bytes = 0;   // contiguous
  uint64_t index_bytes = 0;     // of units
  uint64_t overhead_bytes = 0;  // header, directory, marks, redo pieces, page map
};

class Heap {
 public:
  // `header` is the region's.
  Heap(char* region, const RegionHeader& header);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // The region's offset of a piece of so many bytes (those of a size class), or 0: none without moving others.
  uint64_t Allocate(int partition, uint64_t bytes, Claim claim) {
    if (bytes <= kSmallShape.most_bytes) {
      const auto cells = static_cast<uint32_t>(bytes >> kSmallShape.cell_shift);
      const BlockSet::Piece piece = small_[static_cast<size_t>(partition)]->set.Allocate(cells);
      if (piece.block != nullptr) return piece.offset();
      return AllocateSmall(partition, cells, claim);
    }
    return AllocateShared(partition, bytes, claim);
  }
  // `bytes` as it was allocated with.
  void Free(int partition, uint64_t offset, uint64_t bytes);

  // Memory for an overwrite that needs no more room than the old item's piece of `bytes`, when there is no other: of
  // the spare (spare.h). 0: it is lent already, or not as long, and stays so where SpareServes() says false.
  uint64_t Lend(int partition, uint64_t bytes);
  bool SpareServes(uint64_t bytes) const { return UnitsFor(bytes) <= spare_units_.value(); }
  // Whether a piece that the partition has is the spare's.
  bool IsLent(uint64_t offset) const { return offset / kUnitBytes == lent_unit_.value(); }
  bool spare_has_home() const { return spare_homes_.value() != 0; }
  // The item in the spare was published. The piece `home`, as long as its own, is not freed but kept for it.
  void KeepHome(uint64_t home);

  // A pinned piece stays where it is.
  void Pin(uint64_t offset) { AddPins(offset, 1); }
  void Unpin(uint64_t offset) { AddPins(offset, -1); }

  // A partition's first piece of this kind at `*from` or after it, of whatever length the kind's memory has been given
  // for. 0: there is none, or `*looks`, of which every step takes some, is 0; then it goes on at `*from`. Pieces that
  // have no item, or none yet, are among them.
  uint64_t NextPiece(int partition, BlockKind kind, uint64_t* from, uint32_t* looks) const;

  // The offset of a unit, with whatever bytes it has, or 0.
  uint64_t AllocateIndexUnit();
  void FreeIndexUnit(uint64_t offset);

  HeapStats stats() const;
  // The longest piece, up to `most_bytes`, that a new key would be given units for now, with all that comes with it:
  // units for a longer spare, and what is kept free. Holes in blocks do not count. 0: none.
  uint64_t LongestPiece(uint64_t most_bytes);

 private:
  friend class Compactor;

  struct alignas(64) Small {
    explicit Small(UnitLoad* loads) : set(BlockKind::kSmall, loads) {}
    BlockSet set;
  };

  uint64_t AllocateSmall(int partition, uint32_t cells, Claim claim);
  uint64_t AllocateShared(int partition, uint64_t bytes, Claim claim);
  uint64_t AllocateRun(int partition, uint64_t units, Claim claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeLent(int partition, uint64_t bytes);
  // Has the spare serve overwrites of a piece of so many bytes. False: there are no units for it.
  bool ProvideSpare(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a new key would be given so many contiguous units. Changes nothing.
  bool HasUnitsFor(uint64_t units) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The units that it would have more then.
  uint64_t SpareGrowth(uint64_t bytes) const;
  // Whether it cannot be elsewhere now: units of an open window are not given and taken.
  bool SpareStays() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return spare_.lent() || (spare_.first < window_end_ && window_first_ < spare_.first + spare_.units);
  }
  void TrimSpare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLoan() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddPins(uint64_t offset, int n);
  uint64_t NextSharedPiece(int partition, BlockKind kind, uint64_t first_unit, uint64_t from, uint32_t* looks) const;

  // Puts something of the kind at hand for a piece of so many cells.
  bool Refill(BlockSet* set, BlockKind kind, uint8_t owner, uint32_t cells, Claim claim)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Block* NewBlock(BlockKind kind, uint8_t owner, Claim claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Retire(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  BlockSet* SharedSet(BlockKind kind) { return kind == BlockKind::kMedium ? &medium_ : &large_; }

  bool MayTake(uint64_t units, Claim claim) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return units_.free() >= units + Leaves(claim);
  }
  // Beside the spare, were that longer by `growth`.
  uint64_t Leaves(Claim claim, uint64_t growth = 0) const {
    if (claim != Claim::kNewKey) return claim == Claim::kOverwrite ? floor_ : 0;
    return std::max(reserve_ - std::min(reserve_, spare_units_.value() + growth), kLeastReserveUnits);
  }
  void SetUse(uint64_t first, uint64_t units, MapWord word, uint8_t load) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveUnits(uint64_t first, uint64_t units) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static constexpr uint64_t kLeastReserveUnits = 8;
  static constexpr uint64_t UnitsFor(uint64_t bytes) { return (bytes + kUnitBytes - 1) / kUnitBytes; }

  char* const region_;
  const RegionHeader header_;
  const uint64_t first_unit_, units_end_;
  uint64_t reserve_, floor_;  // units
  const uint64_t most_spare_;
  const std::unique_ptr<UnitLoad[]> loads_;
  std::vector<std::unique_ptr<Small>> small_;  // by partition
  // The block that each unit is of. An entry is written with the mutex held, while the unit has no piece, and read by
  // who has a piece there.
  std::vector<Block*> block_of_;

  mutable absl::Mutex mutex_;  // taken under a partition's lock, held for microseconds
  Units units_ ABSL_GUARDED_BY(mutex_);
  BlockSet medium_, large_;  // guarded by mutex_ too, but for their figures
  std::vector<std::unique_ptr<Block>> all_blocks_ ABSL_GUARDED_BY(mutex_);
  std::vector<Block*> spare_blocks_[2] ABSL_GUARDED_BY(mutex_);  // descriptions of none: small, shared
  Figure free_units_, runs_, run_units_, index_units_, run_used_bytes_;
  Figure window_held_;  // free units of the window
  Spare spare_ ABSL_GUARDED_BY(mutex_);
  ClassCounts long_pieces_ ABSL_GUARDED_BY(mutex_);  // of large items and runs
  Figure spare_units_, lent_unit_, spare_homes_;

  // Units that are being emptied: those that come free within stay out of use.
  uint64_t window_first_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t window_end_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_HEAP_H_
