#include "kv/heap/compactor.h"

#include <algorithm>

namespace farlook::kv {
namespace {

// Maximum number of bytes moved to free a unit; for a block, multiplied by its number of units.
constexpr uint64_t kMostMovedForAUnit = 2 << 20;
// Blocks with a smaller share of free cells (1 / kLeastFreeShare) are not emptied; nor are sets with a smaller share of
// holes.
constexpr uint64_t kLeastFreeShare = 64;
// If items of many lengths are evicted, this fraction (1 / kHolesOfACache) of the memory is holes: then little needs to
// be moved.
constexpr uint64_t kHolesOfACache = 12;
// More holes than this share (1 / kSureShare) of a set's blocks are certainly worth moving for.
constexpr uint64_t kSureShare = 16;
// Bounds the steps for one piece, whatever other threads do in between.
constexpr uint64_t kMostSteps = 10'000;

uint64_t BytesOf(const Block& block, uint32_t cells) { return uint64_t{cells} << block.shape().cell_shift; }

}  // namespace

uint64_t Compactor::Reclaimable(const BlockSet& set, const Chain& chain) {
  const uint64_t free = set.free_bytes(), stuck = chain.stuck_bytes.value();
  return free > stuck ? free - stuck : 0;
}

bool Compactor::Promises(const BlockSet& set, const Chain& chain) {
  const uint64_t block = set.shape().bytes();
  return Reclaimable(set, chain) >= block && set.free_bytes() >= set.blocks() * block / kLeastFreeShare;
}

uint64_t Compactor::reclaimable_bytes() const {
  uint64_t sum = Reclaimable(heap_->medium_, shared_chains_[0]) + Reclaimable(heap_->large_, shared_chains_[1]);
  for (int i = 0; i < partitions(); ++i) sum += Reclaimable(SetOf(i), ChainOf(i));
  return sum;
}

bool Compactor::Hopeless(int partition, uint64_t bytes, Claim claim) const {
  const BlockKind kind = KindFor(bytes);
  const uint64_t units = kind == BlockKind::kRun ? Heap::UnitsFor(bytes) : ShapeOf(kind).units;
  if (kind == BlockKind::kSmall && Reclaimable(SetOf(partition), ChainOf(partition)) >= 2 * bytes) return false;
  if (kind == BlockKind::kMedium && Reclaimable(heap_->medium_, shared_chains_[0]) >= 2 * bytes) return false;
  if (kind == BlockKind::kLarge && Reclaimable(heap_->large_, shared_chains_[1]) >= 2 * bytes) return false;
  return CouldBeFree() < Needed(units, bytes, claim);
}

uint64_t Compactor::LongestPiece(uint64_t most_bytes) const {
  const uint64_t most = Heap::UnitsFor(most_bytes), could = CouldBeFree();
  // Stretches that could hold an item and a longer spare, if everything movable were moved.
  std::vector<uint64_t> stretches;  // units
  uint64_t length = 0, enough = 0;
  for (uint64_t unit = heap_->first_unit_; unit <= heap_->units_end_ && enough < 2; ++unit) {
    if (unit < heap_->units_end_ && heap_->loads_[unit].Get() != UnitLoad::kStays) {
      ++length;
    } else if (length > 0) {
      stretches.push_back(length);
      enough += length / most;
      length = 0;
    }
  }
  const auto fits = [&](uint64_t units) {
    const uint64_t bytes = units * kUnitBytes;
    if (could < Needed(units, bytes, Claim::kNewKey)) return false;
    uint64_t wanted = heap_->SpareGrowth(bytes) > 0 ? 2 : 1;
    for (const uint64_t stretch : stretches) wanted -= std::min(wanted, stretch / units);
    return wanted == 0;
  };
  if (fits(most)) return most_bytes;
  uint64_t good = 0, bad = most;
  while (bad - good > 1) {
    const uint64_t units = good + (bad - good) / 2;
    (fits(units) ? good : bad) = units;
  }
  return good * kUnitBytes;
}

bool Compactor::HolesAreFew(int partition, uint64_t bytes) const {
  const BlockKind kind = KindFor(bytes);
  if (kind == BlockKind::kRun) return false;
  const BlockSet& set = kind == BlockKind::kSmall ? SetOf(partition) : *heap_->SharedSet(kind);
  return set.free_bytes() < std::max(2 * bytes, set.blocks() * set.shape().bytes() / kHolesOfACache);
}

uint64_t Compactor::EvictAnywhere(int self, int64_t now_ns) {
  for (int tried = 0; tried < partitions(); ++tried) {
    const auto i = static_cast<int>(evicting_.fetch_add(1, std::memory_order_relaxed) % movers_.size());
    const OthersLock others(i == self ? nullptr : locks_->of(i));
    if (!others.held()) continue;
    const uint64_t bytes = movers_[static_cast<size_t>(i)]->EvictOldest(now_ns);
    if (bytes > 0) return bytes;
  }
  return 0;
}

uint64_t Compactor::CouldBeFree() const {
  uint64_t could = heap_->free_units_.value() + heap_->window_held_.value();
  for (int i = 0; i < partitions(); ++i) {
    if (Promises(SetOf(i), ChainOf(i))) could += Reclaimable(SetOf(i), ChainOf(i)) / kUnitBytes;
  }
  for (const BlockSet* set : {&heap_->medium_, &heap_->large_}) {
    const Chain& chain = shared_chains_[set == &heap_->large_];
    if (Promises(*set, chain)) could += Reclaimable(*set, chain) / set->shape().bytes() * set->shape().units;
  }
  return could;
}

uint64_t Compactor::SureUnits() const {
  uint64_t units = heap_->free_units_.value() + heap_->window_held_.value();
  const auto add = [&units](const BlockSet& set, const Chain& chain) {
    const uint64_t holes = Reclaimable(set, chain), few = set.blocks() * set.shape().bytes() / kSureShare;
    if (holes > few) units += (holes - few) / set.shape().bytes() * set.shape().units;
  };
  for (int i = 0; i < partitions(); ++i) add(SetOf(i), ChainOf(i));
  add(heap_->medium_, shared_chains_[0]);
  add(heap_->large_, shared_chains_[1]);
  return units;
}

void Compactor::Account(BlockSet* set, Chain* chain, uint64_t moved_bytes) {
  // Moving has had a result if a block became free, or was filled with new items since. Others' deletes make new holes.
  // Each of these restarts the account.
  const uint64_t block = set->shape().bytes();
  const uint64_t used = set->used_cells() << set->shape().cell_shift;
  if (chain->moved_bytes == 0 || set->blocks() < chain->least_blocks || used >= chain->used_bytes + block ||
      set->free_bytes() > chain->least_free + 4 * block) {
    chain->least_blocks = set->blocks();
    chain->least_free = set->free_bytes();
    chain->used_bytes = used;
    chain->moved_bytes = 0;
  }
  chain->least_free = std::min(chain->least_free, set->free_bytes());
  chain->moved_bytes += moved_bytes;
  if (chain->moved_bytes > kMostMovedForAUnit * set->shape().units) {
    chain->stuck_bytes = set->free_bytes();
    chain->moved_bytes = 0;
  }
  if (chain->stuck_bytes.value() > set->free_bytes()) chain->stuck_bytes = set->free_bytes();
}

bool Compactor::Step(int partition, uint64_t bytes, Claim claim, StepBudget* budget) {
  Work& work = *works_[static_cast<size_t>(partition)];
  if (++work.steps > kMostSteps || Hopeless(partition, bytes, claim)) return false;
  const BlockKind kind = KindFor(bytes);
  if (kind == BlockKind::kSmall && Reclaimable(SetOf(partition), work.chain) >= 2 * bytes &&
      StepSmall(partition, budget)) {
    return true;
  }
  if (kind == BlockKind::kMedium || kind == BlockKind::kLarge) {
    const Chain& chain = shared_chains_[kind == BlockKind::kLarge];
    if (Reclaimable(*heap_->SharedSet(kind), chain) >= 2 * bytes && StepShared(partition, kind, budget)) return true;
  }
  const uint64_t units = kind == BlockKind::kRun ? Heap::UnitsFor(bytes) : ShapeOf(kind).units;
  const uint64_t free = heap_->free_units_.value(), held = heap_->window_held_.value();
  if (free + held >= Needed(units, bytes, claim)) {
    // The spare first: before it can grow it must be whole, and then it needs as much room as the item.
    if (heap_->SpareGrowth(bytes) > 0 && StepForSpare(partition, budget)) return true;
    return StepWindow(partition, units, kind == BlockKind::kRun ? 1 : units, budget);
  }
  return MakeUnits(partition, budget);
}

void Compactor::Done(int partition, bool made) {
  Work& work = *works_[static_cast<size_t>(partition)];
  work.steps = 0;
  if (!made) return;
  work.chain.moved_bytes = 0;
  absl::MutexLock lock(&heap_->mutex_);
  for (Chain& chain : shared_chains_) chain.moved_bytes = 0;
}

bool Compactor::StepForSpare(int self, StepBudget* budget) {
  Spare spare;
  {
    absl::MutexLock lock(&heap_->mutex_);
    spare = heap_->spare_;
  }
  if (!spare.lent()) return false;
  const OthersLock others(spare.owner == self ? nullptr : locks_->of(spare.owner));
  if (!others.held()) {
    budget->items = 0;
    return true;
  }
  {
    absl::MutexLock lock(&heap_->mutex_);
    if (heap_->spare_.owner != spare.owner) return true;  // another loan since
    spare = heap_->spare_;
  }
  // From here on the spare does not change, as its partition's lock is held.
  if (!spare.lent()) return true;
  ItemMover* mover = movers_[static_cast<size_t>(spare.owner)];
  char* slot = spare.home == 0 ? nullptr : mover->SlotOfItemAt(spare.offset());
  if (slot == nullptr) {  // its value is still being written
    budget->items = 0;
    return true;
  }
  const uint64_t before = spare.copied;
  const bool whole = mover->CopyItem(spare.offset(), spare.home, budget->bytes, &spare.copied);
  budget->Use(spare.copied - before);
  if (whole) {
    mover->MoveCopied(slot, spare.offset(), spare.home);
    heap_->Unpin(spare.home);
  }
  absl::MutexLock lock(&heap_->mutex_);
  heap_->spare_.copied = spare.copied;
  if (whole) heap_->EndLoan();
  return true;
}

bool Compactor::StepForUnit(int partition, StepBudget* budget) {
  Work& work = *works_[static_cast<size_t>(partition)];
  if (++work.steps > kMostSteps || HopelessForUnit()) return false;
  if (heap_->free_units_.value() >= 1 + heap_->Leaves(Claim::kOverwrite)) return true;
  return MakeUnits(partition, budget);
}

bool Compactor::StepForAside(int partition, StepBudget* budget) {
  Work& work = *works_[static_cast<size_t>(partition)];
  if (++work.steps > kMostSteps || CouldBeFree() < heap_->Leaves(Claim::kCopy)) return false;
  if (MakeUnits(partition, budget)) return true;
  if (heap_->window_held_.value() == 0 || !shared_.TryLock()) return false;
  CloseWindow();  // its free units may be enough
  shared_.Unlock();
  return true;
}

void Compactor::ForgetStuck() {
  for (int i = 0; i < partitions(); ++i) {
    const LockedPartition lock(locks_->of(i));
    ChainOf(i).stuck_bytes = 0;
    ChainOf(i).moved_bytes = 0;
    works_[static_cast<size_t>(i)]->steps = 0;
  }
  absl::MutexLock lock(&heap_->mutex_);
  for (Chain& chain : shared_chains_) {
    chain.stuck_bytes = 0;
    chain.moved_bytes = 0;
  }
}

bool Compactor::MakeUnits(int self, StepBudget* budget) {
  return StepAnySmall(self, budget) ||
         (Promises(heap_->medium_, shared_chains_[0]) && StepShared(self, BlockKind::kMedium, budget)) ||
         (Promises(heap_->large_, shared_chains_[1]) && StepShared(self, BlockKind::kLarge, budget));
}

bool Compactor::StepSmall(int partition, StepBudget* budget) {
  BlockSet& set = SetOf(partition);
  Chain& chain = ChainOf(partition);
  if (set.victim() == nullptr) {
    Block* block = set.Sparsest(kSmallShape.cells / kLeastFreeShare);
    if (block == nullptr) {
      chain.stuck_bytes = set.free_bytes();
      return false;
    }
    if (set.Bar(block)) {
      absl::MutexLock lock(&heap_->mutex_);
      heap_->Retire(block);
      return true;
    }
  }
  const uint64_t before = budget->bytes;
  const bool ok = EmptySmallVictim(partition, budget);
  Account(&set, &chain, before - budget->bytes);
  if (ok) return true;
  set.Bar(nullptr);
  chain.stuck_bytes = set.free_bytes();
  return false;
}

bool Compactor::EmptySmallVictim(int partition, StepBudget* budget) {
  BlockSet& set = SetOf(partition);
  ItemMover* mover = movers_[static_cast<size_t>(partition)];
  uint32_t cell = 0;
  set.Unpark();
  set.TakeLooks();  // discard those of others' puts
  while (set.victim() != nullptr && budget->left()) {
    Block* block = set.victim();
    cell = block->NextPiece(cell);
    if (cell == block->cells()) return false;
    const uint64_t from = block->OffsetOf(cell), bytes = BytesOf(*block, block->CellsOfPiece(cell));
    char* slot = mover->SlotOfItemAt(from);
    const uint64_t to = slot == nullptr ? 0 : heap_->Allocate(partition, bytes, Claim::kCompaction);
    if (to == 0) return false;
    mover->MoveItem(slot, from, to);
    heap_->Free(partition, from, bytes);
    budget->Use(bytes);
    budget->Look(set.TakeLooks());
  }
  if (set.victim() != nullptr) set.Park();
  return true;
}

bool Compactor::StepAnySmall(int self, StepBudget* budget) {
  // Choose the partition with the most bytes in holes whose lock is free.
  uint64_t tried = 0;  // partitions
  while (true) {
    int best = -1;
    uint64_t most = 0;
    for (int i = 0; i < partitions(); ++i) {
      const uint64_t bytes = Reclaimable(SetOf(i), ChainOf(i));
      if ((tried >> i & 1) == 0 && bytes > most && Promises(SetOf(i), ChainOf(i))) {
        best = i;
        most = bytes;
      }
    }
    if (best < 0) break;
    tried |= uint64_t{1} << best;
    if (best == self) {
      if (StepSmall(self, budget)) return true;
    } else if (locks_->of(best)->TryLock()) {
      const bool ok = StepSmall(best, budget);
      locks_->of(best)->Unlock();
      if (ok) return true;
    } else {
      budget->items = 0;  // the next call may get the lock
      return true;
    }
  }
  return false;
}

bool Compactor::StepShared(int self, BlockKind kind, StepBudget* budget) {
  if (!shared_.TryLock()) {
    budget->items = 0;  // another thread is working on it
    return true;
  }
  BlockSet* set = heap_->SharedSet(kind);
  Chain& chain = shared_chains_[kind == BlockKind::kLarge];
  bool chosen = true;
  {
    absl::MutexLock lock(&heap_->mutex_);
    if (set->victim() == nullptr) {
      Block* block = set->Sparsest(static_cast<uint32_t>(set->shape().cells / kLeastFreeShare));
      chosen = block != nullptr;
      if (chosen && set->Bar(block)) heap_->Retire(block);
    }
    set->Unpark();
    set->TakeLooks();  // discard those of others' puts
  }
  const uint64_t before = budget->bytes;
  bool moved = false;
  bool ok = chosen && EmptySharedVictim(self, kind, budget, &moved);
  fruitless_ = moved ? 0 : fruitless_ + 1;
  if (fruitless_ > kMostFruitless) ok = false;
  {
    absl::MutexLock lock(&heap_->mutex_);
    Account(set, &chain, before - budget->bytes);
    if (!ok) {
      set->Bar(nullptr);
      chain.stuck_bytes = set->free_bytes();
      fruitless_ = 0;
    }
    if (set->victim() != nullptr) set->Park();
  }
  shared_.Unlock();
  return ok;
}

bool Compactor::EmptySharedVictim(int self, BlockKind kind, StepBudget* budget, bool* moved) {
  BlockSet* set = heap_->SharedSet(kind);
  for (uint32_t cell = 0; budget->left(); ++cell) {
    Block* block;
    uint32_t cells = 0;
    int owner = 0;
    {
      absl::MutexLock lock(&heap_->mutex_);
      budget->Look(set->TakeLooks());
      block = set->victim();
      if (block == nullptr) return true;
      if (block->pinned > 0) return false;
      cell = block->NextPiece(cell);
      if (cell == block->cells()) break;
      cells = block->CellsOfPiece(cell);
      owner = block->OwnerOf(cell);
    }
    const OthersLock others(owner == self ? nullptr : locks_->of(owner));
    if (!others.held()) {
      budget->Use(0);
      continue;
    }
    bool no_room = false;
    if (MoveShared(kind, block, cell, cells, owner, &no_room)) {
      *moved = true;
      budget->Use(BytesOf(*block, cells));
    } else {
      budget->Use(0);
    }
    if (no_room) return false;
  }
  if (!*moved) budget->items = 0;
  return true;
}

bool Compactor::MoveShared(BlockKind kind, Block* block, uint32_t cell, uint32_t cells, int owner, bool* no_room) {
  {
    absl::MutexLock lock(&heap_->mutex_);
    // The piece may have been freed meanwhile; no new one has replaced it, as the block is the victim.
    if (heap_->SharedSet(kind)->victim() != block || block->NextPiece(cell) != cell) return false;
  }
  ItemMover* mover = movers_[static_cast<size_t>(owner)];
  const uint64_t from = block->OffsetOf(cell), bytes = BytesOf(*block, cells);
  char* slot = mover->SlotOfItemAt(from);
  const uint64_t to = slot == nullptr ? 0 : heap_->Allocate(owner, bytes, Claim::kCompaction);
  *no_room = to == 0;
  if (to == 0) return false;
  mover->MoveItem(slot, from, to);
  heap_->Free(owner, from, bytes);
  return true;
}

}  // namespace farlook::kv
