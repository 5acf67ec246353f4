#include "kv/heap/block_set.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace farlook::kv {
namespace {

// Lists by longest hole: one list for each length up to 16 cells, then four for each doubling. Returns the list for a
// length.
int ListFor(uint32_t cells) {
  if (cells <= 16) return static_cast<int>(cells);
  const int shift = std::bit_width(cells) - 3;  // cells >> shift is 4 .. 7
  return 16 + (shift - 2) * 4 + static_cast<int>(cells >> shift) - 4;
}
static_assert(Block::kMostCells == 2048, "the longest hole's list is 16 + 7 * 4");

void Push(Block** head, Block* block, Block::Links Block::*links, int list) {
  Block::Links& own = block->*links;
  own = {nullptr, *head, list};
  if (*head != nullptr) ((*head)->*links).before = block;
  *head = block;
}

void Remove(Block** head, Block* block, Block::Links Block::*links) {
  Block::Links& own = block->*links;
  if (own.after != nullptr) (own.after->*links).before = own.before;
  if (own.before != nullptr) {
    (own.before->*links).after = own.after;
  } else {
    *head = own.after;
  }
  own = Block::Links{};
}

}  // namespace

void BlockSet::List(Block* block) {
  if (block->barred) return;
  const int hole = block->longest() == 0 ? -1 : ListFor(block->longest());
  if (hole != block->by_hole.list) {
    if (const int old = block->by_hole.list; old >= 0) {
      Remove(&by_hole_[static_cast<size_t>(old)], block, &Block::by_hole);
      if (by_hole_[static_cast<size_t>(old)] == nullptr) holes_mask_ &= ~(uint64_t{1} << old);
    }
    if (hole >= 0) {
      Push(&by_hole_[static_cast<size_t>(hole)], block, &Block::by_hole, hole);
      holes_mask_ |= uint64_t{1} << hole;
    }
  }
  const int share = block->free_cells() == 0 ? -1 : static_cast<int>(block->free_cells() * 16 / block->cells());
  if (share != block->by_free.list) {
    if (const int old = block->by_free.list; old >= 0) {
      Remove(&by_free_[static_cast<size_t>(old)], block, &Block::by_free);
    }
    if (share >= 0) Push(&by_free_[static_cast<size_t>(share)], block, &Block::by_free, share);
    const auto load = static_cast<uint8_t>(UnitLoad::kFull - std::max(share, 0));
    for (uint32_t i = 0; i < shape_.units; ++i) {
      loads_[block->offset() / kUnitBytes + i].Set(load);
    }
  }
}

void BlockSet::Unlist(Block* block) {
  if (const int old = block->by_hole.list; old >= 0) {
    Remove(&by_hole_[static_cast<size_t>(old)], block, &Block::by_hole);
    if (by_hole_[static_cast<size_t>(old)] == nullptr) holes_mask_ &= ~(uint64_t{1} << old);
  }
  if (const int old = block->by_free.list; old >= 0) {
    Remove(&by_free_[static_cast<size_t>(old)], block, &Block::by_free);
  }
}

void BlockSet::LetGo() {
  if (block_at_hand_ == nullptr) return;
  if (at_hand_.cells() > 0) block_at_hand_->Free(at_hand_.begin, at_hand_.cells());
  List(block_at_hand_);
  block_at_hand_ = nullptr;
  at_hand_ = {};
}

void BlockSet::LetGoParked() {
  if (block_parked_ == nullptr) return;
  Block* block = std::exchange(block_parked_, nullptr);
  block->Free(parked_.begin, parked_.cells());
  parked_ = {};
  List(block);
}

void BlockSet::Park() {
  if (block_parked_ != nullptr || at_hand_.cells() == 0) return;
  block_parked_ = std::exchange(block_at_hand_, nullptr);
  parked_ = std::exchange(at_hand_, {});
}

void BlockSet::Unpark() {
  if (block_parked_ == nullptr) return;
  LetGo();
  block_at_hand_ = std::exchange(block_parked_, nullptr);
  at_hand_ = std::exchange(parked_, {});
}

void BlockSet::SettleFreed() {
  if (freed_cells_ == 0) return;
  freed_.block->Free(freed_.cell, std::exchange(freed_cells_, 0));
  List(freed_.block);
}

bool BlockSet::UseHole(uint32_t cells) {
  SettleFreed();
  // In the first list some holes may be too short: look only at its first few blocks.
  const int list = ListFor(cells);
  Block* block = by_hole_[static_cast<size_t>(list)];
  for (int i = 0; i < 4 && block != nullptr && block->longest() < cells; ++i) block = block->by_hole.after;
  if (block == nullptr || block->longest() < cells) {
    const uint64_t longer = holes_mask_ & ~uint64_t{0} << (list + 1);
    if (longer == 0) return false;
    block = by_hole_[static_cast<size_t>(std::countr_zero(longer))];
  }
  LetGo();
  at_hand_ = block->TakeHole(cells, &looks_);
  block_at_hand_ = block;
  List(block);
  return true;
}

void BlockSet::UseBlock(Block* block) {
  LetGo();
  blocks_ += 1;
  at_hand_ = block->TakeHole(block->cells(), &looks_);
  block_at_hand_ = block;
}

void BlockSet::Adopt(Block* block) {
  blocks_ += 1;
  used_cells_ += block->cells() - block->free_cells();
  block->MeasureHoles();
  List(block);
}

bool BlockSet::Free(Block* block, uint32_t cell, uint32_t cells) {
  used_cells_ -= cells;
  SettleFreed();
  const uint32_t extents =
      (block == block_at_hand_ ? at_hand_.cells() : 0) + (block == block_parked_ ? parked_.cells() : 0);
  if (block != victim_ && block->free_cells() + extents + cells != block->cells()) {
    freed_ = {block, cell};
    freed_cells_ = cells;
    return false;
  }
  block->Free(cell, cells);
  if (block->free_cells() + extents == block->cells()) {  // the extent at hand may be empty
    if (block == block_at_hand_) LetGo();
    if (block == block_parked_) LetGoParked();
  }
  if (!block->empty()) {
    List(block);
    return false;
  }
  Unlist(block);
  if (block == victim_) victim_ = nullptr;
  blocks_ -= 1;
  return true;
}

Block* BlockSet::Sparsest(uint32_t least_free) const {
  for (int share = kFreeLists - 1; share >= 0; --share) {
    Block* block = by_free_[static_cast<size_t>(share)];
    for (int i = 0; i < 8 && block != nullptr; ++i, block = block->by_free.after) {
      if (block->free_cells() >= least_free && block->pinned == 0 && block != block_at_hand_ &&
          block != block_parked_) {
        return block;
      }
    }
  }
  return nullptr;
}

bool BlockSet::Bar(Block* block) {
  SettleFreed();
  Unpark();
  if (victim_ != nullptr) {
    victim_->barred = false;
    List(std::exchange(victim_, nullptr));
  }
  if (block == nullptr) return false;
  if (block == block_at_hand_) LetGo();
  Unlist(block);
  if (block->empty()) {
    blocks_ -= 1;
    return true;
  }
  block->barred = true;
  victim_ = block;
  return false;
}

uint32_t BlockSet::LongestHole() const {
  if (holes_mask_ == 0) return at_hand_.cells();
  const auto list = static_cast<size_t>(std::bit_width(holes_mask_) - 1);
  return std::max(at_hand_.cells(), by_hole_[list]->longest());
}

}  // namespace farlook::kv
