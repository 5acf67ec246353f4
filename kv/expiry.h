// Where items may have expired: for each part of the index, when its first item expires. The sweep looks there, and
// nowhere else.
//
// A row covers a range of positions (segment.h), as a segment does, and has a cell of four bytes for each main bucket:
// the tick, of 256 ms, in which the first of the bucket's items expires at the earliest. Rows are made where items
// expire, so a table without expiry has none; one that covers more segments than one splits when an item is noted
// there, or as it is swept, and two that are empty merge. So all rows together take a thirtieth of the index, half a
// byte for each item. Whoever looks for what is due reads each row's head, a dozen of which lie together, and of the
// cells of those with something due a few lines (expiry_cells.h).
//
// The sweep says ahead where it is going to look, so that the cache misses of several looks overlap.
//
// A cell may be early: the item that it was for was deleted, put again, touched. Then the sweep looks in vain, once for
// each time that this is so, and knows better. It is never late. The halves of a row have its cells, which are early in
// one of them: the items that are noted there next look at a bucket each and set it right, before the sweep comes.
//
// See "The sweep" in docs/design-notes.md.
//
// Thread safety: one thread at a time (the partition's lock), but due().
#ifndef FARLOOK_KV_EXPIRY_H_
#define FARLOOK_KV_EXPIRY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "kv/expiry_cells.h"
#include "kv/segment.h"

namespace farlook::kv {

class ExpiryIndex {
 public:
  using Tick = ExpiryCells::Tick;
  static constexpr int kTickBits = 8;  // of milliseconds
  static constexpr Tick kNever = ExpiryCells::kNever;
  // In which tick a time of the server's clock lies.
  static constexpr Tick TickOf(uint64_t time_ms) { return static_cast<Tick>(time_ms >> kTickBits); }

  // Covers the positions whose top `bits` are `prefix`.
  ExpiryIndex(uint64_t prefix, int bits);

  // The tick in which the first item expires, or may: what is due is swept when it is over. Any thread.
  Tick due() const { return due_.load(std::memory_order_relaxed); }

  // Looks into main bucket `bucket` of each segment that covers one of the positions from `first` to `last`, and where
  // it continues; removes what has expired. Stops when it has looked at `budget` buckets or more.
  struct Visit {
    uint64_t first, last;
    uint32_t bucket;
    size_t budget;
    // Set by the visitor.
    Tick next = kNever;   // the first tick in which one of the others expires
    size_t looked = 0;    // at so many buckets
    size_t segments = 0;  // in so many segments
    bool done = true;     // otherwise the positions from `first` on, which it set, are to be looked at
  };
  using Visitor = absl::FunctionRef<void(Visit*)>;

  // Brings into cache what visits of these places will read, which are made soon, or never.
  struct Place {
    uint64_t position;
    uint32_t bucket;
  };
  static constexpr size_t kForeseen = 8;  // places, at most
  using Foresight = absl::FunctionRef<void(absl::Span<const Place>)>;

  // The item of this hash expires at `expiry_ms`; the segment that serves it covers the positions that have `depth` top
  // bits in common with it. May look at one bucket, where `look` is to remove nothing.
  void Note(uint64_t hash, uint64_t expiry_ms, int depth, Visitor look);

  // One step of the sweep, of at most some `budget` buckets, or as many rows' heads: sweeps what was due before `now`.
  // Returns whether there is more to do now.
  bool Sweep(Tick now, size_t budget, Visitor visit, Foresight foresee);

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }  // any thread

 private:
  struct Row {
    std::unique_ptr<ExpiryCells> cells;  // null: kNever each
    Tick first = kNever;                 // of all cells, or earlier
    uint8_t bits = 0;                    // that its positions have in common
    uint8_t inherited = kMainBuckets;    // its cells from this one on may be those of a row that was split
    bool several = false;                // segments were found by one visit
  };
  static_assert(kMainBuckets <= std::numeric_limits<uint8_t>::max());
  // By their first positions. A tree whose nodes hold ten of them: the heads are what is read most, one after the
  // other.
  using Rows = absl::btree_map<uint64_t, Row>;
  static constexpr size_t kRowBytes = 2 * sizeof(Rows::value_type);  // with its part of the nodes, which have room left
  static constexpr size_t kCellsBytes = sizeof(ExpiryCells);
  // Looking at a row's head costs this part of looking at a bucket; looking for what is due among its cells, as much as
  // some heads. (In rows that were split all heads may be early at once, and nothing be due.)
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
  Rows rows_;  // together they cover all; or there is none
  std::atomic<Tick> due_{kNever};
  std::atomic<uint64_t> bytes_{0};

  // The round of the sweep that is under way.
  bool in_round_ = false;
  uint64_t at_;          // the first position of the row that is to be looked at
  Tick round_ = kNever;  // the first tick of the rows before it, as it was when they were looked at
  Tick noted_ = kNever;  // the first that was noted since the round began
  // Within that row.
  uint32_t bucket_ = 0;    // the one that is to be looked at
  bool visiting_ = false;  // it was begun: its cell is kNever, but for what was noted since
  uint64_t position_ = 0;  // where it is gone on with
  Tick visited_ = kNever;  // what it found so far
  size_t segments_ = 0;    // the same
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_EXPIRY_H_
