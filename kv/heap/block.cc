#include "kv/heap/block.h"

#include <algorithm>
#include <bit>

namespace farlook::kv {

void Block::Reset(uint64_t offset, BlockKind kind, bool owned) {
  offset_ = offset;
  kind_ = kind;
  shift_ = shape().cell_shift;
  cells_ = shape().cells;
  free_ = longest_ = cells_;
  used_.fill(0);
  begins_.fill(0);
  if (owned && owners_ == nullptr) owners_ = std::make_unique<uint8_t[]>(kMostCells);
  pinned = 0;
  barred = false;
  by_hole = by_free = Links{};
}

uint32_t Block::Next(const Bits& bits, uint32_t from, bool set) const {
  if (from >= cells_) return cells_;
  const uint64_t flip = set ? 0 : ~uint64_t{0};
  uint32_t word = from / 64;
  uint64_t rest = (bits[word] ^ flip) & ~uint64_t{0} << from % 64;
  while (rest == 0) {
    if (++word == cells_ / 64) return cells_;
    rest = bits[word] ^ flip;
  }
  return word * 64 + static_cast<uint32_t>(std::countr_zero(rest));
}

uint32_t Block::FreeBefore(uint32_t cell) const {
  uint32_t n = 0;
  while (n < cell) {
    const uint32_t last = cell - n - 1;
    const auto run = static_cast<uint32_t>(std::countl_zero(used_[last / 64] << (63 - last % 64)));
    n += std::min(run, last % 64 + 1);
    if (run <= last % 64) break;
  }
  return n;
}

void Block::Fill(Bits& bits, uint32_t from, uint32_t cells, bool set) {
  for (uint32_t at = from; at < from + cells;) {
    const uint32_t n = std::min(from + cells - at, 64 - at % 64);
    const uint64_t mask = (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << at % 64;
    bits[at / 64] = set ? bits[at / 64] | mask : bits[at / 64] & ~mask;
    at += n;
  }
}

bool Block::HasAny(const Bits& bits, uint32_t from, uint32_t cells) {
  for (uint32_t at = from; at < from + cells;) {
    const uint32_t n = std::min(from + cells - at, 64 - at % 64);
    const uint64_t mask = (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << at % 64;
    if ((bits[at / 64] & mask) != 0) return true;
    at += n;
  }
  return false;
}

Block::Extent Block::TakeHole(uint32_t cells, uint64_t* looks) {
  Extent best;
  uint32_t longest = 0;  // of the others
  for (uint32_t begin = Next(used_, 0, false); begin < cells_;) {
    ++*looks;
    Extent hole{begin, Next(used_, begin, true)};
    begin = Next(used_, hole.end, false);
    if (hole.cells() >= cells && (best.cells() == 0 || hole.cells() < best.cells())) std::swap(hole, best);
    longest = std::max(longest, hole.cells());
    // The fit is exact, and the longest of the remaining holes is known.
    if (best.cells() == cells && (longest_ > cells || longest == cells)) {
      longest = longest_;
      break;
    }
  }
  longest_ = longest;
  if (best.cells() == 0) return best;
  Fill(used_, best.begin, best.cells(), true);
  free_ -= best.cells();
  return best;
}

bool Block::Occupy(uint32_t cell, uint32_t cells) {
  if (cell + cells > cells_ || HasAny(used_, cell, cells)) return false;
  Fill(used_, cell, cells, true);
  Begin(cell);
  free_ -= cells;
  return true;
}

void Block::MeasureHoles() {
  longest_ = 0;
  for (uint32_t begin = Next(used_, 0, false); begin < cells_;) {
    const uint32_t end = Next(used_, begin, true);
    longest_ = std::max(longest_, end - begin);
    begin = Next(used_, end, false);
  }
}

void Block::Free(uint32_t cell, uint32_t cells) {
  begins_[cell / 64] &= ~(uint64_t{1} << cell % 64);
  Fill(used_, cell, cells, false);
  free_ += cells;
  const uint32_t hole = FreeBefore(cell) + Next(used_, cell + cells, true) - cell;
  longest_ = std::max(longest_, hole);
}

uint32_t Block::NextPiece(uint32_t from) const { return Next(begins_, from, true); }

uint32_t Block::CellsOfPiece(uint32_t cell) const {
  return std::min(Next(begins_, cell + 1, true), Next(used_, cell + 1, false)) - cell;
}

}  // namespace farlook::kv
