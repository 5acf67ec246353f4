// Makes room by moving items: empties blocks, so that their holes become whole units again.
//
// Three ways, cheapest first:
//   * the sparsest block of the caller's partition is emptied into holes of the others, or densely into a new block;
//   * the same in another partition, or among the shared blocks;
//   * if units are free but not contiguous: the window of units with the least in use is emptied block by block.
//
// All work is done in steps that a StepBudget bounds, under the caller's partition's lock. Another partition's lock is
// only tried; if that fails, the step does something else or nothing. Blocks that were found not worth moving (each
// unit would cost more than kMostMovedForAUnit) are not tried again before more has been freed there.
//
// Thread safety: any thread.
#ifndef FARLOOK_KV_HEAP_COMPACTOR_H_
#define FARLOOK_KV_HEAP_COMPACTOR_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kv/heap/figure.h"
#include "kv/heap/heap.h"
#include "kv/heap/partition_locks.h"

namespace farlook::kv {

// The work that one call may do.
struct StepBudget {
  uint64_t bytes = 256 << 10;  // to copy
  uint64_t items = 384;        // to move, or to look at
  static constexpr uint64_t kHolesForAnItem = 32;

  bool left() const { return bytes > 0 && items > 0; }
  // Accounts for the holes that were looked at to find one.
  void Look(uint64_t holes) { items -= std::min(items, holes / kHolesForAnItem); }
  void Use(uint64_t n) {
    bytes -= n < bytes ? n : bytes;
    items -= items > 0;
  }
};

// A partition, as the compactor sees it. Called under its lock.
class ItemMover {
 public:
  virtual ~ItemMover() = default;
  // The slot that leads to the item in the piece at `offset`, or null if there is none (the item is not published yet).
  virtual char* SlotOfItemAt(uint64_t offset) = 0;
  // Copies about `most` more bytes of that item to another piece of its size; readers do not accept the copy. `*copied`
  // is the progress. Returns true when all is copied and MoveCopied() must follow.
  virtual bool CopyItem(uint64_t from, uint64_t to, uint64_t most, uint64_t* copied) = 0;
  // Makes the copy the item.
  virtual void MoveCopied(char* slot, uint64_t from, uint64_t to) = 0;
  void MoveItem(char* slot, uint64_t from, uint64_t to) {
    uint64_t copied = 0;
    CopyItem(from, to, ~uint64_t{0}, &copied);
    MoveCopied(slot, from, to);
  }
  // Evicts the next victim. Returns the number of bytes freed; 0: none, in particular if the table does not evict.
  virtual uint64_t EvictOldest(int64_t now_ns) = 0;
  // All of its items that had expired by this time of the table's clock, in microseconds, were removed or handed over.
  // Any thread.
  virtual uint64_t SweptUs() const = 0;
};

class Compactor {
 public:
  // Both outlive it.
  Compactor(Heap* heap, PartitionLocks* locks) : heap_(heap), locks_(locks) {}
  // Called before any step, for partitions 0, 1, 2 .. in this order.
  void Add(ItemMover* partition) {
    movers_.push_back(partition);
    works_.push_back(std::make_unique<Work>());
  }

  // Works towards room for a piece of `bytes`, for a caller that holds this partition's lock. Returns true when a block
  // was emptied or the budget is used up: then try to allocate. False: no more can be done.
  bool Step(int partition, uint64_t bytes, Claim claim, StepBudget* budget);
  // Works towards a whole spare, which can be lent again (spare.h). False: it is whole.
  bool StepForSpare(int partition, StepBudget* budget);
  // Works towards a unit for the index.
  bool StepForUnit(int partition, StepBudget* budget);
  // Works towards the units that are set aside for the index.
  bool StepForAside(int partition, StepBudget* budget);
  // Has all blocks tried again that were found not worth moving. Under the locks of no partition.
  void ForgetStuck();
  // Ends the current call. If the room was `made`, the moves were worth it.
  void Done(int partition, bool made);
  // Returns whether Step would find nothing to do, according to the figures.
  bool Hopeless(int partition, uint64_t bytes, Claim claim) const;

  // Evicts an item of the next partition that has one and whose lock is free. Returns the number of bytes freed.
  uint64_t EvictAnywhere(int self, int64_t now_ns);
  // Returns true if so few holes of this kind are left that evicting is cheaper than compacting.
  bool HolesAreFew(int partition, uint64_t bytes) const;

  // Returns whether all partitions have removed what had expired by `time_us`. Any thread.
  bool Swept(uint64_t time_us) const {
    return std::all_of(movers_.begin(), movers_.end(), [=](const ItemMover* m) { return m->SweptUs() >= time_us; });
  }

  bool HopelessForUnit() const { return CouldBeFree() < 1 + heap_->Leaves(Claim::kOverwrite); }

  // The longest piece, up to `most_bytes`, for which a new key could get room by moving, if moving could fill all
  // blocks. An estimate from figures; it requires enough contiguous units that hold nothing immovable.
  uint64_t LongestPiece(uint64_t most_bytes) const;

  // Number of units that are free, or that moving certainly frees; cheap.
  uint64_t SureUnits() const;

  // Bytes that compaction of holes could free; cheap.
  uint64_t reclaimable_bytes() const;

 private:
  // The account of a set of blocks: the bytes moved since moving last had a result.
  struct Chain {
    uint64_t least_blocks = 0;
    uint64_t least_free = 0;  // bytes, since the account was opened
    uint64_t used_bytes = 0;  // of items, when it was opened
    uint64_t moved_bytes = 0;
    Figure stuck_bytes;  // holes that are not worth moving for
  };
  // Search for a window: the `length` units before `at` could be moved; `load` is the sum of their loads.
  struct Search {
    uint64_t at = 0, length = 0, load = 0;
    uint64_t best = 0, least = ~uint64_t{0};
  };
  struct alignas(64) Work {
    Chain chain;
    uint64_t steps = 0;  // of the current call
  };

  BlockSet& SetOf(int partition) const { return heap_->small_[static_cast<size_t>(partition)]->set; }
  Chain& ChainOf(int partition) const { return works_[static_cast<size_t>(partition)]->chain; }
  int partitions() const { return static_cast<int>(movers_.size()); }
  static uint64_t Reclaimable(const BlockSet& set, const Chain& chain);
  // Returns whether a unit, or a block's worth of units, could be freed.
  static bool Promises(const BlockSet& set, const Chain& chain);

  // Maximum number of consecutive steps without a move, before something else is tried.
  static constexpr int kMostFruitless = 64;

  // Number of units that could become free, according to the figures.
  uint64_t CouldBeFree() const;
  // Number of units that must be free for the claim.
  uint64_t Needed(uint64_t units, uint64_t bytes, Claim claim) const {
    const uint64_t growth = heap_->SpareGrowth(bytes);
    return units + growth + heap_->Leaves(claim, growth);
  }
  bool MakeUnits(int self, StepBudget* budget);
  bool StepSmall(int partition, StepBudget* budget);
  bool StepAnySmall(int self, StepBudget* budget);
  bool StepShared(int self, BlockKind kind, StepBudget* budget);
  bool StepWindow(int self, uint64_t units, uint64_t alignment, StepBudget* budget);

  // Moves pieces out of the victim of a partition whose lock is held. Returns false if a piece cannot be moved.
  bool EmptySmallVictim(int partition, StepBudget* budget);
  // The same for a shared set; pieces of partitions whose locks are taken stay. Sets *moved if a piece was moved.
  bool EmptySharedVictim(int self, BlockKind kind, StepBudget* budget, bool* moved);
  bool MoveShared(BlockKind kind, Block* block, uint32_t cell, uint32_t cells, int owner, bool* no_room);
  static void Account(BlockSet* set, Chain* chain, uint64_t moved_bytes);

  // Continues the search for the best window, and opens it when all loads were seen. Returns false if there is none.
  bool FindWindow(uint64_t units, uint64_t alignment, StepBudget* budget) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_);
  bool EmptyWindowUnit(int self, uint64_t unit, StepBudget* budget) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_);
  void CloseWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_);

  Heap* const heap_;
  PartitionLocks* const locks_;
  std::vector<ItemMover*> movers_;
  std::atomic<uint32_t> evicting_{0};         // the next partition's turn, about
  std::vector<std::unique_ptr<Work>> works_;  // each under its partition's lock, except stuck_bytes

  absl::Mutex shared_;                                  // only ever tried: one thread at a time works on shared blocks
  Chain shared_chains_[2];                              // medium, large
  uint64_t window_units_ ABSL_GUARDED_BY(shared_) = 0;  // 0: none is open
  uint64_t window_at_ ABSL_GUARDED_BY(shared_) = 0;     // units before it are empty
  Search search_ ABSL_GUARDED_BY(shared_);
  uint64_t search_units_ ABSL_GUARDED_BY(shared_) = 0;  // wanted length; 0: no search in progress
  int fruitless_ ABSL_GUARDED_BY(shared_) = 0;          // steps in which nothing could be moved
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_HEAP_COMPACTOR_H_
