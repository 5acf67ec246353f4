#include "kv/heap/heap.h"

#include <algorithm>

#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/size_class.h"
#include "kv/layout/words.h"

namespace farlook::kv {
namespace {

// Percentage of the region that new keys leave free: room for overwrites and for moving.
constexpr uint64_t kReservePercent = 4;
// Overwrites of values up to this fraction (1 / kSparePart) of the region always find room.
constexpr uint64_t kSparePart = 16;
// One look of NextPiece() covers this many words of the page map, or this many pieces of other partitions.
constexpr uint32_t kUnitsForALook = 64;
constexpr uint32_t kPiecesForALook = 8;
// Units reserved for compaction.
constexpr uint64_t kFloorUnits = 4;
// An item that fills at least this percentage of its units is given separate units rather than refused.
constexpr uint64_t kLeastFillPercent = 75;

uint64_t FirstUnit(const RegionHeader& header) { return (header.ReservedBytes() + kUnitBytes - 1) / kUnitBytes; }

// The first cell that begins at `from` or after it.
uint32_t FirstCellFrom(const Block& block, uint64_t from) {
  return from > block.offset() ? block.shape().CellsFor(from - block.offset()) : 0;
}

}  // namespace

Heap::Heap(char* region, const RegionHeader& header)
    : region_(region),
      header_(header),
      first_unit_(FirstUnit(header)),
      units_end_(header.region_bytes / kUnitBytes),
      floor_(kFloorUnits),
      most_spare_(UnitsFor(SizeClassBytes(
          SizeClassFor(std::min(kMaxItemBytes, header.region_bytes / kSparePart + kItemHeaderBytes + kMaxKeyBytes))))),
      loads_(std::make_unique<UnitLoad[]>(header.region_bytes / kUnitBytes)),
      block_of_(header.region_bytes / kUnitBytes, nullptr),
      units_(first_unit_, header.region_bytes / kUnitBytes),
      medium_(BlockKind::kMedium, loads_.get()),
      large_(BlockKind::kLarge, loads_.get()) {
  const uint64_t units = header.region_bytes / kUnitBytes;
  // Reserved, so that they are not copied under locks when they grow.
  all_blocks_.reserve(units);
  for (std::vector<Block*>& spare : spare_blocks_) spare.reserve(units);
  reserve_ = std::max(units * kReservePercent / 100, kLeastReserveUnits);
  free_units_ = units - first_unit_;
  for (uint64_t i = 0; i < first_unit_; ++i) loads_[i].Set(UnitLoad::kStays);
  for (uint64_t i = 0; i < header.partitions; ++i) small_.push_back(std::make_unique<Small>(loads_.get()));
}

void Heap::SetUse(uint64_t first, uint64_t units, MapWord word, uint8_t load) {
  for (uint64_t i = units; i-- > 0;) {
    const MapWord rest = word.use() == MapWord::Use::kFree ? word : MapWord(MapWord::Use::kRest, 0, 0, 0);
    StoreWord(region_ + header_.MapWordOf((first + i) * kUnitBytes), (i == 0 ? word : rest).word());
    loads_[first + i].Set(load);
  }
}

Block* Heap::NewBlock(BlockKind kind, uint8_t owner, Claim claim) {
  const uint32_t units = ShapeOf(kind).units;
  const uint64_t first = MayTake(units, claim) ? units_.TakeBlock(units) : 0;
  if (first == 0) return nullptr;
  free_units_ = units_.free();
  const bool shared = kind != BlockKind::kSmall;
  std::vector<Block*>& spare = spare_blocks_[shared];
  if (spare.empty()) {
    all_blocks_.push_back(std::make_unique<Block>());
    spare.push_back(all_blocks_.back().get());
  }
  Block* block = spare.back();
  spare.pop_back();
  block->Reset(first * kUnitBytes, kind, shared);
  block->partition = owner;
  for (uint32_t i = 0; i < units; ++i) block_of_[first + i] = block;
  SetUse(first, units, MapWord(MapWord::Use::kItems, static_cast<uint8_t>(kind), owner, units), UnitLoad::kFull);
  return block;
}

void Heap::Retire(Block* block) {
  const uint64_t first = block->offset() / kUnitBytes;
  const uint32_t units = block->shape().units;
  for (uint32_t i = 0; i < units; ++i) block_of_[first + i] = nullptr;
  spare_blocks_[block->kind() != BlockKind::kSmall].push_back(block);
  GiveUnits(first, units);
}

void Heap::GiveUnits(uint64_t first, uint64_t units) {
  SetUse(first, units, MapWord(), 0);
  const uint64_t low = std::clamp(window_first_, first, first + units);
  const uint64_t high = std::clamp(window_end_, first, first + units);
  if (low < high) {
    window_held_ += high - low;
    if (first < low) units_.Give(first, low - first);
    if (high < first + units) units_.Give(high, first + units - high);
  } else {
    units_.Give(first, units);
  }
  free_units_ = units_.free();
}

bool Heap::Refill(BlockSet* set, BlockKind kind, uint8_t owner, uint32_t cells, Claim claim) {
  // Compaction must fill holes; with many holes, all claims do.
  const bool holes_first = claim == Claim::kCompaction || set->sparse();
  if (holes_first && set->UseHole(cells)) return true;
  if (Block* block = NewBlock(kind, owner, claim)) {
    set->UseBlock(block);
    return true;
  }
  return !holes_first && set->UseHole(cells);
}

uint64_t Heap::AllocateSmall(int partition, uint32_t cells, Claim claim) {
  BlockSet* set = &small_[static_cast<size_t>(partition)]->set;
  absl::MutexLock lock(&mutex_);
  if (spare_.units == 0) ProvideSpare(kUnitBytes);
  if (!Refill(set, BlockKind::kSmall, static_cast<uint8_t>(partition), cells, claim)) return 0;
  return set->Allocate(cells).offset();
}

uint64_t Heap::AllocateRun(int partition, uint64_t units, Claim claim) {
  const uint64_t first = MayTake(units, claim) ? units_.TakeRun(units) : 0;
  if (first == 0) return 0;
  free_units_ = units_.free();
  runs_ += 1;
  run_units_ += units;
  SetUse(first, units,
         MapWord(MapWord::Use::kItems, static_cast<uint8_t>(BlockKind::kRun), static_cast<uint8_t>(partition),
                 static_cast<uint32_t>(units)),
         UnitLoad::kStays);
  return first * kUnitBytes;
}

uint64_t Heap::AllocateShared(int partition, uint64_t bytes, Claim claim) {
  const BlockKind kind = KindFor(bytes);
  absl::MutexLock lock(&mutex_);
  if (claim != Claim::kCompaction && !ProvideSpare(bytes) && claim != Claim::kLastCopy) return 0;
  if (kind != BlockKind::kRun) {
    BlockSet* set = SharedSet(kind);
    const uint32_t cells = ShapeOf(kind).CellsFor(bytes);
    BlockSet::Piece piece = set->Allocate(cells);
    if (piece.block == nullptr && Refill(set, kind, MapWord::kShared, cells, claim)) piece = set->Allocate(cells);
    if (piece.block != nullptr) {
      piece.block->SetOwner(piece.cell, static_cast<uint8_t>(partition));
      if (kind == BlockKind::kLarge) long_pieces_.Add(bytes);
      return piece.offset();
    }
    const bool wastes = bytes * 100 < UnitsFor(bytes) * kUnitBytes * kLeastFillPercent;
    if (claim == Claim::kCompaction || (wastes && claim != Claim::kLastCopy)) return 0;
  }
  const uint64_t offset = AllocateRun(partition, UnitsFor(bytes), claim);
  if (offset != 0) {
    run_used_bytes_ += bytes;
    long_pieces_.Add(bytes);
  }
  return offset;
}

void Heap::Free(int partition, uint64_t offset, uint64_t bytes) {
  Block* block = block_of_[offset / kUnitBytes];
  if (block != nullptr && block->kind() == BlockKind::kSmall) {
    const uint32_t cells = kSmallShape.CellsFor(bytes);
    if (small_[static_cast<size_t>(partition)]->set.Free(block, block->CellOf(offset), cells)) {
      absl::MutexLock lock(&mutex_);
      Retire(block);
    }
    return;
  }
  if (block == nullptr && IsLent(offset)) return FreeLent(partition, bytes);
  absl::MutexLock lock(&mutex_);
  const bool counted = block == nullptr || block->kind() == BlockKind::kLarge;
  if (block == nullptr) {
    runs_ -= 1;
    run_units_ -= UnitsFor(bytes);
    run_used_bytes_ -= bytes;
    GiveUnits(offset / kUnitBytes, UnitsFor(bytes));
  } else if (SharedSet(block->kind())->Free(block, block->CellOf(offset), block->shape().CellsFor(bytes))) {
    Retire(block);
  }
  if (counted && long_pieces_.Remove(bytes)) TrimSpare();
}

void Heap::AddPins(uint64_t offset, int n) {
  Block* block = block_of_[offset / kUnitBytes];
  if (block == nullptr) return;  // a run: the compactor looks up its slot before moving it
  if (block->kind() == BlockKind::kSmall) {
    block->pinned += static_cast<uint32_t>(n);
    return;
  }
  absl::MutexLock lock(&mutex_);
  block->pinned += static_cast<uint32_t>(n);
}

uint64_t Heap::NextPiece(int partition, BlockKind kind, uint64_t* from, uint32_t* looks) const {
  const uint64_t step = kind == BlockKind::kRun ? 1 : ShapeOf(kind).units;
  uint64_t unit = *from / kUnitBytes / step * step;
  for (uint32_t passed = 0; unit < units_end_; unit += step) {
    if (unit < first_unit_) continue;
    if (++passed % kUnitsForALook == 0 && --*looks == 0) {
      *from = std::max(*from, unit * kUnitBytes);
      return 0;
    }
    uint64_t found = 0;
    // A word that assigns a small block or a run to this partition changes only under its lock.
    const MapWord word(LoadWord(region_ + header_.MapWordOf(unit * kUnitBytes)));
    if (word.use() == MapWord::Use::kItems && word.block() == static_cast<uint8_t>(BlockKind::kRun)) {
      // A run may hold an item for which there was no room in a block.
      const bool fits = kind == KindFor(word.units() * kUnitBytes);
      if (fits && word.partition() == partition && unit * kUnitBytes >= *from) found = unit * kUnitBytes;
    } else if (word.use() == MapWord::Use::kItems && word.block() == static_cast<uint8_t>(kind)) {
      if (kind != BlockKind::kSmall) {
        found = NextSharedPiece(partition, kind, unit, *from, looks);
      } else if (word.partition() == partition) {
        const Block* block = block_of_[unit];
        const uint32_t cell = block->NextPiece(FirstCellFrom(*block, *from));
        if (cell < block->cells()) found = block->OffsetOf(cell);
      }
    }
    if (found != 0) {
      --*looks;
      return found;
    }
    if (*looks == 0) {  // within a shared block
      *from = std::max(*from, unit * kUnitBytes);
      return 0;
    }
  }
  return 0;
}

// The partition's first piece in the block that begins with this unit. A block is searched to its end.
uint64_t Heap::NextSharedPiece(int partition, BlockKind kind, uint64_t first_unit, uint64_t from,
                               uint32_t* looks) const {
  absl::MutexLock lock(&mutex_);
  const Block* block = block_of_[first_unit];
  if (block == nullptr || block->kind() != kind) return 0;
  uint32_t passed = 0;
  for (uint32_t cell = FirstCellFrom(*block, from);; ++cell) {
    cell = block->NextPiece(cell);
    if (cell >= block->cells()) break;
    if (block->OwnerOf(cell) == partition) return block->OffsetOf(cell);
    if (++passed % kPiecesForALook == 0 && *looks > 2) --*looks;
  }
  return 0;
}

uint64_t Heap::AllocateIndexUnit() {
  absl::MutexLock lock(&mutex_);
  // At a backup the index must grow, as the primary's did: it also gets what compaction needs.
  const Claim claim = aside_units_.value() > 0 ? Claim::kCompaction : Claim::kOverwrite;
  const uint64_t unit = MayTake(1, claim) ? units_.TakeLowest() : 0;
  if (unit == 0) return 0;
  free_units_ = units_.free();
  index_units_ += 1;
  SetUse(unit, 1, MapWord(MapWord::Use::kIndex, 0, MapWord::kShared, 1), UnitLoad::kStays);
  return unit * kUnitBytes;
}

void Heap::FreeIndexUnit(uint64_t offset) {
  absl::MutexLock lock(&mutex_);
  index_units_ -= 1;
  GiveUnits(offset / kUnitBytes, 1);
}

HeapStats Heap::stats() const {
  HeapStats stats;
  const auto add = [&](const BlockSet& set, BlockKind kind) {
    HeapStats::Kind& of = stats.kinds[static_cast<size_t>(kind) - 1];
    const BlockShape& shape = ShapeOf(kind);
    of.blocks += set.blocks();
    of.bytes += set.blocks() * shape.bytes();
    of.used_bytes += set.used_cells() << shape.cell_shift;
  };
  for (const auto& small : small_) add(small->set, BlockKind::kSmall);
  add(medium_, BlockKind::kMedium);
  add(large_, BlockKind::kLarge);
  stats.kinds[3] = {runs_.value(), run_units_.value() * kUnitBytes, run_used_bytes_.value()};
  const uint64_t spare = spare_units_.value();
  stats.free_bytes = (free_units_.value() + spare) * kUnitBytes;
  stats.reserve_bytes = (std::min(Leaves(Claim::kNewKey), free_units_.value()) + spare) * kUnitBytes;
  stats.index_bytes = index_units_.value() * kUnitBytes;
  stats.overhead_bytes = first_unit_ * kUnitBytes;
  absl::MutexLock lock(&mutex_);
  stats.longest_bytes = units_.longest_run() * kUnitBytes;
  return stats;
}

}  // namespace farlook::kv
