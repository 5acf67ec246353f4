// The expiry index: for each part of the index, the time when its first item expires. The sweep looks only at parts
// that are due.
//
// A row covers a range of positions (segment.h), as a segment does. It has a cell of four bytes for each main bucket:
// the tick, of 256 ms, in which the first of the bucket's items expires at the earliest. Rows are made where items
// expire, so a table without expiry has none. A row that covers several segments splits when an item is noted in it or
// when it is swept; two empty rows merge. So all rows together take a thirtieth of the index, half a byte for each
// item. A search for due buckets reads each row's head, a dozen of which lie together. In rows with something due it
// also reads a few lines of cells (expiry_cells.h).
//
// The sweep announces where it is going to look, so that the cache misses of several looks overlap.
//
// A cell may be early: its item was deleted, put again or touched. Then the sweep looks in vain once and corrects the
// cell. A cell is never late. After a split both halves of a row have the row's cells, which are early in one of them.
// Each item that is then noted there looks at one bucket and corrects its cell, before the sweep reaches it.
//
// See "The sweep" in docs/design-notes.md.
//
// Thread safety: one thread at a time (the partition's lock), except due() and bytes().
#ifndef FARLOOK_KV_EXPIRY_EXPIRY_H_
#define FARLOOK_KV_EXPIRY_EXPIRY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "kv/expiry/expiry_cells.h"
#include "kv/layout/segment.h"

namespace farlook::kv {

class ExpiryIndex {
 public:
  using Tick = ExpiryCells::Tick;
  static constexpr int kTickBits = 8;  // of milliseconds
  static constexpr Tick kNever = ExpiryCells::kNever;
  // The tick of a time of the server's clock.
  static constexpr Tick TickOf(uint64_t time_ms) { return static_cast<Tick>(time_ms >> kTickBits); }

  // Covers the positions whose top `bits` are `prefix`.
  ExpiryIndex(uint64_t prefix, int bits);

  // The tick in which the first item expires, or earlier. Items are swept after their tick has ended. Any thread.
  Tick due() const { return due_.load(std::memory_order_relaxed); }

  // One look at main bucket `bucket` of each segment that covers one of the positions from `first` to `last`, and at
  // its overflow buckets. Removes expired items. Stops when it has looked at `budget` buckets or more.
  struct Visit {
    uint64_t first, last;
    uint32_t bucket;
    size_t budget;
    // Set by the visitor.
    Tick next = kNever;   // the first tick in which one of the remaining items expires
    size_t looked = 0;    // number of buckets
    size_t segments = 0;  // number of segments
    bool done = true;     // false: the positions from `first` on, which the visitor updated, remain
  };
  using Visitor = absl::FunctionRef<void(Visit*)>;

  // Prefetches what visits of these places will read. The visits follow soon, or never.
  struct Place {
    uint64_t position;
    uint32_t bucket;
  };
  static constexpr size_t kForeseen = 8;  // maximum number of places
  using Foresight = absl::FunctionRef<void(absl::Span<const Place>)>;

  // Notes that the item of this hash expires at `expiry_ms`. `depth`: the segment that holds the hash covers the
  // positions that share `depth` top bits with it. May look at one bucket, where `look` must remove nothing.
  void Note(uint64_t hash, uint64_t expiry_ms, int depth, Visitor look);

  // One step of the sweep: looks at some `budget` buckets at most, or reads rows' heads that cost as much. Sweeps what
  // was due before `now`. Returns whether more remains to do now.
  bool Sweep(Tick now, size_t budget, Visitor visit, Foresight foresee);

  // Returns whether a round of Sweep() over all rows has begun and not finished.
  bool in_round() const { return in_round_; }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }  // any thread

 private:
  struct Row {
    std::unique_ptr<ExpiryCells> cells;  // null: kNever each
    Tick first = kNever;                 // of all cells, or earlier
    uint8_t bits = 0;                    // number of top bits that its positions share
    uint8_t inherited = kMainBuckets;    // cells from this one on may be inherited from a row that was split
    bool several = false;                // one visit found several segments
  };
  static_assert(kMainBuckets <= std::numeric_limits<uint8_t>::max());
  // Sorted by first position. A B-tree, whose nodes hold ten rows: the heads are read most, one after the other.
  using Rows = absl::btree_map<uint64_t, Row>;
  static constexpr size_t kRowBytes = 2 * sizeof(Rows::value_type);  // with its part of the nodes, which are not full
  static constexpr size_t kCellsBytes = sizeof(ExpiryCells);
  // The cost of reading a row's head is this part of the cost of looking at a bucket; searching its cells for due ones
  // costs as much as some heads. (In rows that were split all heads may be early at once with nothing due.)
  static constexpr size_t kHeadsForEachBucket = 16;
  static constexpr size_t kHeadsForCells = 4;

  uint64_t LastOf(const Rows::iterator& row) const;
  void Foresee(Rows::const_iterator row, Tick now, size_t budget, Foresight foresee) const;
  bool SweepRow(const Rows::iterator& row, Tick now, size_t* budget, Visitor visit);
  Rows::iterator Reshape(Rows::iterator row);
  Rows::iterator Halve(Rows::iterator row);
  void LookAtInherited(const Rows::iterator& row, Visitor look);
  void DropCells(Row* row);
  void AddBytes(size_t bytes) { bytes_.store(this->bytes() + bytes, std::memory_order_relaxed); }

  const uint64_t base_;
  const int bits_;
  Rows rows_;  // together they cover all positions; or it is empty
  std::atomic<Tick> due_{kNever};
  std::atomic<uint64_t> bytes_{0};

  // The round of the sweep in progress.
  bool in_round_ = false;
  uint64_t at_;          // the first position of the next row to look at
  Tick round_ = kNever;  // the first tick of the rows before it, at the time when they were swept
  Tick noted_ = kNever;  // the first tick that was noted since the round began
  // Within that row.
  uint32_t bucket_ = 0;    // the next bucket to look at
  bool visiting_ = false;  // its visit has begun: its cell is kNever, or what was noted since
  uint64_t position_ = 0;  // the position where the visit continues
  Tick visited_ = kNever;  // the first tick that the visit found so far
  size_t segments_ = 0;    // number of segments that the visit found so far
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_EXPIRY_EXPIRY_H_
