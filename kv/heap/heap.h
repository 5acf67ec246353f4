// The memory of the region: pieces for items, and units of 64 KiB for the index.
//
// Items up to 4 KiB are in small blocks, which belong to one partition each, so that partitions do not contend. Longer
// ones are in medium and large blocks, which all partitions share. Items longer than 512 KiB have separate units. See
// block.h, and "Blocks" in docs/design-notes.md.
//
// A unit's use is stored in the region's page map before the unit is used. Everything else is private to the process.
//
// Thread safety: calls that name a partition are made under its lock, all others by any thread. Shared state is guarded
// here.
#ifndef FARLOOK_KV_HEAP_HEAP_H_
#define FARLOOK_KV_HEAP_HEAP_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kv/heap/block.h"
#include "kv/heap/block_set.h"
#include "kv/heap/spare.h"
#include "kv/heap/units.h"
#include "kv/layout/region.h"

namespace farlook::kv {

// The purpose of an allocation, which determines how many units must stay free for others.
enum class Claim : uint8_t {
  kNewKey,      // leaves the reserve
  kOverwrite,   // leaves what compaction needs; so does the index
  kCopy,        // of a backup: leaves what compaction needs, and the units that are set aside for the index
  kLastCopy,    // the same, when the copy has no other place: may waste part of its units, and the end of the spare
  kCompaction,  // leaves nothing
};

struct HeapStats {
  struct Kind {
    uint64_t blocks = 0;
    uint64_t bytes = 0;       // of blocks
    uint64_t used_bytes = 0;  // of pieces
  };
  std::array<Kind, 4> kinds;    // small, medium, large; runs
  uint64_t free_bytes = 0;      // of units, including the spare
  uint64_t reserve_bytes = 0;   // the part of free_bytes that new keys do not get
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

  // Returns the offset in the region of a piece of `bytes` (those of a size class), or 0 if there is none without
  // moving others.
  uint64_t Allocate(int partition, uint64_t bytes, Claim claim) {
    if (bytes <= kSmallShape.most_bytes) {
      const auto cells = static_cast<uint32_t>(bytes >> kSmallShape.cell_shift);
      const BlockSet::Piece piece = small_[static_cast<size_t>(partition)]->set.Allocate(cells);
      if (piece.block != nullptr) return piece.offset();
      return AllocateSmall(partition, cells, claim);
    }
    return AllocateShared(partition, bytes, claim);
  }
  // `bytes`: as passed to Allocate().
  void Free(int partition, uint64_t offset, uint64_t bytes);

  // Lends the spare (spare.h) to an overwrite that needs no more room than the old item's piece of `bytes` and found
  // none elsewhere. Returns 0 if the spare is lent already, or too short. It stays too short if SpareServes() is false.
  uint64_t Lend(int partition, uint64_t bytes);
  bool SpareServes(uint64_t bytes) const { return UnitsFor(bytes) <= spare_units_.value(); }
  // Returns whether a piece of the partition is the spare.
  bool IsLent(uint64_t offset) const { return offset / kUnitBytes == lent_unit_.value(); }
  bool spare_has_home() const { return spare_homes_.value() != 0; }
  // The item in the spare was published. The piece `home`, as long as its own, is kept for it instead of freed.
  void KeepHome(uint64_t home);

  // A pinned piece is not moved.
  void Pin(uint64_t offset) { AddPins(offset, 1); }
  void Unpin(uint64_t offset) { AddPins(offset, -1); }

  // The partition's first piece of this kind at `*from` or after it. A piece in separate units counts as the kind for
  // their length. 0: there is none, or `*looks`, which every step decreases, is 0; then continue at `*from`. Includes
  // pieces that have no item, or none yet.
  uint64_t NextPiece(int partition, BlockKind kind, uint64_t* from, uint32_t* looks) const;

  // For a member of a group, also where memory is small: new keys leave what a backup needs whose items lie in other
  // places, beside what it sets aside. REQUIRES nothing is allocated yet.
  void KeepForCopies() { reserve_ = std::max(reserve_, kLeastForCopiesUnits); }
  // Sets units aside for the index: new keys and copies leave them free. Any thread.
  void SetAsideForIndex(uint64_t units) { aside_units_ = units; }
  // Returns whether that many units are free, and compaction has what it needs. Any thread.
  bool HasUnitsAside() const { return free_units_.value() >= Leaves(Claim::kCopy); }
  // Units that reports of room for copies leave out: for overwrites that are not committed, and for a new block of each
  // partition. In small memory these come out of the primary's reserve.
  uint64_t LeftOfCopies() const {
    const uint64_t least = Leaves(Claim::kCopy);
    return std::max(least, std::min(least + kSecondCopyUnits + small_.size(), reserve_ * 7 / 8));
  }
  // The longest piece, if pieces may take this many of the units that are free now. Longer spares included.
  uint64_t LongestCopy(uint64_t units);
  // Returns whether the spare is lent to an item that is not published yet: until it is, no overwrite gets the spare.
  // Any thread.
  bool SpareAwaitsItem() const { return lent_unit_.value() != 0 && spare_homes_.value() == 0; }

  // Returns the offset of a unit, whose bytes are arbitrary, or 0.
  uint64_t AllocateIndexUnit();
  void FreeIndexUnit(uint64_t offset);

  HeapStats stats() const;
  // The longest piece, up to `most_bytes`, for which a new key would get units now. Includes the cost of a longer spare
  // and of the units kept free. Holes in blocks do not count. 0: none.
  uint64_t LongestPiece(uint64_t most_bytes);

 private:
  friend class Compactor;
  friend class HeapRecovery;

  struct alignas(64) Small {
    explicit Small(UnitLoad* loads) : set(BlockKind::kSmall, loads) {}
    BlockSet set;
  };

  uint64_t AllocateSmall(int partition, uint32_t cells, Claim claim);
  uint64_t AllocateShared(int partition, uint64_t bytes, Claim claim);
  uint64_t AllocateRun(int partition, uint64_t units, Claim claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeLent(int partition, uint64_t bytes);
  // Makes the spare long enough for overwrites of a piece of `bytes`. Returns false if there are no units for it.
  bool ProvideSpare(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether a new key would get this many contiguous units. Changes nothing.
  bool HasUnitsFor(uint64_t units) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Number of units by which the spare would grow.
  uint64_t SpareGrowth(uint64_t bytes) const;
  // Returns whether the spare cannot be replaced now: units of an open window are neither given nor taken.
  bool SpareStays() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return spare_.lent() || (spare_.first < window_end_ && window_first_ < spare_.first + spare_.units);
  }
  void TrimSpare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLoan() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddPins(uint64_t offset, int n);
  uint64_t NextSharedPiece(int partition, BlockKind kind, uint64_t first_unit, uint64_t from, uint32_t* looks) const;

  // Provides an extent at hand for a piece of `cells`, from a hole or a new block.
  bool Refill(BlockSet* set, BlockKind kind, uint8_t owner, uint32_t cells, Claim claim)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Block* NewBlock(BlockKind kind, uint8_t owner, Claim claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Retire(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  BlockSet* SharedSet(BlockKind kind) { return kind == BlockKind::kMedium ? &medium_ : &large_; }

  bool MayTake(uint64_t units, Claim claim) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return units_.free() >= units + Leaves(claim);
  }
  // Number of units that the claim must leave free beside the spare, if the spare were longer by `growth`.
  uint64_t Leaves(Claim claim, uint64_t growth = 0) const {
    if (claim == Claim::kOverwrite) return floor_;
    if (claim == Claim::kCompaction) return 0;
    const uint64_t with_aside = floor_ + aside_units_.value();
    if (claim != Claim::kNewKey) return with_aside;
    return std::max({reserve_ - std::min(reserve_, spare_units_.value() + growth), kLeastReserveUnits, with_aside});
  }
  void SetUse(uint64_t first, uint64_t units, MapWord word, uint8_t load) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveUnits(uint64_t first, uint64_t units) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static constexpr uint64_t kLeastReserveUnits = 8, kSecondCopyUnits = 8, kLeastForCopiesUnits = 20;
  static constexpr uint64_t UnitsFor(uint64_t bytes) { return (bytes + kUnitBytes - 1) / kUnitBytes; }

  char* const region_;
  const RegionHeader header_;
  const uint64_t first_unit_, units_end_;
  uint64_t reserve_, floor_;  // units
  const uint64_t most_spare_;
  const std::unique_ptr<UnitLoad[]> loads_;
  std::vector<std::unique_ptr<Small>> small_;  // by partition
  // The block of each unit. An entry is written with the mutex held, while the unit has no piece. It is read by callers
  // that own a piece there.
  std::vector<Block*> block_of_;

  mutable absl::Mutex mutex_;  // taken under a partition's lock, held for microseconds
  Units units_ ABSL_GUARDED_BY(mutex_);
  BlockSet medium_, large_;  // also guarded by mutex_, except for their figures
  std::vector<std::unique_ptr<Block>> all_blocks_ ABSL_GUARDED_BY(mutex_);
  std::vector<Block*> spare_blocks_[2] ABSL_GUARDED_BY(mutex_);  // unused Block objects: small, shared
  Figure free_units_, runs_, run_units_, index_units_, run_used_bytes_;
  Figure window_held_;  // free units of the window
  Figure aside_units_;  // see SetAsideForIndex()
  Spare spare_ ABSL_GUARDED_BY(mutex_);
  ClassCounts long_pieces_ ABSL_GUARDED_BY(mutex_);  // of large items and runs
  Figure spare_units_, lent_unit_, spare_homes_;

  // Units that are being emptied: units that become free within the window stay out of use.
  uint64_t window_first_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t window_end_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_HEAP_HEAP_H_
