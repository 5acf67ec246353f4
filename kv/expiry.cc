#include "kv/expiry.h"

#include <algorithm>
#include <utility>

namespace farlook::kv {

ExpiryIndex::ExpiryIndex(uint64_t prefix, int bits)
    : base_(bits == 0 ? 0 : prefix << (64 - bits)), bits_(bits), at_(base_) {}

uint64_t ExpiryIndex::LastOf(const Rows::iterator& row) const {
  const int bits = row->second.bits;
  return bits == 64 ? row->first : row->first | ~uint64_t{0} >> bits;
}

void ExpiryIndex::Note(uint64_t hash, uint64_t expiry_ms) {
  if (rows_.empty()) {
    Row& all = rows_[base_];
    all.cells = std::make_unique<std::array<Tick, kMainBuckets>>();
    all.cells->fill(kNever);
    all.bits = bits_;
    bytes_.store(kRowBytes, std::memory_order_relaxed);
  }
  const Tick tick = TickOf(expiry_ms);
  Row& row = std::prev(rows_.upper_bound(PositionOf(hash)))->second;
  Tick& cell = (*row.cells)[BucketOf(hash)];
  cell = std::min(cell, tick);
  row.first = std::min(row.first, tick);
  noted_ = std::min(noted_, tick);
  if (tick < due()) due_.store(tick, std::memory_order_relaxed);
}

bool ExpiryIndex::Sweep(Tick now, size_t budget, Visitor visit) {
  if (due() >= now) return false;
  if (!std::exchange(in_round_, true)) round_ = noted_ = kNever;
  size_t heads = 0;
  auto row = rows_.find(at_);
  while (row != rows_.end()) {
    if (budget == 0) {
      at_ = row->first;
      return true;
    }
    if (row->second.first < now || visiting_) {
      if (!SweepRow(row, now, &budget, visit)) {
        at_ = row->first;
        return true;
      }
      row = Reshape(row);
    } else {
      round_ = std::min(round_, row->second.first);
      ++row;
    }
    if (++heads % kHeadsForEachBucket == 0 && budget > 0) --budget;
  }
  // The round is over.
  in_round_ = false;
  at_ = base_;
  due_.store(std::min(round_, noted_), std::memory_order_relaxed);
  if (rows_.size() == 1 && rows_.begin()->second.first == kNever) {
    rows_.clear();
    bytes_.store(0, std::memory_order_relaxed);
  }
  return false;
}

// False: the budget is used up, and it is gone on with here.
bool ExpiryIndex::SweepRow(const Rows::iterator& row, Tick now, size_t* budget, Visitor visit) {
  std::array<Tick, kMainBuckets>& cells = *row->second.cells;
  for (; bucket_ < kMainBuckets; ++bucket_) {
    if (!visiting_) {
      if (cells[bucket_] >= now) continue;
      if (*budget == 0) return false;
      cells[bucket_] = kNever;
      visiting_ = true;
      position_ = row->first;
      visited_ = kNever;
      segments_ = 0;
    }
    if (*budget == 0) return false;
    Visit place{position_, LastOf(row), bucket_, *budget};
    visit(&place);
    *budget -= std::min(*budget, std::max<size_t>(1, place.looked));
    visited_ = std::min(visited_, place.next);
    segments_ += place.segments;
    position_ = place.first;
    if (!place.done) return false;
    visiting_ = false;
    cells[bucket_] = std::min(cells[bucket_], visited_);
    row->second.segments = std::max(row->second.segments, segments_);
  }
  bucket_ = 0;
  row->second.first = *std::min_element(cells.begin(), cells.end());
  return true;
}

// A row that was swept: splits it where it covers several segments, merges it with what is empty before it. Returns the
// row after it.
ExpiryIndex::Rows::iterator ExpiryIndex::Reshape(Rows::iterator row) {
  Row& swept = row->second;
  round_ = std::min(round_, swept.first);
  if (swept.first != kNever) {
    if (std::exchange(swept.segments, 0) <= 1 || swept.bits >= 63) return std::next(row);
    ++swept.bits;
    Row upper;
    upper.cells = std::make_unique<std::array<Tick, kMainBuckets>>(*swept.cells);
    upper.first = swept.first;
    upper.bits = swept.bits;
    const uint64_t middle = row->first | uint64_t{1} << (64 - swept.bits);
    bytes_.store(bytes() + kRowBytes, std::memory_order_relaxed);
    return std::next(rows_.emplace_hint(std::next(row), middle, std::move(upper)));
  }
  // Its other half, where it comes before it and is empty too; and so on. Where it comes after it, it will find this.
  while (row->second.bits > bits_) {
    const uint64_t half = uint64_t{1} << (64 - row->second.bits);
    if ((row->first & half) == 0) break;
    const auto before = std::prev(row);
    if (before->second.bits != row->second.bits || before->second.first != kNever) break;
    --before->second.bits;
    rows_.erase(row);
    bytes_.store(bytes() - kRowBytes, std::memory_order_relaxed);
    row = before;
  }
  return std::next(row);
}

}  // namespace farlook::kv
