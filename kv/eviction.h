// Which item of a partition goes when a cache is full: S3-FIFO's shape, for each kind of block (block.h).
//
// An item begins young, in a queue. The queue has a tenth of the kind's items: its oldest either was touched, and is
// an old one from then on, or goes. Among the old ones a hand goes round in the order of their addresses; it takes one
// touch from each that it passes, and who has none goes. A key that was evicted young, and is put again since somebody
// missed it, begins old. So what is wanted once does not drive out what is wanted again and again.
//
// Kinds compete for memory by the age of what they evict: see ToRob().
//
// Memory: piece_marks.h; 8 bytes for each place in the queue, in all at most 1.2 % of the partition's share of the
// region; ghosts.h, at most 0.8 %.
//
// Thread safety: one thread at a time (the partition's lock), but for the figures.
#ifndef FARLOOK_KV_EVICTION_H_
#define FARLOOK_KV_EVICTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "kv/block.h"
#include "kv/figure.h"
#include "kv/ghosts.h"
#include "kv/limits.h"
#include "kv/piece_marks.h"

namespace farlook::kv {

inline constexpr size_t kBlockKinds = 4;

// Where a partition's pieces are.
class PieceWalk {
 public:
  virtual ~PieceWalk() = default;
  // The partition's first piece of this kind at `from` or after it. 0: there is none until the region's end; or
  // `*looks`, of which each step takes one, is 0: then *from is where to go on.
  virtual uint64_t Next(BlockKind kind, uint64_t* from, uint32_t* looks) const = 0;
};

class Eviction {
 public:
  struct Victim {
    uint64_t offset = 0;  // 0: none was found
    bool young = false;
    int64_t age_ns = 0;  // since it came, if it is young; since the hand was here, if it is old
  };

  // `marks` and `walk` outlive it. `region_bytes`: the partition's share.
  Eviction(PieceMarks* marks, const PieceWalk* walk, uint64_t region_bytes, int64_t now_ns);

  // ---- What becomes of pieces, whose items may be evicted.

  // `old`: it does not begin young.
  void Added(BlockKind kind, uint64_t offset, bool old, int64_t now_ns);
  // Those that it does not know are none of its business.
  void Removed(BlockKind kind, uint64_t offset);
  void Moved(BlockKind kind, uint64_t from, uint64_t to);
  void Used(uint64_t offset) { marks_->Touch(offset); }
  bool Knows(uint64_t offset) const { return (marks_->Get(offset) & PieceMarks::kEvictable) != 0; }
  bool IsOld(uint64_t offset) const { return Knows(offset) && (marks_->Get(offset) & PieceMarks::kYoung) == 0; }
  // A key that was missed is put again: whether it was evicted young, not long ago.
  bool Returns(uint64_t hash) {
    const bool returns = ghosts_.Take(hash);
    if (returns) ghost_hits_ += 1;
    return returns;
  }

  // ---- Making room.

  // What is to go next, which the caller removes, unless it is `spared`. Takes from *looks what it looks at; with 0 it
  // may find none though there are some.
  Victim Choose(BlockKind kind, uint64_t spared, int64_t now_ns, uint32_t* looks);
  // A victim was removed.
  void Evicted(BlockKind kind, const Victim& victim, uint64_t hash, int64_t now_ns);

  // Of which kind to evict if this one wants room: itself, but for one page's worth in a second another one, whose
  // victims are older by a quarter than those of the youngest, which is this one.
  BlockKind ToRob(BlockKind wanting, uint64_t bytes, int64_t now_ns);
  // The kind whose victims are oldest, of those that have any item.
  BlockKind Oldest(int64_t now_ns) const;

  // ---- Figures: any thread.

  struct Stats {
    uint64_t evictions = 0;
    uint64_t age_ms = 0;  // of the last ones, about
  };
  Stats stats(BlockKind kind) const { return {Of(kind).evictions.value(), Of(kind).age_ms.value()}; }
  uint64_t ghost_hits() const { return ghost_hits_.value(); }
  uint64_t memory_bytes() const { return memory_bytes_.value(); }

 private:
  // A piece in the queue: its offset, and when it came in ticks of 8 ms, modulo a month.
  class Entry {
   public:
    Entry(uint64_t offset, int64_t ns) : word_(offset / kGranuleBytes << kTickBits | (TickOf(ns) & kTickMask)) {}
    uint64_t offset() const { return (word_ >> kTickBits) * kGranuleBytes; }
    int64_t AgeNs(int64_t now_ns) const {
      return static_cast<int64_t>((TickOf(now_ns) - word_) & kTickMask) << kTickShift;
    }

   private:
    static constexpr int kTickBits = 28, kTickShift = 23;
    static constexpr uint64_t kTickMask = (uint64_t{1} << kTickBits) - 1;
    static uint64_t TickOf(int64_t ns) { return static_cast<uint64_t>(ns) >> kTickShift; }
    uint64_t word_;
  };
  struct Class {
    // In the order in which they came. Who is not young any more when its turn comes is passed over.
    std::deque<Entry> queue;
    uint64_t items = 0, young = 0;
    bool moved = true;     // the hand met one that it took a touch from, or chose, in this round
    uint64_t hand = 0;     // an offset: what is before it was passed in this round
    int64_t round_ns = 0;  // how long the last round took
    int64_t began_ns = 0;  // when this one did
    int64_t age_ns = -1;   // of what was evicted last, smoothed; -1: nothing was
    int64_t last_ns = 0;   // when something was evicted last
    Figure evictions, age_ms;
  };

  Class& Of(BlockKind kind) { return classes_[static_cast<size_t>(kind) - 1]; }
  const Class& Of(BlockKind kind) const { return classes_[static_cast<size_t>(kind) - 1]; }
  Victim ChooseYoung(Class* of, uint64_t spared, int64_t now_ns, uint32_t* looks);
  Victim ChooseOld(BlockKind kind, uint64_t spared, int64_t now_ns, uint32_t* looks);
  void MakeOld(Class* of, uint64_t offset, uint8_t touches);
  static int64_t AgeNs(const Class& of, int64_t now_ns);
  void Compare(int64_t now_ns);

  PieceMarks* const marks_;
  const PieceWalk* const walk_;
  const size_t most_young_;
  std::array<Class, kBlockKinds> classes_;
  Ghosts ghosts_;

  int64_t compared_ns_ = 0;
  const uint64_t robbed_in_a_second_;  // bytes, at most
  BlockKind robber_ = BlockKind::kSmall, robbed_ = BlockKind::kSmall;
  uint64_t to_rob_ = 0;  // bytes
  Figure ghost_hits_, memory_bytes_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_EVICTION_H_
