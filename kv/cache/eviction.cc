#include "kv/cache/eviction.h"

#include <algorithm>
#include <utility>

#include "kv/layout/region.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kYoungShare = 10;  // a tenth
constexpr int64_t kComparedNs = 1'000'000'000;
// The newest age has a weight of 1 / kSmoothing in the smoothed age.
constexpr int64_t kSmoothing = 64;
constexpr uint64_t kLeastYoung = 1024;

}  // namespace

Eviction::Eviction(PieceMarks* marks, const PieceWalk* walk, uint64_t region_bytes, int64_t now_ns)
    : marks_(marks),
      walk_(walk),
      most_young_(std::max(region_bytes / 128 / sizeof(Entry), kLeastYoung)),
      ghosts_(region_bytes / 128),
      robbed_in_a_second_(std::clamp<uint64_t>(region_bytes / 64, kUnitBytes, kPageBytes)) {
  for (Class& of : classes_) of.began_ns = of.last_ns = now_ns;
}

void Eviction::MakeOld(Class* of, uint64_t offset, uint8_t touches) {
  marks_->Set(offset, PieceMarks::kEvictable | touches);
  of->young -= 1;
}

void Eviction::Added(BlockKind kind, uint64_t offset, bool old, int64_t now_ns) {
  Class& of = Of(kind);
  of.items += 1;
  if (old) return marks_->Set(offset, PieceMarks::kEvictable);
  if (of.queue.size() >= most_young_) {
    const uint64_t oldest = of.queue.front().offset();
    of.queue.pop_front();
    const uint8_t marks = marks_->Get(oldest);
    if ((marks & PieceMarks::kYoung) != 0) MakeOld(&of, oldest, marks & PieceMarks::kTouches);
  }
  marks_->Set(offset, PieceMarks::kEvictable | PieceMarks::kYoung);
  of.queue.emplace_back(offset, now_ns);
  of.young += 1;
}

void Eviction::Removed(BlockKind kind, uint64_t offset) {
  const uint8_t marks = marks_->Get(offset);
  if ((marks & PieceMarks::kEvictable) == 0) return;
  Of(kind).items -= 1;
  if ((marks & PieceMarks::kYoung) != 0) Of(kind).young -= 1;
  marks_->Set(offset, 0);
}

void Eviction::Moved(BlockKind kind, uint64_t from, uint64_t to) {
  const uint8_t marks = marks_->Get(from);
  // Its place in the queue is bound to the old piece, so it is no longer young.
  if ((marks & PieceMarks::kYoung) != 0) Of(kind).young -= 1;
  marks_->Set(from, 0);
  marks_->Set(to, marks & ~PieceMarks::kYoung);
}

Eviction::Victim Eviction::ChooseYoung(Class* of, uint64_t spared, int64_t now_ns, uint32_t* looks) {
  for (; !of->queue.empty() && *looks > 0; --*looks) {
    const Entry entry = of->queue.front();
    of->queue.pop_front();
    const uint64_t offset = entry.offset();
    const uint8_t marks = marks_->Get(offset);
    if ((marks & PieceMarks::kYoung) == 0) continue;
    if ((marks & PieceMarks::kTouches) == 0 && offset != spared) return {offset, true, entry.AgeNs(now_ns)};
    MakeOld(of, offset, 0);
  }
  return {};
}

Eviction::Victim Eviction::ChooseOld(BlockKind kind, uint64_t spared, int64_t now_ns, uint32_t* looks) {
  Class& of = Of(kind);
  while (*looks > 0) {
    const uint64_t offset = walk_->Next(kind, &of.hand, looks);
    if (offset == 0) {
      if (*looks == 0) break;
      --*looks;
      of.hand = 0;
      of.round_ns = now_ns - of.began_ns;
      of.began_ns = now_ns;
      if (!std::exchange(of.moved, false)) break;  // no item is left except `spared` and unknown ones
      continue;
    }
    of.hand = offset + kGranuleBytes;
    const uint8_t marks = marks_->Get(offset);
    if ((marks & PieceMarks::kEvictable) == 0 || (marks & PieceMarks::kYoung) != 0 || offset == spared) continue;
    of.moved = true;
    if ((marks & PieceMarks::kTouches) == 0) {
      return {offset, false, std::max(of.round_ns, now_ns - of.began_ns)};
    }
    marks_->Set(offset, marks - 1);
  }
  return {};
}

Eviction::Victim Eviction::Choose(BlockKind kind, uint64_t spared, int64_t now_ns, uint32_t* looks) {
  Class& of = Of(kind);
  if (of.items == 0) return {};
  if (of.young * kYoungShare > of.items) {
    const Victim young = ChooseYoung(&of, spared, now_ns, looks);
    if (young.offset != 0) return young;
  }
  if (of.items > of.young) {
    const Victim old = ChooseOld(kind, spared, now_ns, looks);
    if (old.offset != 0) return old;
  }
  return ChooseYoung(&of, spared, now_ns, looks);
}

void Eviction::Evicted(BlockKind kind, const Victim& victim, uint64_t hash, int64_t now_ns) {
  Class& of = Of(kind);
  if (victim.young) {
    uint64_t items = 0;
    for (const Class& each : classes_) items += each.items;
    ghosts_.Add(hash, items);
  }
  of.age_ns = of.age_ns < 0 ? victim.age_ns : of.age_ns + (victim.age_ns - of.age_ns) / kSmoothing;
  of.last_ns = now_ns;
  of.evictions += 1;
  of.age_ms = static_cast<uint64_t>(of.age_ns / 1'000'000);
}

// The victims of a kind from which nothing is evicted grow older and older.
int64_t Eviction::AgeNs(const Class& of, int64_t now_ns) {
  return std::max<int64_t>(of.age_ns, 0) + now_ns - of.last_ns;
}

void Eviction::Compare(int64_t now_ns) {
  compared_ns_ = now_ns;
  to_rob_ = 0;
  uint64_t memory = ghosts_.bytes();
  for (const Class& of : classes_) memory += of.queue.size() * sizeof(Entry);
  memory_bytes_ = memory;
  const Class *youngest = nullptr, *oldest = nullptr;
  for (const Class& of : classes_) {
    if (of.items == 0) continue;
    if (youngest == nullptr || AgeNs(of, now_ns) < AgeNs(*youngest, now_ns)) youngest = &of;
    if (oldest == nullptr || AgeNs(of, now_ns) > AgeNs(*oldest, now_ns)) oldest = &of;
  }
  if (youngest == nullptr || AgeNs(*oldest, now_ns) <= AgeNs(*youngest, now_ns) / 4 * 5) return;
  robber_ = static_cast<BlockKind>(youngest - classes_.data() + 1);
  robbed_ = static_cast<BlockKind>(oldest - classes_.data() + 1);
  to_rob_ = robbed_in_a_second_;
}

BlockKind Eviction::ToRob(BlockKind wanting, uint64_t bytes, int64_t now_ns) {
  if (now_ns - compared_ns_ >= kComparedNs) Compare(now_ns);
  if (to_rob_ > 0 && wanting == robber_ && Of(robbed_).items > 0) {
    to_rob_ -= std::min(to_rob_, bytes);
    return robbed_;
  }
  // A kind without items takes the room of another kind.
  return Of(wanting).items > 0 ? wanting : Oldest(now_ns);
}

BlockKind Eviction::Oldest(int64_t now_ns) const {
  const Class* oldest = &classes_[0];
  for (const Class& of : classes_) {
    if (of.items > 0 && (oldest->items == 0 || AgeNs(of, now_ns) > AgeNs(*oldest, now_ns))) oldest = &of;
  }
  return static_cast<BlockKind>(oldest - classes_.data() + 1);
}

}  // namespace farlook::kv
