// How a partition finds room: for a piece, and for a slot in the index. What it moves for that, and how.
#include "kv/compactor.h"
#include "kv/partition.h"
#include "kv/words.h"

namespace farlook::kv {

Code Partition::AllocateSlowly(const Want& want, SizeClass* size_class, uint64_t* offset) {
  return eviction_ == nullptr ? AllocateMoving(want, size_class, offset) : AllocateEvicting(want, size_class, offset);
}

Code Partition::AllocateMoving(const Want& want, SizeClass* size_class, uint64_t* offset) {
  const Slot old = want.old;
  const Claim claim = want.claim;
  const uint64_t bytes = SizeClassBytes(*size_class);
  const bool spare = !old.empty() && *size_class <= old.size_class() && heap_->SpareServes(old.bytes());
  // The price of the spare is one more copy of the item. To empty a window or a large block takes many.
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

// For a piece of the spare that will not have the old item's place: that changed since the memory was reserved.
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
    if (slot == nullptr && *code == Code::kNoMemory && (more || evicts_on)) {
      *code = Code::kMakingRoom;
    } else {
      compactor_->Done(number(), slot != nullptr);
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

// The same version at two places for a moment, with the same contents: the copy is alive before the slot leads to it,
// and the old one dead after. The old one's expiry is cleared last: a later move back must not find one that fits.
void Partition::MoveCopied(char* slot, uint64_t from_offset, uint64_t to_offset) {
  char *from = region_ + from_offset, *to = region_ + to_offset;
  const uint64_t version = LoadWord(from + kVersionOffset);
  const Slot old(LoadWord(slot));
  const Slot moved(old.fingerprint(), old.size_class(), to_offset);
  StoreWord(to + kExpiryOffset, LoadWord(from + kExpiryOffset));
  StoreWord(to + kVersionOffset, version);
  StoreWord(slot, moved.word());
  StoreWord(from + kVersionOffset, version | kDeadBit);
  StoreWord(from + kChecksumOffset, moved.word());  // a hint for who remembers the old place
  StoreWord(from + kExpiryOffset, 0);
  if (eviction_ != nullptr) eviction_->Moved(KindFor(old.bytes()), from_offset, to_offset);
  moved_items_ += 1;
}

}  // namespace farlook::kv
