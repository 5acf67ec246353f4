#include "kv/heap/units.h"

#include <algorithm>
#include <bit>

namespace farlook::kv {
namespace {

// Returns the bits of the mask that begin a group of `count` free units.
uint32_t Groups(uint32_t mask, uint32_t count) {
  if (count == 1) return mask;
  if (count == kUnitsPerPage) return mask == ~0u ? 1 : 0;
  uint32_t all = mask & mask >> 1;
  all &= all >> 2;
  all &= all >> 4;
  return all & 0x01010101;
}

size_t KindOf(uint32_t count) { return count == 1 ? 0 : count == 8 ? 1 : 2; }

// `count` bits from `first` on.
uint32_t Bits(uint64_t first, uint64_t count) { return (count == kUnitsPerPage ? ~0u : (1u << count) - 1) << first; }

}  // namespace

Units::Units(uint64_t first, uint64_t end)
    : end_(end),
      leaves_(std::bit_ceil((end + kUnitsPerPage - 1) / kUnitsPerPage)),
      mask_(leaves_, 0),
      nodes_(2 * leaves_) {
  for (uint64_t page = first / kUnitsPerPage; page * kUnitsPerPage < end; ++page) {
    const uint64_t low = std::max(first, page * kUnitsPerPage);
    const uint64_t high = std::min(end, (page + 1) * kUnitsPerPage);
    mask_[page] = Bits(low % kUnitsPerPage, high - low);
    free_ += high - low;
    nodes_[leaves_ + page] = OfMask(mask_[page]);
  }
  uint64_t half = kUnitsPerPage;
  for (uint64_t begin = leaves_ / 2; begin > 0; begin /= 2, half *= 2) {
    for (uint64_t i = begin; i < 2 * begin; ++i) nodes_[i] = Join(nodes_[2 * i], nodes_[2 * i + 1], half);
  }
}

Units::Node Units::OfMask(uint32_t mask) {
  Node node;
  node.low = static_cast<uint32_t>(std::countr_one(mask));
  node.high = static_cast<uint32_t>(std::countl_one(mask));
  for (uint32_t rest = mask; rest != 0; rest &= rest >> 1) ++node.longest;
  const auto free = static_cast<uint8_t>(std::popcount(mask));
  for (const uint32_t count : {1u, 8u, 32u}) {
    if (Groups(mask, count) != 0) node.fullest[KindOf(count)] = free;
  }
  return node;
}

Units::Node Units::Join(const Node& left, const Node& right, uint64_t half_units) {
  Node node;
  node.low = left.low == half_units ? left.low + right.low : left.low;
  node.high = right.high == half_units ? right.high + left.high : right.high;
  node.longest = std::max({left.longest, right.longest, left.high + right.low});
  for (size_t i = 0; i < 3; ++i) node.fullest[i] = std::min(left.fullest[i], right.fullest[i]);
  return node;
}

void Units::Update(uint64_t page) {
  nodes_[leaves_ + page] = OfMask(mask_[page]);
  uint64_t half = kUnitsPerPage;
  for (uint64_t i = (leaves_ + page) / 2; i > 0; i /= 2, half *= 2) {
    nodes_[i] = Join(nodes_[2 * i], nodes_[2 * i + 1], half);
  }
}

void Units::Set(uint64_t first, uint64_t count, bool free) {
  for (uint64_t at = first; at < first + count;) {
    const uint64_t page = at / kUnitsPerPage, low = at % kUnitsPerPage;
    const uint64_t n = std::min(first + count - at, kUnitsPerPage - low);
    const uint32_t bits = Bits(low, n);
    mask_[page] = free ? mask_[page] | bits : mask_[page] & ~bits;
    Update(page);
    at += n;
  }
  free_ = free ? free_ + count : free_ - count;
}

uint64_t Units::TakeBlock(uint32_t count) {
  const size_t kind = KindOf(count);
  const uint8_t fullest = nodes_[1].fullest[kind];
  if (fullest == kNoPage) return 0;
  uint64_t i = 1;
  while (i < leaves_) i = 2 * i + (nodes_[2 * i + 1].fullest[kind] == fullest);
  const uint64_t page = i - leaves_;
  const auto last = static_cast<uint64_t>(std::bit_width(Groups(mask_[page], count)) - 1);
  const uint64_t first = page * kUnitsPerPage + last;
  Take(first, count);
  return first;
}

uint64_t Units::TakeRun(uint64_t count) {
  if (count == 0 || nodes_[1].longest < count) return 0;
  uint64_t i = 1, begin = 0, units = leaves_ * kUnitsPerPage;
  uint64_t end = 0;  // of the run
  while (i < leaves_ && end == 0) {
    units /= 2;
    const Node &left = nodes_[2 * i], &right = nodes_[2 * i + 1];
    if (right.longest >= count) {
      i = 2 * i + 1;
      begin += units;
    } else if (left.high + right.low >= count) {
      end = begin + units + right.low;
    } else {
      i = 2 * i;
    }
  }
  if (end == 0) {  // within a page
    uint32_t run = mask_[i - leaves_];
    for (uint64_t n = 1; n < count; ++n) run &= run >> 1;
    end = begin + static_cast<uint64_t>(std::bit_width(run) - 1) + count;
  }
  Take(end - count, count);
  return end - count;
}

uint64_t Units::TakeLowest() {
  if (free_ == 0) return 0;
  uint64_t i = 1;
  while (i < leaves_) i = 2 * i + (nodes_[2 * i].longest == 0);
  const uint64_t page = i - leaves_;
  const uint64_t first = page * kUnitsPerPage + static_cast<uint64_t>(std::countr_zero(mask_[page]));
  Take(first, 1);
  return first;
}

}  // namespace farlook::kv
