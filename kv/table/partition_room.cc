// Finding room in a partition, for a piece and for a slot in the index, and moving items for that.
#include "kv/heap/compactor.h"
#include "kv/layout/region.h"
#include "kv/layout/words.h"
#include "kv/table/partition.h"

namespace farlook::kv {

// Expired items are removed before others are moved or evicted. The old item may be among them.
Code Partition::AllocateSlowly(const Want& want, SizeClass* size_class, uint64_t* offset) {
  const uint64_t removed = expired_items_.value();
  const bool more = SweepSome(want.now_ns);
  if (expired_items_.value() != removed) {
    *offset = heap_->Allocate(number(), SizeClassBytes(*size_class), FirstClaim(want.claim));
    if (*offset != 0) return Code::kOk;
  }
  if (more && eviction_ == nullptr) return Code::kMakingRoom;
  const Code code =
      eviction_ == nullptr ? AllocateMoving(want, size_class, offset) : AllocateEvicting(want, size_class, offset);
  if (code != Code::kNoMemory) return code;
  return more ? Code::kMakingRoom : NoRoom(want.may_step);
}

// A write that may make steps has waited: its caller knows since when, and asks Table::Swept().
Code Partition::NoRoom(bool may_step) const {
  if (may_step || sweeps_ == nullptr || compactor_->Swept(sweeps_->NowUs())) return Code::kNoMemory;
  return Code::kMakingRoom;
}

Code Partition::AllocateMoving(const Want& want, SizeClass* size_class, uint64_t* offset) {
  const Slot old = want.old;
  const Claim claim = want.claim;
  const uint64_t bytes = SizeClassBytes(*size_class);
  const bool spare = !old.empty() && *size_class <= old.size_class() && heap_->SpareServes(old.bytes());
  // The spare costs one more copy of the item. Emptying a window or a large block costs many.
  const bool spare_first = spare && old.bytes() > kMediumShape.most_bytes;
  if (!want.may_step && !spare_first) {
    return !spare && compactor_->Hopeless(number(), bytes, claim) ? Code::kNoMemory : Code::kMakingRoom;
  }
  StepBudget budget;
  while (budget.left()) {
    const bool more = !spare_first && compactor_->Step(number(), bytes, claim, &budget);
    *offset = heap_->Allocate(number(), bytes, claim);
    if (*offset == 0 && !more && spare) {
      *offset = heap_->Lend(number(), old.bytes());
      if (*offset != 0) *size_class = old.size_class();
    }
    if (*offset != 0 || (!more && !spare)) {
      compactor_->Done(number(), *offset != 0);
      return *offset != 0 ? Code::kOk : Code::kNoMemory;
    }
    if (!more && (!want.may_step || !compactor_->StepForSpare(number(), &budget))) break;
  }
  return Code::kMakingRoom;
}

// Makes a step towards the units that are set aside for the index.
Code Partition::SetAside(int64_t now_ns) {
  if (heap_->HasUnitsAside()) return Code::kOk;
  const bool more = SweepSome(now_ns);
  StepBudget budget;
  while (!heap_->HasUnitsAside()) {
    if (!budget.left()) return Code::kMakingRoom;
    if (!compactor_->StepForAside(number(), &budget)) {
      compactor_->Done(number(), false);
      return more ? Code::kMakingRoom : Code::kNoMemory;
    }
  }
  compactor_->Done(number(), true);
  return Code::kOk;
}

// Provides a home for an item in the spare that cannot take the old item's place: that changed since the memory was
// reserved.
Code Partition::FindHome(Slot lent, const Want& want) {
  SizeClass size_class = lent.size_class();
  uint64_t home = heap_->Allocate(number(), lent.bytes(), FirstClaim(want.claim));
  const Code code = home != 0 ? Code::kOk : AllocateSlowly(want, &size_class, &home);
  if (code == Code::kOk) heap_->KeepHome(home);
  return code;
}

char* Partition::FindRoom(uint64_t hash, int64_t now_ns, bool may_step, Code* code) {
  char* slot = index_.FindRoom(hash, now_ns, code);
  if (slot == nullptr && *code == Code::kNoMemory) {
    const bool sweeps_on = SweepSome(now_ns);
    slot = index_.FindRoom(hash, now_ns, code);
    StepBudget budget;
    int evictions = may_step ? kEvictionsOfAStep : kEvictionsAtOnce;
    while (slot == nullptr && *code == Code::kNoMemory && EvictForUnit(now_ns, &evictions)) {
      slot = index_.FindRoom(hash, now_ns, code);
    }
    const bool evicts_on = evictions == 0;
    bool more = may_step || !compactor_->HopelessForUnit();
    while (slot == nullptr && *code == Code::kNoMemory && more && may_step && budget.left()) {
      more = compactor_->StepForUnit(number(), &budget);
      slot = index_.FindRoom(hash, now_ns, code);
    }
    if (slot == nullptr && *code == Code::kNoMemory && (more || evicts_on || sweeps_on)) {
      *code = Code::kMakingRoom;
    } else {
      compactor_->Done(number(), slot != nullptr);
      if (slot == nullptr && *code == Code::kNoMemory) *code = NoRoom(may_step);
    }
  }
  TakeIndexFigures();
  return slot;
}

char* Partition::SlotOfItemAt(uint64_t offset) {
  const char* item = region_ + offset;
  const ItemLengths lengths = ItemLengths::From(LoadWord(item + kLengthsOffset));
  if (lengths.key_bytes > kMaxKeyBytes) return nullptr;  // it never had an item
  return index_.FindOffset((*hasher_)(item + kItemHeaderBytes, lengths.key_bytes), offset);
}

bool Partition::CopyItem(uint64_t from_offset, uint64_t to_offset, uint64_t most, uint64_t* copied) {
  char *from = region_ + from_offset, *to = region_ + to_offset;
  const ItemLengths lengths = ItemLengths::From(LoadWord(from + kLengthsOffset));
  const uint64_t bytes = ItemBytes(lengths.key_bytes, lengths.value_bytes);
  uint64_t at = *copied;
  if (at == 0) {
    StoreWord(to + kVersionOffset, LoadWord(from + kVersionOffset) | kDeadBit);
    StoreWord(to + kChecksumOffset, LoadWord(from + kChecksumOffset));
    at = kLengthsOffset;
  }
  for (const uint64_t end = bytes - at > most ? at + most / 8 * 8 : bytes; at < end; at += 8) {
    StoreWord(to + at, LoadWord(from + at));
  }
  *copied = at;
  return at >= bytes;
}

// For a moment the same version is at two places, with the same contents: the copy is alive before the slot leads to
// it, and the old one dead afterwards. The old one's expiry is cleared last: a later move back must not find one that
// matches.
void Partition::MoveCopied(char* slot, uint64_t from_offset, uint64_t to_offset) {
  char *from = region_ + from_offset, *to = region_ + to_offset;
  const uint64_t version = LoadWord(from + kVersionOffset);
  const Slot old(LoadWord(slot));
  const Slot moved(old.fingerprint(), old.size_class(), to_offset);
  StoreWord(to + kExpiryOffset, LoadWord(from + kExpiryOffset));
  // If the server ends before the last store below, one of the two stays alive without a slot: a later server ends it.
  StoreWord(marks_ + kMoveFrom, from_offset);
  StoreWord(marks_ + kMoveTo, to_offset);
  StoreWord(to + kVersionOffset, version);
  StoreWord(slot, moved.word());
  StoreWord(from + kVersionOffset, version | kDeadBit);
  StoreWord(from + kChecksumOffset, moved.word());  // a hint for readers that remember the old place
  StoreWord(from + kExpiryOffset, 0);
  if (eviction_ != nullptr) eviction_->Moved(KindFor(old.bytes()), from_offset, to_offset);
  moved_items_ += 1;
}

}  // namespace farlook::kv
