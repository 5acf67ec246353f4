// Makes room by moving items: empties blocks, so that what was in their holes becomes whole units again.
//
// Three ways, cheapest first:
//   * the sparsest block of the caller's partition is emptied into holes of the others, or densely into a new block;
//   * the same in another partition, or among the shared blocks;
//   * where units are free but not contiguous: a window of units in which the least is in use is emptied block by block.
//
// All work is done in steps that a Budget bounds, under the caller's partition's lock. Where another partition's lock
// is needed it is tried; who does not get it does something else, or nothing. What was found not to be worth moving
// (each unit would cost more than kMostMovedForAUnit) is not tried again before more has been freed there.
//
// Thread safety: any thread.
#ifndef FARLOOK_KV_COMPACTOR_H_
#define FARLOOK_KV_COMPACTOR_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kv/figure.h"
#include "kv/heap.h"
#include "kv/partition_locks.h"

namespace farlook::kv {

// What one call may do.
struct StepBudget {
  uint64_t bytes = 256 << 10;  // to copy
  uint64_t items = 384;        // to move, or to look at
  static constexpr uint64_t kHolesForAnItem = 32;

  bool left() const { return bytes > 0 && items > 0; }
  // So many holes were looked at, to find one.
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
  // The slot that leads to the item in the piece at `offset`, or null: nothing does (it is not published yet).
  virtual char* SlotOfItemAt(uint64_t offset) = 0;
  // Copies some `most` bytes more of that item to another piece of its size, as one that nobody believes; `*copied`
  // says how far it is. True: all is copied, and MoveCopied() is due.
  virtual bool CopyItem(uint64_t from, uint64_t to, uint64_t most, uint64_t* copied) = 0;
  // The copy is the item now.
  virtual void MoveCopied(char* slot, uint64_t from, uint64_t to) = 0;
  void MoveItem(char* slot, uint64_t from, uint64_t to) {
    uint64_t copied = 0;
    CopyItem(from, to, ~uint64_t{0}, &copied);
    MoveCopied(slot, from, to);
  }
  // Evicts the item that may go first. How many bytes that gave; 0: none, above all where nothing is evicted.
  virtual uint64_t EvictOldest(int64_t now_ns) = 0;
};

class Compactor {
 public:
  // Both outlive it.
  Compactor(Heap* heap, PartitionLocks* locks) : heap_(heap), locks_(locks) {}
  // Before any step: of partition 0, 1, 2 ..
  void Add(ItemMover* partition) {
    movers_.push_back(partition);
    works_.push_back(std::make_unique<Work>());
  }

  // Something towards room for a piece of so many bytes, for a caller that has this partition's lock. Returns when a
  // block was emptied, or the budget is used up: try to allocate then. False: no more can be done.
  bool Step(int partition, uint64_t bytes, Claim claim, StepBudget* budget);
  // The same towards that the spare can be lent again (spare.h). False: it can be.
  bool StepForSpare(int partition, StepBudget* budget);
  // The same towards a unit for the index.
  bool StepForUnit(int partition, StepBudget* budget);
  // The call under way has ended. If the room was `made`, what was moved for it was worth it.
  void Done(int partition, bool made);
  // Whether Step would find nothing to do, as far as figures tell.
  bool Hopeless(int partition, uint64_t bytes, Claim claim) const;

  // Evicts an item of the next partition that has one and whose lock is to be had. How many bytes that gave.
  uint64_t EvictAnywhere(int self, int64_t now_ns);
  // In how few holes of a kind what is wanted is not to be looked for by moving, as evicting costs less.
  bool HolesAreFew(int partition, uint64_t bytes) const;

  bool HopelessForUnit() const { return CouldBeFree() < 1 + heap_->Leaves(Claim::kOverwrite); }

  // The longest piece, up to `most_bytes`, for which a new key would be given room after moving, were all moving to end
  // with full blocks: as far as figures tell, and where what is never moved leaves enough units side by side.
  uint64_t LongestPiece(uint64_t most_bytes) const;

  // What holes could give, in bytes; cheap.
  uint64_t reclaimable_bytes() const;

 private:
  // Of a set of blocks: how much was moved since that last did good.
  struct Chain {
    uint64_t least_blocks = 0;
    uint64_t least_free = 0;  // bytes, since the account was begun
    uint64_t used_bytes = 0;  // of items, when it was
    uint64_t moved_bytes = 0;
    Figure stuck_bytes;  // holes that were not worth it
  };
  // For a window: `length` units before `at` could be moved, with a sum of loads.
  struct Search {
    uint64_t at = 0, length = 0, load = 0;
    uint64_t best = 0, least = ~uint64_t{0};
  };
  struct alignas(64) Work {
    Chain chain;
    uint64_t steps = 0;  // of the call under way
  };

  BlockSet& SetOf(int partition) const { return heap_->small_[static_cast<size_t>(partition)]->set; }
  Chain& ChainOf(int partition) const { return works_[static_cast<size_t>(partition)]->chain; }
  int partitions() const { return static_cast<int>(movers_.size()); }
  static uint64_t Reclaimable(const BlockSet& set, const Chain& chain);
  // Whether there is hope for a unit, or a block's worth of units.
  static bool Promises(const BlockSet& set, const Chain& chain);

  // Steps in a row in which nothing could be moved, before something else is tried.
  static constexpr int kMostFruitless = 64;

  // Units, as far as figures tell.
  uint64_t CouldBeFree() const;
  // That must be free for the claim.
  uint64_t Needed(uint64_t units, uint64_t bytes, Claim claim) const {
    const uint64_t growth = heap_->SpareGrowth(bytes);
    return units + growth + heap_->Leaves(claim, growth);
  }
  bool MakeUnits(int self, StepBudget* budget);
  bool StepSmall(int partition, StepBudget* budget);
  bool StepAnySmall(int self, StepBudget* budget);
  bool StepShared(int self, BlockKind kind, StepBudget* budget);
  bool StepWindow(int self, uint64_t units, uint64_t alignment, StepBudget* budget);

  // Moves pieces out of the victim of a partition's lock that is held. False: a piece cannot be moved.
  bool EmptySmallVictim(int partition, StepBudget* budget);
  // The same of a shared set; pieces of partitions whose locks are not to be had stay. Sets *moved if one was moved.
  bool EmptySharedVictim(int self, BlockKind kind, StepBudget* budget, bool* moved);
  bool MoveShared(BlockKind kind, Block* block, uint32_t cell, uint32_t cells, int owner, bool* no_room);
  static void Account(BlockSet* set, Chain* chain, uint64_t moved_bytes);

  // Looks on for the best window, and opens it when all loads were seen. False: there is none.
  bool FindWindow(uint64_t units, uint64_t alignment, StepBudget* budget) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_);
  bool EmptyWindowUnit(int self, uint64_t unit, StepBudget* budget) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_);
  void CloseWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_);

  Heap* const heap_;
  PartitionLocks* const locks_;
  std::vector<ItemMover*> movers_;
  std::atomic<uint32_t> evicting_{0};         // whose turn it is, about
  std::vector<std::unique_ptr<Work>> works_;  // each under its partition's lock, but for stuck_bytes

  absl::Mutex shared_;                                  // only ever tried: one at a time works on what all share
  Chain shared_chains_[2];                              // medium, large
  uint64_t window_units_ ABSL_GUARDED_BY(shared_) = 0;  // 0: none is open
  uint64_t window_at_ ABSL_GUARDED_BY(shared_) = 0;     // units before it are empty
  Search search_ ABSL_GUARDED_BY(shared_);
  uint64_t search_units_ ABSL_GUARDED_BY(shared_) = 0;  // what for; 0: no search is under way
  int fruitless_ ABSL_GUARDED_BY(shared_) = 0;          // steps in which nothing could be moved
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_COMPACTOR_H_
