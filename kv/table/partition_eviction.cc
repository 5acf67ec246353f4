// Eviction from a full partition of a cache. eviction.h chooses the items.
//
// For readers an eviction is a delete, with the same order of stores. A write that needs room evicts under the
// partition's lock, some items at a time. If pieces of many lengths are wanted, evicted items leave holes. Some holes
// are always there, so that the next piece mostly finds one. Otherwise room is made by moving items, in steps.
#include "kv/layout/words.h"
#include "kv/table/partition.h"

namespace farlook::kv {
namespace {

// Number of pieces, and words of the page map, that one call looks at; some 10 ns each.
constexpr uint32_t kLooks = 4096;
// Items longer than this fraction (1 / kLargePart) of a partition's share evict from all partitions.
constexpr uint64_t kLargePart = 16;

}  // namespace

void Partition::NoteWritten(uint64_t hash, Slot slot, ItemLengths lengths, bool refill, bool was_old, int64_t now_ns) {
  const BlockKind kind = KindFor(slot.bytes());
  if (lengths.kind == ItemKind::kCounter || (lengths.flags & kKeepItem) != 0) {
    eviction_->Removed(kind, slot.offset());
  } else if (eviction_->Knows(slot.offset())) {
    eviction_->Used(slot.offset());
  } else {
    eviction_->Added(kind, slot.offset(), was_old || (refill && eviction_->Returns(hash)), now_ns);
  }
}

uint64_t Partition::EvictOne(BlockKind kind, uint64_t spared, int64_t now_ns, uint32_t* looks) {
  const Eviction::Victim victim = eviction_->Choose(kind, spared, now_ns, looks);
  if (victim.offset == 0) return 0;
  char* item = region_ + victim.offset;
  const uint64_t hash =
      (*hasher_)(item + kItemHeaderBytes, ItemLengths::From(LoadWord(item + kLengthsOffset)).key_bytes);
  const Found found{{index_.FindOffset(hash, victim.offset), item}};
  if (found.slot == nullptr) {
    eviction_->Removed(kind, victim.offset);
    return 0;
  }
  const uint64_t bytes = Slot(LoadWord(found.slot)).bytes();
  if (Expired(found)) {
    RemoveExpired(found, Merging::kLater, now_ns);
    return bytes;
  }
  Remove(found, Merging::kLater, now_ns);
  eviction_->Evicted(kind, victim, hash, now_ns);
  return bytes;
}

uint64_t Partition::EvictOldest(int64_t now_ns) {
  if (eviction_ == nullptr) return 0;
  uint32_t looks = kLooks;
  return EvictOne(eviction_->Oldest(now_ns), /*spared=*/0, now_ns, &looks);
}

// Evicts something for an item of `bytes`.
uint64_t Partition::EvictFor(uint64_t bytes, uint64_t spared, int64_t now_ns, uint32_t* looks) {
  const BlockKind wanting = KindFor(bytes);
  if (bytes < share_bytes_ / kLargePart) {
    const BlockKind kind = eviction_->ToRob(wanting, bytes, now_ns);
    uint64_t evicted = EvictOne(kind, spared, now_ns, looks);
    if (evicted == 0 && kind != wanting && *looks > 0) evicted = EvictOne(wanting, spared, now_ns, looks);
    if (evicted > 0 || *looks == 0) return evicted;
  }
  return compactor_->EvictAnywhere(number(), now_ns);
}

Code Partition::AllocateEvicting(const Want& want, SizeClass* size_class, uint64_t* offset) {
  const uint64_t bytes = SizeClassBytes(*size_class);
  const Claim claim = FirstClaim(want.claim);
  uint32_t looks = kLooks;
  int evictions = want.may_step ? kEvictionsOfAStep : kEvictionsAtOnce;
  while (compactor_->HolesAreFew(number(), bytes) || compactor_->Hopeless(number(), bytes, claim)) {
    if (evictions-- == 0) return Code::kMakingRoom;
    if (EvictFor(bytes, want.spared, want.now_ns, &looks) == 0) {
      if (looks == 0) return Code::kMakingRoom;
      break;  // the remaining items may not be evicted
    }
    *offset = heap_->Allocate(number(), bytes, claim);
    if (*offset != 0) {
      compactor_->Done(number(), true);
      return Code::kOk;
    }
  }
  const Code code = AllocateMoving(want, size_class, offset);
  if (code != Code::kNoMemory) return code;
  // The moves were not sufficient: more must be evicted.
  return EvictFor(bytes, want.spared, want.now_ns, &looks) > 0 || looks == 0 ? Code::kMakingRoom : Code::kNoMemory;
}

// Returns whether something was evicted because the index needs a unit that moving alone cannot provide.
bool Partition::EvictForUnit(int64_t now_ns, int* evictions) {
  if (eviction_ == nullptr || !compactor_->HopelessForUnit() || *evictions == 0) return false;
  --*evictions;
  uint32_t looks = kLooks;
  // The oldest item of any kind: the index has no kind.
  if (EvictOne(eviction_->Oldest(now_ns), /*spared=*/0, now_ns, &looks) > 0) return true;
  return looks > 0 && EvictFor(kSmallShape.most_bytes, /*spared=*/0, now_ns, &looks) > 0;
}

}  // namespace farlook::kv
