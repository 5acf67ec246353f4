// Choice of the item that a partition evicts when a cache is full: S3-FIFO's structure, for each kind of block
// (block.h).
//
// A new item is young and enters a queue, which holds a tenth of the kind's items. When an item reaches the queue's
// head, it becomes old if it was touched, and is evicted otherwise. A hand goes round the old items in the order of
// their addresses. It takes one touch from each item that it passes, and evicts an item without touches. A key that was
// evicted young, and is put again after a miss, begins old. So keys that are used once do not displace keys that are
// used repeatedly.
//
// Kinds compete for memory by the age of their victims: see ToRob().
//
// Memory: piece_marks.h; 8 bytes for each place in the queue, in all at most 1.2 % of the partition's share of the
// region; ghosts.h, at most 0.8 %.
//
// Thread safety: one thread at a time (the partition's lock), except for the figures.
#ifndef FARLOOK_KV_CACHE_EVICTION_H_
#define FARLOOK_KV_CACHE_EVICTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "kv/cache/ghosts.h"
#include "kv/cache/piece_marks.h"
#include "kv/heap/block.h"
#include "kv/heap/figure.h"
#include "kv/layout/limits.h"

namespace farlook::kv {

inline constexpr size_t kBlockKinds = 4;

// Enumerates a partition's pieces.
class PieceWalk {
 public:
  virtual ~PieceWalk() = default;
  // Returns the partition's first piece of this kind at `*from` or after it. 0: there is none before the region's end;
  // or `*looks`, which each step decrements, is 0: then *from is where to continue.
  virtual uint64_t Next(BlockKind kind, uint64_t* from, uint32_t* looks) const = 0;
};

class Eviction {
 public:
  struct Victim {
    uint64_t offset = 0;  // 0: none was found
    bool young = false;
    int64_t age_ns = 0;  // since it was added, if it is young; since the hand's last visit, if it is old
  };

  // `marks` and `walk` outlive it. `region_bytes`: the partition's share.
  Eviction(PieceMarks* marks, const PieceWalk* walk, uint64_t region_bytes, int64_t now_ns);

  // ---- Changes of pieces whose items may be evicted.

  // `old`: the piece does not begin young.
  void Added(BlockKind kind, uint64_t offset, bool old, int64_t now_ns);
  // Pieces that it does not know are ignored.
  void Removed(BlockKind kind, uint64_t offset);
  void Moved(BlockKind kind, uint64_t from, uint64_t to);
  void Used(uint64_t offset) { marks_->Touch(offset); }
  bool Knows(uint64_t offset) const { return (marks_->Get(offset) & PieceMarks::kEvictable) != 0; }
  bool IsOld(uint64_t offset) const { return Knows(offset) && (marks_->Get(offset) & PieceMarks::kYoung) == 0; }
  // Returns whether a key that is put again after a miss was evicted young not long ago.
  bool Returns(uint64_t hash) {
    const bool returns = ghosts_.Take(hash);
    if (returns) ghost_hits_ += 1;
    return returns;
  }

  // ---- Making room.

  // Returns the next victim, never `spared`; the caller removes it. Takes the number of pieces that it looks at from
  // *looks. With *looks at 0 it may find none though there are some.
  Victim Choose(BlockKind kind, uint64_t spared, int64_t now_ns, uint32_t* looks);
  // Reports that a victim was removed.
  void Evicted(BlockKind kind, const Victim& victim, uint64_t hash, int64_t now_ns);

  // Returns the kind to evict from if `wanting` needs room. Usually that is `wanting` itself, or the oldest kind if
  // `wanting` has no items. If `wanting` has the youngest victims, it may be the kind with the oldest ones. For that
  // they must be older by a quarter, and it applies to a limited number of bytes a second.
  BlockKind ToRob(BlockKind wanting, uint64_t bytes, int64_t now_ns);
  // The kind whose victims are oldest, among those that have any item.
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
  // A piece in the queue: its offset, and the time when it was added in ticks of 8 ms, modulo a month.
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
    // In the order of arrival. An entry whose piece is no longer young when its turn comes is skipped.
    std::deque<Entry> queue;
    uint64_t items = 0, young = 0;
    bool moved = true;     // in this round the hand took a touch from a piece, or chose one
    uint64_t hand = 0;     // an offset: pieces before it were passed in this round
    int64_t round_ns = 0;  // duration of the last round
    int64_t began_ns = 0;  // start of this round
    int64_t age_ns = -1;   // of the last victims, smoothed; -1: none yet
    int64_t last_ns = 0;   // time of the last eviction
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

#endif  // FARLOOK_KV_CACHE_EVICTION_H_
