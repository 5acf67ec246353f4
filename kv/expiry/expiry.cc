#include "kv/expiry/expiry.h"

#include <algorithm>
#include <utility>

namespace farlook::kv {

ExpiryIndex::ExpiryIndex(uint64_t prefix, int bits)
    : base_(bits == 0 ? 0 : prefix << (64 - bits)), bits_(bits), at_(base_) {}

uint64_t ExpiryIndex::LastOf(const Rows::iterator& row) const {
  const int bits = row->second.bits;
  return bits == 64 ? row->first : row->first | ~uint64_t{0} >> bits;
}

void ExpiryIndex::Note(uint64_t hash, uint64_t expiry_ms, int depth, Visitor look) {
  if (rows_.empty()) {
    rows_[base_].bits = static_cast<uint8_t>(bits_);
    AddBytes(kRowBytes);
  }
  const uint64_t position = PositionOf(hash);
  auto at = std::prev(rows_.upper_bound(position));
  // A row whose visit is in progress is not split: the visit's results belong to the whole row.
  while (at->second.bits < depth && !(visiting_ && at->first == at_)) {
    at = Halve(at);
    if (position < at->first) --at;
  }
  Row& row = at->second;
  if (row.cells == nullptr) {
    row.cells = std::make_unique<ExpiryCells>();
    AddBytes(kCellsBytes);
  }
  const Tick tick = TickOf(expiry_ms);
  row.cells->Lower(BucketOf(hash), tick);
  row.first = std::min(row.first, tick);
  noted_ = std::min(noted_, tick);
  if (tick < due()) due_.store(tick, std::memory_order_relaxed);
  if (row.inherited < kMainBuckets) LookAtInherited(at, look);
}

// Corrects the row's next inherited cell that is in use.
void ExpiryIndex::LookAtInherited(const Rows::iterator& row, Visitor look) {
  ExpiryCells& cells = *row->second.cells;
  uint8_t& bucket = row->second.inherited;
  while (bucket < kMainBuckets && cells.Get(bucket) == kNever) ++bucket;
  if (bucket == kMainBuckets) return;
  Visit place{row->first, LastOf(row), bucket, /*budget=*/1};
  look(&place);
  if (!place.done) return;  // several segments: its halves will be looked at
  cells.Set(bucket++, place.next);
}

// Splits a row in two, each with all of its cells. Returns the upper one; all other iterators become invalid.
ExpiryIndex::Rows::iterator ExpiryIndex::Halve(Rows::iterator row) {
  Row& lower = row->second;
  Row upper;
  upper.bits = ++lower.bits;
  upper.first = lower.first;
  AddBytes(kRowBytes);
  if (lower.cells != nullptr) {
    upper.cells = std::make_unique<ExpiryCells>(*lower.cells);
    AddBytes(kCellsBytes);
    lower.inherited = upper.inherited = 0;
  }
  const uint64_t middle = row->first | uint64_t{1} << (64 - lower.bits);
  return rows_.emplace_hint(std::next(row), middle, std::move(upper));
}

// REQUIRES nothing expires in the row.
void ExpiryIndex::DropCells(Row* row) {
  row->inherited = kMainBuckets;
  if (row->cells == nullptr) return;
  row->cells = nullptr;
  AddBytes(-kCellsBytes);
}

// Follows the heads from `row` on to the places that the sweep will look at within `budget`, and prefetches what it
// will read. Each level of memory is prefetched for all places before the next level, whose addresses it holds.
void ExpiryIndex::Foresee(Rows::const_iterator row, Tick now, size_t budget, Foresight foresee) const {
  const size_t most = std::min(budget, kForeseen);
  std::array<std::pair<uint64_t, const ExpiryCells*>, kForeseen> rows;  // by their first positions
  size_t found = 0;
  for (size_t heads = budget * kHeadsForEachBucket; heads > 0 && found < most && row != rows_.end(); --heads, ++row) {
    if (row->second.first >= now && !(visiting_ && row->first == at_)) continue;
    row->second.cells->PrefetchLeast();
    rows[found++] = {row->first, row->second.cells.get()};
  }
  for (size_t i = 0; i < found; ++i) rows[i].second->PrefetchDue(now);
  std::array<Place, kForeseen> places;
  size_t count = 0;
  if (visiting_) places[count++] = {position_, bucket_};
  for (size_t i = 0; i < found && count < most; ++i) {
    const auto [position, cells] = rows[i];
    uint32_t bucket = position == at_ ? bucket_ : 0;
    while (count < most && (bucket = cells->NextDue(bucket, now)) < kMainBuckets)
      places[count++] = {position, bucket++};
  }
  foresee(absl::MakeConstSpan(places.data(), count));
}

bool ExpiryIndex::Sweep(Tick now, size_t budget, Visitor visit, Foresight foresee) {
  if (due() >= now) return false;
  if (!std::exchange(in_round_, true)) round_ = noted_ = kNever;
  size_t heads = 0;
  auto row = rows_.find(at_);
  if (budget > 0) Foresee(row, now, budget, foresee);
  while (row != rows_.end()) {
    if (budget == 0) {
      at_ = row->first;
      return true;
    }
    ++heads;
    if (row->second.first < now || visiting_) {
      heads += kHeadsForCells;
      if (!SweepRow(row, now, &budget, visit)) {
        at_ = row->first;
        return true;
      }
      row = Reshape(row);
    } else {
      round_ = std::min(round_, row->second.first);
      ++row;
    }
    for (; heads >= kHeadsForEachBucket; heads -= kHeadsForEachBucket) budget -= std::min<size_t>(budget, 1);
  }
  // The round is finished.
  in_round_ = false;
  at_ = base_;
  due_.store(std::min(round_, noted_), std::memory_order_relaxed);
  if (rows_.size() == 1 && rows_.begin()->second.first == kNever) {
    rows_.clear();
    bytes_.store(0, std::memory_order_relaxed);
  }
  return false;
}

// Returns false if the budget is used up; the sweep then continues with this row.
bool ExpiryIndex::SweepRow(const Rows::iterator& row, Tick now, size_t* budget, Visitor visit) {
  ExpiryCells& cells = *row->second.cells;
  for (;;) {
    if (!visiting_) {
      bucket_ = cells.NextDue(bucket_, now);
      if (bucket_ == kMainBuckets) break;
      if (*budget == 0) return false;
      cells.Set(bucket_, kNever);
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
    cells.Lower(bucket_++, visited_);
    if (segments_ > 1) row->second.several = true;
  }
  bucket_ = 0;
  row->second.first = cells.first();
  return true;
}

// Reshapes a row that was swept: splits it if it covers several segments, merges it with empty neighbours. Returns the
// row after it.
ExpiryIndex::Rows::iterator ExpiryIndex::Reshape(Rows::iterator row) {
  Row& swept = row->second;
  round_ = std::min(round_, swept.first);
  if (swept.first != kNever) {
    if (!std::exchange(swept.several, false) || swept.bits >= 63) return std::next(row);
    return std::next(Halve(row));
  }
  DropCells(&swept);
  // Merges with the other half if that is empty too, repeatedly.
  while (row->second.bits > bits_) {
    const bool is_upper = (row->first & uint64_t{1} << (64 - row->second.bits)) != 0;
    const auto other = is_upper ? std::prev(row) : std::next(row);
    if (other->second.bits != row->second.bits || other->second.first != kNever) break;
    DropCells(&other->second);
    const auto lower = is_upper ? other : row;
    --lower->second.bits;
    row = std::prev(rows_.erase(std::next(lower)));
    AddBytes(-kRowBytes);
  }
  return std::next(row);
}

}  // namespace farlook::kv
