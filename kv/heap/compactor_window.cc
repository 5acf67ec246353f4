// Compaction when units are free but not contiguous: the window of units with the least in use is emptied block by
// block.
#include <algorithm>

#include "kv/heap/compactor.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kStepsOfAFailedWindow = 500;
// Number of loads examined in one step of the search for a window.
constexpr uint64_t kSearchedUnits = 16 << 10;

}  // namespace

bool Compactor::StepWindow(int self, uint64_t units, uint64_t alignment, StepBudget* budget) {
  if (!shared_.TryLock()) {
    budget->items = 0;
    return true;
  }
  bool ok = true;
  if (window_units_ != 0 && window_units_ != units) {
    CloseWindow();  // another length is wanted, or the window is no longer wanted
  }
  if (window_units_ == 0) ok = FindWindow(units, alignment, budget);
  while (ok && window_units_ != 0 && budget->left()) {
    uint64_t unit;
    {
      absl::MutexLock lock(&heap_->mutex_);
      unit = heap_->window_first_ + window_at_;
      if (window_at_ < window_units_ && heap_->block_of_[unit] == nullptr) {
        ++window_at_;
        continue;
      }
    }
    if (window_at_ == window_units_) {
      CloseWindow();
      break;
    }
    if (!EmptyWindowUnit(self, unit, budget) || fruitless_ > kMostFruitless) {
      // A unit that cannot be emptied now is not chosen again before its load changes.
      heap_->loads_[unit].Set(UnitLoad::kStays);
      works_[static_cast<size_t>(self)]->steps += kStepsOfAFailedWindow;
      fruitless_ = 0;
      CloseWindow();
    }
  }
  shared_.Unlock();
  return ok;
}

bool Compactor::EmptyWindowUnit(int self, uint64_t unit, StepBudget* budget) {
  Block* block;
  int owner;
  BlockKind kind;
  {
    absl::MutexLock lock(&heap_->mutex_);
    block = heap_->block_of_[unit];
    if (block == nullptr) return true;
    owner = block->partition;
    kind = block->kind();
    if (kind != BlockKind::kSmall) {
      BlockSet* set = heap_->SharedSet(kind);
      if (set->victim() != block && set->Bar(block)) {
        heap_->Retire(block);
        return true;
      }
      set->Unpark();
    }
  }
  if (kind != BlockKind::kSmall) {
    bool moved = false;
    const bool ok = EmptySharedVictim(self, kind, budget, &moved);
    fruitless_ = moved ? 0 : fruitless_ + 1;
    absl::MutexLock lock(&heap_->mutex_);
    BlockSet* set = heap_->SharedSet(kind);
    if (!ok) set->Bar(nullptr);
    if (set->victim() != nullptr) set->Park();
    return ok;
  }
  const OthersLock others(owner == self ? nullptr : locks_->of(owner));
  if (!others.held()) {
    budget->items = 0;
    ++fruitless_;
    return true;
  }
  bool ok = true;
  bool empty = false;
  BlockSet& set = SetOf(owner);
  {
    absl::MutexLock lock(&heap_->mutex_);
    if (heap_->block_of_[unit] == block) {  // units of a window are not reused, so it is the same block
      ok = block->pinned == 0;
      if (ok && set.victim() != block && set.Bar(block)) heap_->Retire(block);
    }
    empty = heap_->block_of_[unit] == nullptr;
  }
  if (ok && !empty) {
    ok = EmptySmallVictim(owner, budget);
    if (!ok) set.Bar(nullptr);
    fruitless_ = 0;
  }
  return ok;
}

bool Compactor::FindWindow(uint64_t units, uint64_t alignment, StepBudget* budget) {
  const uint64_t end = heap_->units_end_;
  if (search_units_ != units) search_ = Search{heap_->first_unit_};
  search_units_ = units;
  const auto load = [&](uint64_t unit) { return heap_->loads_[unit].Get(); };
  for (const uint64_t stop = std::min(end, search_.at + kSearchedUnits); search_.at < stop; ++search_.at) {
    const uint8_t here = load(search_.at);
    if (here == UnitLoad::kStays) {
      search_.length = 0;
      search_.load = 0;
      continue;
    }
    search_.load += here;
    if (search_.length == units) {
      search_.load -= std::min<uint64_t>(search_.load, load(search_.at - units));  // loads change meanwhile
    } else {
      ++search_.length;
    }
    const uint64_t first = search_.at + 1 - units;
    if (search_.length == units && first % alignment == 0 && search_.load < search_.least) {
      search_.least = search_.load;
      search_.best = first;
    }
  }
  if (search_.at < end) {
    budget->items = 0;
    return true;
  }
  const uint64_t first = search_.best;
  search_units_ = 0;
  if (first == 0) return false;
  absl::MutexLock lock(&heap_->mutex_);
  heap_->window_first_ = first;
  heap_->window_end_ = first + units;
  uint64_t held = 0;
  for (uint64_t unit = first; unit < first + units; ++unit) {
    if (!heap_->units_.IsFree(unit)) continue;
    heap_->units_.Take(unit, 1);
    ++held;
  }
  heap_->window_held_ = held;
  heap_->free_units_ = heap_->units_.free();
  window_units_ = units;
  window_at_ = 0;
  return true;
}

// Makes the window's free units available again.
void Compactor::CloseWindow() {
  absl::MutexLock lock(&heap_->mutex_);
  for (uint64_t unit = heap_->window_first_; unit < heap_->window_end_; ++unit) {
    if (heap_->loads_[unit].Get() == 0 && heap_->block_of_[unit] == nullptr) {
      heap_->units_.Give(unit, 1);
    }
  }
  heap_->window_first_ = heap_->window_end_ = 0;
  heap_->window_held_ = 0;
  heap_->free_units_ = heap_->units_.free();
  window_units_ = 0;
}

}  // namespace farlook::kv
