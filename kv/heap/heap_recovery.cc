#include "kv/heap/heap_recovery.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"

namespace farlook::kv {

HeapRecovery::HeapRecovery(Heap* heap) : heap_(heap), states_(heap->units_end_, State::kFree) {
  std::fill_n(states_.begin(), heap->first_unit_, State::kReserved);
}

absl::Status HeapRecovery::Read() {
  for (uint64_t unit = heap_->first_unit_; unit < heap_->units_end_;) {
    uint64_t units = 1;
    if (absl::Status status = ReadWord(unit, &units); !status.ok()) return status;
    unit += units;
  }
  return absl::OkStatus();
}

absl::Status HeapRecovery::Damaged(uint64_t unit) const {
  return absl::DataLossError(absl::StrCat("page map: the word of unit ", unit,
                                          " is damaged: ", absl::Hex(WordOf(unit).word(), absl::kZeroPad16)));
}

absl::Status HeapRecovery::ReadWord(uint64_t unit, uint64_t* units) {
  const MapWord word = WordOf(unit);
  const auto damaged = [&] { return Damaged(unit); };
  // The first unit's word is stored last, so the rest of a run may remain without it.
  if (word.word() == 0 || IsRest(word)) return absl::OkStatus();
  if (word.word() != MapWord(word.use(), word.block(), word.partition(), word.units()).word()) return damaged();
  if (word.use() == MapWord::Use::kIndex) {
    if (word.block() != 0 || word.units() != 1 || word.partition() != MapWord::kShared) return damaged();
    states_[unit] = State::kIndex;
    index_units_.push_back(unit * kUnitBytes);
    return absl::OkStatus();
  }
  const auto kind = static_cast<BlockKind>(word.block());
  if (word.use() != MapWord::Use::kItems || kind < BlockKind::kSmall || kind > BlockKind::kRun) return damaged();
  *units = word.units();
  if (*units == 0 || *units > heap_->units_end_ - unit) return damaged();
  const bool has_owner = kind == BlockKind::kSmall || kind == BlockKind::kRun;
  if (has_owner ? word.partition() >= heap_->header_.partitions : word.partition() != MapWord::kShared) {
    return damaged();
  }
  if (kind != BlockKind::kRun && (*units != ShapeOf(kind).units || unit % *units != 0)) return damaged();
  for (uint64_t i = 1; i < *units; ++i) {
    if (!IsRest(WordOf(unit + i)) && WordOf(unit + i).word() != 0) return Damaged(unit + i);
  }
  std::fill_n(states_.begin() + static_cast<int64_t>(unit), *units,
              kind == BlockKind::kRun ? State::kRun : State::kBlock);
  items_.push_back({unit, *units, kind, word.partition()});
  return absl::OkStatus();
}

void HeapRecovery::Adopt() {
  absl::MutexLock lock(&heap_->mutex_);
  for (const uint64_t offset : index_units_) {
    heap_->units_.Take(offset / kUnitBytes, 1);
    heap_->index_units_ += 1;
    heap_->loads_[offset / kUnitBytes].Set(UnitLoad::kStays);
  }
  for (const Extent& extent : items_) {
    heap_->units_.Take(extent.first, extent.units);
    const bool run = extent.kind == BlockKind::kRun;
    for (uint64_t i = 0; i < extent.units; ++i) {
      heap_->loads_[extent.first + i].Set(run ? UnitLoad::kStays : UnitLoad::kFull);
    }
    if (run) continue;
    heap_->all_blocks_.push_back(std::make_unique<Block>());
    Block* block = heap_->all_blocks_.back().get();
    block->Reset(extent.first * kUnitBytes, extent.kind, /*owned=*/extent.kind != BlockKind::kSmall);
    block->partition = extent.partition;
    for (uint64_t i = 0; i < extent.units; ++i) heap_->block_of_[extent.first + i] = block;
  }
}

bool HeapRecovery::MayBe(int partition, Slot slot) const {
  const State state = At(slot.offset());
  const uint64_t unit = slot.offset() / kUnitBytes;
  if (state == State::kRun || state == State::kClaimedRun) {
    const MapWord word = WordOf(unit);
    return slot.offset() % kUnitBytes == 0 && word.use() == MapWord::Use::kItems && word.partition() == partition &&
           word.units() == Heap::UnitsFor(slot.bytes());
  }
  if (state != State::kBlock) return false;
  const Block& block = *heap_->block_of_[unit];
  const uint64_t within = slot.offset() - block.offset();
  return block.kind() == KindFor(slot.bytes()) && within % (uint64_t{1} << block.shape().cell_shift) == 0 &&
         within + slot.bytes() <= block.shape().bytes() &&
         (block.kind() != BlockKind::kSmall || block.partition == partition);
}

bool HeapRecovery::Claim(int partition, Slot slot) {
  absl::MutexLock lock(&heap_->mutex_);
  const uint64_t unit = slot.offset() / kUnitBytes;
  Block* const block = heap_->block_of_[unit];
  if (block == nullptr) {
    if (states_[unit] != State::kRun) return false;
    states_[unit] = State::kClaimedRun;
    heap_->runs_ += 1;
    heap_->run_units_ += Heap::UnitsFor(slot.bytes());
    heap_->run_used_bytes_ += slot.bytes();
    heap_->long_pieces_.Add(slot.bytes());
    return true;
  }
  const uint32_t cell = block->CellOf(slot.offset());
  if (!block->Occupy(cell, block->shape().CellsFor(slot.bytes()))) return false;
  if (block->kind() != BlockKind::kSmall) block->SetOwner(cell, static_cast<uint8_t>(partition));
  if (block->kind() == BlockKind::kLarge) heap_->long_pieces_.Add(slot.bytes());
  return true;
}

bool HeapRecovery::IsHole(uint64_t offset) const {
  const State state = At(offset);
  return state != State::kReserved && state != State::kIndex && PieceAt(offset) == 0;
}

uint64_t HeapRecovery::PieceAt(uint64_t offset) const {
  const State state = At(offset);
  uint64_t unit = offset / kUnitBytes;
  if (state == State::kBlock) {
    const Block& block = *heap_->block_of_[unit];
    uint32_t cell = block.CellOf(offset);
    while (cell > 0 && block.NextPiece(cell) != cell) --cell;
    return block.IsFree(block.CellOf(offset)) ? 0 : block.OffsetOf(cell);
  }
  if (state != State::kRun && state != State::kClaimedRun) return 0;
  while (WordOf(unit).use() != MapWord::Use::kItems) --unit;  // to the run's first unit
  return states_[unit] == State::kClaimedRun ? unit * kUnitBytes : 0;
}

// Any word there may be changed.
void HeapRecovery::EndItems(uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at += kGranuleBytes) {
    char* const version = heap_->region_ + at + kVersionOffset;
    const uint64_t word = LoadWord(version);
    if (word != 0 && (word & kDeadBit) == 0) StoreWord(version, word | kDeadBit);
  }
}

void HeapRecovery::EndHoles() {
  for (uint64_t unit = heap_->first_unit_; unit < heap_->units_end_; ++unit) {
    if (states_[unit] == State::kFree) EndItems(unit * kUnitBytes, (unit + 1) * kUnitBytes);
  }
  for (const Extent& extent : items_) {
    const Block* const block = heap_->block_of_[extent.first];
    if (block == nullptr) {
      if (states_[extent.first] == State::kRun) {
        EndItems(extent.first * kUnitBytes, (extent.first + extent.units) * kUnitBytes);
      }
      continue;
    }
    for (uint32_t cell = 0; cell < block->cells(); ++cell) {
      if (block->IsFree(cell)) EndItems(block->OffsetOf(cell), block->OffsetOf(cell + 1));
    }
  }
}

void HeapRecovery::Finish() {
  absl::MutexLock lock(&heap_->mutex_);
  bool has_pieces = false;
  for (const Extent& extent : items_) {
    Block* const block = heap_->block_of_[extent.first];
    const bool used = block == nullptr ? states_[extent.first] == State::kClaimedRun : !block->empty();
    has_pieces = has_pieces || used;
    if (!used && block != nullptr) {
      heap_->Retire(block);
    } else if (!used) {
      heap_->GiveUnits(extent.first, extent.units);
    } else if (block != nullptr) {
      const bool small = extent.kind == BlockKind::kSmall;
      (small ? heap_->small_[extent.partition]->set : *heap_->SharedSet(extent.kind)).Adopt(block);
    }
  }
  heap_->free_units_ = heap_->units_.free();
  if (has_pieces) heap_->ProvideSpare(std::max(kUnitBytes, heap_->long_pieces_.longest_bytes()));
}

}  // namespace farlook::kv
