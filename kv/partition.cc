#include "kv/partition.h"

#include <cstring>

#include "kv/region.h"
#include "kv/words.h"

namespace farlook::kv {
namespace {

// Up to this size an item is put together in private memory, so that its checksum is taken from there.
constexpr uint64_t kScratchBytes = 8192;

// The largest piece that is written in place.
constexpr SizeClass kLargestRewritten = SizeClassFor(kRedoBytes);
static_assert(SizeClassBytes(kLargestRewritten) == kRedoBytes, "a redo piece holds what fits into such a piece");

// Whether a put looks for another piece first, although its item fits: it would waste more than half of the old one. Up
// to kLargestRewritten the classes are a granule apart.
bool Wastes(SizeClass piece, SizeClass needed) { return 2 * (needed + 1) < piece + 1; }

uint64_t ExpiryFor(const PutParams& params, uint64_t old_expiry_ms) {
  return params.keep_ttl && old_expiry_ms != 0 ? old_expiry_ms : params.expiry_ms;
}

bool WantsPresent(Condition condition) { return condition == Condition::kPresent || condition == Condition::kVersion; }

}  // namespace

Partition::Partition(absl::Span<char> region, const Hasher* hasher, Heap* heap, Compactor* compactor,
                     SegmentPool* segments, SharedDirectory* directory, uint64_t prefix, int bits,
                     const TableOptions& options)
    : region_(region.data()),
      marks_(region.data() + RegionHeader::For(region.size(), options.partitions).MarksOf(prefix)),
      redo_(region.data() + RegionHeader::For(region.size(), options.partitions).RedoOf(prefix)),
      hasher_(hasher),
      prefix_(prefix),
      bits_(bits),
      max_value_bytes_(options.max_value_bytes),
      clock_(options.clock),
      largest_rewritten_(options.rewrites ? kLargestRewritten : -1),
      index_(region.data(), hasher, segments, directory, {prefix, bits, region.size()}),
      heap_(heap),
      compactor_(compactor),
      expiry_(prefix, bits),
      versions_(options.first_version >> bits),
      marked_versions_(versions_),
      scratch_(kScratchBytes) {}

bool Partition::Init() {
  const bool ok = index_.Init();
  TakeIndexFigures();
  return ok;
}

void Partition::TakeIndexFigures() {
  splits_ = index_.splits();
  merges_ = index_.merges();
  segment_moves_ = index_.moves();
  overflow_keys_ = index_.overflow_keys();
}

// A later server goes on from the mark, so no version is used before the mark covers it.
void Partition::RaiseVersionMark() {
  marked_versions_ = versions_ + kVersionsPerMark;
  StoreWord(marks_ + kVersionMark, marked_versions_ << bits_ | prefix_);
}

Partition::Found Partition::Find(uint64_t hash, absl::string_view key) const {
  Found found;
  found.slot = index_.Find(hash, key, &found.item);
  return found;
}

bool Partition::Expired(const Found& found) const {
  const uint64_t expiry_ms = found.expiry_ms();
  if (expiry_ms == 0) [[likely]]
    return false;
  // A counter lives until the sweep hands it over: who knows its cell does not look at its item.
  return clock_ != nullptr && found.lengths().kind != ItemKind::kCounter && HasExpired(expiry_ms, clock_->NowUs());
}

WriteResult Partition::Check(const Found& found, bool expired, Condition condition, uint64_t version,
                             ItemKind kind) const {
  WriteResult result;
  if (found.slot == nullptr || expired) {
    result.code = WantsPresent(condition) ? Code::kNotFound : Code::kOk;
    return result;
  }
  result.version = found.version();
  result.slot = Slot(LoadWord(found.slot));
  if (found.lengths().kind != kind) {
    result.code = Code::kWrongKind;
  } else if (condition == Condition::kAbsent) {
    result.code = Code::kExists;
  } else if (condition == Condition::kVersion && version != result.version) {
    result.code = Code::kVersionMismatch;
  }
  return result;
}

Code Partition::AllocateSlowly(uint64_t bytes, Claim claim, bool may_step, uint64_t* offset) {
  if (!may_step) {
    return compactor_->Hopeless(number(), bytes, claim) ? Code::kNoMemory : Code::kMakingRoom;
  }
  StepBudget budget;
  while (budget.left()) {
    const bool more = compactor_->Step(number(), bytes, claim, &budget);
    *offset = heap_->Allocate(number(), bytes, claim);
    if (*offset != 0 || !more) {
      compactor_->Done(number(), *offset != 0);
      return *offset != 0 ? Code::kOk : Code::kNoMemory;
    }
  }
  return Code::kMakingRoom;
}

char* Partition::FindRoom(uint64_t hash, int64_t now_ns, bool may_step, Code* code) {
  char* slot = index_.FindRoom(hash, now_ns, code);
  if (slot == nullptr && *code == Code::kNoMemory) {
    StepBudget budget;
    bool more = may_step || !compactor_->HopelessForUnit();
    while (slot == nullptr && *code == Code::kNoMemory && more && may_step && budget.left()) {
      more = compactor_->StepForUnit(number(), &budget);
      slot = index_.FindRoom(hash, now_ns, code);
    }
    if (slot == nullptr && *code == Code::kNoMemory && more) {
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

// The same version at two places for a moment, with the same contents: the copy is alive before the slot leads to it,
// and the old one dead after. The old one's expiry is cleared last: a later move back must not find one that fits.
void Partition::MoveItem(char* slot, uint64_t from_offset, uint64_t to_offset) {
  char *from = region_ + from_offset, *to = region_ + to_offset;
  const ItemLengths lengths = ItemLengths::From(LoadWord(from + kLengthsOffset));
  const uint64_t version = LoadWord(from + kVersionOffset);
  const uint64_t bytes = ItemBytes(lengths.key_bytes, lengths.value_bytes);
  const Slot old(LoadWord(slot));
  const Slot moved(old.fingerprint(), old.size_class(), to_offset);
  StoreWord(to + kVersionOffset, version | kDeadBit);
  StoreWord(to + kChecksumOffset, LoadWord(from + kChecksumOffset));
  for (uint64_t i = kLengthsOffset; i < bytes; i += 8) StoreWord(to + i, LoadWord(from + i));
  StoreWord(to + kExpiryOffset, LoadWord(from + kExpiryOffset));
  StoreWord(to + kVersionOffset, version);
  StoreWord(slot, moved.word());
  StoreWord(from + kVersionOffset, version | kDeadBit);
  StoreWord(from + kChecksumOffset, moved.word());  // a hint for who remembers the old place
  StoreWord(from + kExpiryOffset, 0);
  moved_items_ += 1;
}

Code Partition::Reserve(uint64_t hash, absl::string_view key, uint64_t value_bytes, Reservation* reservation,
                        bool may_step) {
  if (value_bytes > max_value_bytes_) return Code::kTooLarge;
  const SizeClass size_class = SizeClassFor(ItemBytes(key.size(), value_bytes));
  const Claim claim = Find(hash, key).slot == nullptr ? Claim::kNewKey : Claim::kOverwrite;
  uint64_t offset;
  const Code code = Allocate(SizeClassBytes(size_class), claim, may_step, &offset);
  if (code != Code::kOk) return code;
  heap_->Pin(offset);
  char* item = region_ + offset;
  StoreWord(item + kVersionOffset, kDeadBit);
  const ItemLengths lengths{static_cast<uint16_t>(key.size()), ItemKind::kValue, 0, static_cast<uint32_t>(value_bytes)};
  StoreWord(item + kLengthsOffset, lengths.word());
  StoreBytes(item + kItemHeaderBytes, key.data(), key.size());
  reservation->slot = Slot(FingerprintOf(hash), size_class, offset);
  reservation->hash = hash;
  reservation->value = {item + ValueOffset(key.size()), value_bytes};
  return Code::kOk;
}

void Partition::Abandon(const Reservation& reservation) {
  heap_->Unpin(reservation.slot.offset());
  Free(reservation.slot);
}

// The body of the new item, but its checksum, is in place and its version says DEAD.
WriteResult Partition::Link(const Reservation& reservation, Found found, ItemLengths lengths, uint64_t version,
                            bool must_live, int64_t now_ns, bool may_step) {
  const uint64_t offset = reservation.slot.offset();
  const bool is_new = found.slot == nullptr;
  if (is_new) {
    Code code = Code::kOk;
    found.slot = FindRoom(reservation.hash, now_ns, may_step, &code);
    if (found.slot == nullptr) return {code, 0, Slot()};
    keys_ += 1;
    key_bytes_ += lengths.key_bytes;
  } else {
    if (!Kill(found, must_live, now_ns)) return {Code::kNotFound, 0, Slot()};
    value_bytes_ -= found.lengths().value_bytes;
  }
  const Slot old = is_new ? Slot() : Slot(LoadWord(found.slot));
  StoreWord(found.slot, reservation.slot.word());
  StoreWord(region_ + offset + kVersionOffset, version);  // here the write takes effect
  value_bytes_ += lengths.value_bytes;
  puts_ += 1;
  if (!is_new) {
    StoreWord(found.item, reservation.slot.word());  // for who remembers the old place
    Free(old);
  }
  return {Code::kOk, version, reservation.slot};
}

// A put on condition that the key is there must not succeed after a reader concluded that the item had expired. Such a
// reader saw it alive at a time when the clock had come so far. So the clock is looked at when no reader can see it
// alive any more.
bool Partition::Kill(const Found& found, bool must_live, int64_t now_ns) {
  const uint64_t dead = found.version() | kDeadBit;
  if (!must_live) [[likely]] {
    StoreWord(found.item + kVersionOffset, dead);
    return true;
  }
  StoreWordFenced(found.item + kVersionOffset, dead);
  if (!Expired(found)) return true;
  RemoveExpired(found, now_ns);
  return false;
}

void Partition::Remove(const Found& found, int64_t now_ns) {
  const ItemLengths lengths = found.lengths();
  const Slot slot(LoadWord(found.slot));
  StoreWord(found.item + kVersionOffset, found.version() | kDeadBit);  // here the delete takes effect
  StoreWord(found.slot, 0);
  Free(slot);
  keys_ -= 1;
  key_bytes_ -= lengths.key_bytes;
  value_bytes_ -= lengths.value_bytes;
  index_.Removed(found.slot, now_ns);
  TakeIndexFigures();
}

void Partition::RemoveExpired(const Found& found, int64_t now_ns) {
  Remove(found, now_ns);
  expired_items_ += 1;
}

void Partition::StoreDead(char* to, const Image& image) {
  StoreWord(to + kVersionOffset, image.version | kDeadBit);
  StoreWord(to + kChecksumOffset, image.checksum);
  StoreBytes(to + kLengthsOffset, image.bytes + kLengthsOffset, (image.size - kLengthsOffset + 7) / 8 * 8);
  StoreWord(to + kExpiryOffset, image.expiry);
}

// Writes the item where the old one is. Were the server to end in between, the redo piece has what the piece should
// have: so the copy is whole before the target says for which piece it is, and bears DEAD, since a reader may look
// there.
WriteResult Partition::Rewrite(const Found& found, const Image& image, bool must_live, int64_t now_ns) {
  const uint64_t slot = LoadWord(found.slot);
  StoreWord(marks_ + kRedoTarget, 0);
  StoreDead(redo_, image);
  StoreWord(marks_ + kRedoTarget, slot);
  if (must_live && !Kill(found, must_live, now_ns)) return {Code::kNotFound, 0, Slot()};
  value_bytes_ += LoadAs<uint32_t>(image.bytes + kLengthsOffset + 4) - uint64_t{found.lengths().value_bytes};
  StoreDead(found.item, image);
  StoreWord(found.item + kVersionOffset, image.version);  // here it takes effect
  puts_ += 1;
  rewrites_ += 1;
  return {Code::kOk, image.version, Slot(slot)};
}

WriteResult Partition::Publish(const Reservation& reservation, const PutParams& params, int64_t now_ns) {
  char* item = region_ + reservation.slot.offset();
  ItemLengths lengths = ItemLengths::From(LoadWord(item + kLengthsOffset));
  const Found found = Find(reservation.hash, {item + kItemHeaderBytes, lengths.key_bytes});
  const bool expired = found.slot != nullptr && Expired(found);
  WriteResult result = Check(found, expired, params.condition, params.version, ItemKind::kValue);
  if (result.code != Code::kOk) {
    if (expired) RemoveExpired(found, now_ns);
    Abandon(reservation);
    return result;
  }
  const uint64_t old_expiry_ms = found.slot == nullptr || expired ? 0 : found.expiry_ms();
  const uint64_t new_version = NextVersion();
  StoreWord(item + kVersionOffset, new_version | kDeadBit);
  lengths.flags = params.flags;
  StoreWord(item + kLengthsOffset, lengths.word());
  const uint64_t bytes = ItemBytes(lengths.key_bytes, lengths.value_bytes);
  const absl::string_view head(reinterpret_cast<const char*>(&new_version), sizeof new_version);
  StoreWord(item + kChecksumOffset, (*hasher_)(head, {item + kLengthsOffset, bytes - kLengthsOffset}));
  StoreWord(item + kExpiryOffset, ExpiryWord(new_version, ExpiryFor(params, old_expiry_ms)));
  const bool must_live = WantsPresent(params.condition) && old_expiry_ms != 0;
  result = Link(reservation, found, lengths, new_version, must_live, now_ns, params.may_step);
  if (result.code == Code::kOk) {
    heap_->Unpin(reservation.slot.offset());
  } else if (result.code != Code::kMakingRoom) {
    Abandon(reservation);
  }
  return Noted(reservation.hash, params.expiry_ms, result);
}

WriteResult Partition::Put(uint64_t hash, absl::string_view key, absl::string_view value, const PutParams& params,
                           int64_t now_ns) {
  return Noted(hash, params.expiry_ms, PutItem(hash, key, value, ItemKind::kValue, params, now_ns));
}

// A counter's item is written once and never replaced, so what it says about its cell is true as long as it is alive.
WriteResult Partition::InsertCounter(uint64_t hash, absl::string_view key, uint64_t cell, uint64_t expiry_ms,
                                     int64_t now_ns) {
  const absl::string_view value(reinterpret_cast<const char*>(&cell), sizeof cell);
  const PutParams params{Condition::kAbsent, /*version=*/0, expiry_ms};
  return Noted(hash, expiry_ms, PutItem(hash, key, value, ItemKind::kCounter, params, now_ns));
}

// The item as it will be, in private memory.
Partition::Image Partition::Compose(absl::string_view key, absl::string_view value, ItemLengths lengths,
                                    uint64_t expiry_ms) {
  char* s = scratch_.data();
  Image image;
  image.bytes = s;
  image.size = ItemBytes(key.size(), value.size());
  image.version = NextVersion();
  image.expiry = ExpiryWord(image.version, expiry_ms);
  StoreAs(s + kVersionOffset, image.version);
  StoreAs(s + kLengthsOffset, lengths.word());
  // The padding; before what it follows, which may cover all of it.
  StoreAs(s + (image.size - 1) / 8 * 8, uint64_t{0});
  StoreAs(s + ValueOffset(key.size()) - 8, uint64_t{0});
  std::memcpy(s + kItemHeaderBytes, key.data(), key.size());
  if (!value.empty()) std::memcpy(s + ValueOffset(key.size()), value.data(), value.size());
  image.checksum = ItemChecksum(*hasher_, s, image.size);
  return image;
}

WriteResult Partition::PutItem(uint64_t hash, absl::string_view key, absl::string_view value, ItemKind kind,
                               const PutParams& params, int64_t now_ns) {
  Found found = Find(hash, key);
  const bool expired = found.slot != nullptr && Expired(found);
  WriteResult result = Check(found, expired, params.condition, params.version, kind);
  if (result.code != Code::kOk) {
    if (expired) RemoveExpired(found, now_ns);
    return result;
  }
  if (value.size() > max_value_bytes_ && kind == ItemKind::kValue) return {Code::kTooLarge, 0, Slot()};
  const uint64_t bytes = ItemBytes(key.size(), value.size());
  if (bytes > kScratchBytes) {
    Reservation reservation;
    result.code = Reserve(hash, key, value.size(), &reservation, params.may_step);
    if (result.code != Code::kOk) return {result.code, 0, Slot()};
    StoreBytes(reservation.value.data(), value.data(), value.size());
    result = Publish(reservation, params, now_ns);
    if (result.code == Code::kMakingRoom) Abandon(reservation);
    return result;
  }

  const ItemLengths lengths{static_cast<uint16_t>(key.size()), kind, params.flags, static_cast<uint32_t>(value.size())};
  const uint64_t old_expiry_ms = found.slot == nullptr || expired ? 0 : found.expiry_ms();
  const uint64_t expiry_ms = ExpiryFor(params, old_expiry_ms);
  const bool must_live = old_expiry_ms != 0 && WantsPresent(params.condition);
  const SizeClass size_class = SizeClassFor(bytes);
  bool fits = false;  // in the old item's piece
  if (found.slot != nullptr) {
    const SizeClass piece = Slot(LoadWord(found.slot)).size_class();
    fits = size_class <= piece && piece <= largest_rewritten_;
    if (fits && !Wastes(piece, size_class)) [[likely]]
      return Rewrite(found, Compose(key, value, lengths, expiry_ms), must_live, now_ns);
  }
  const Claim claim = found.slot == nullptr ? Claim::kNewKey : Claim::kOverwrite;
  uint64_t offset = heap_->Allocate(number(), SizeClassBytes(size_class), claim);
  if (offset == 0) {
    if (fits) return Rewrite(found, Compose(key, value, lengths, expiry_ms), must_live, now_ns);
    result.code = AllocateSlowly(SizeClassBytes(size_class), claim, params.may_step, &offset);
    if (result.code != Code::kOk) return {result.code, 0, Slot()};
    found = Find(hash, key);  // it may have been moved
  }
  const Image image = Compose(key, value, lengths, expiry_ms);
  StoreDead(region_ + offset, image);
  const Slot slot(FingerprintOf(hash), size_class, offset);
  result = Link({slot, hash, {}}, found, lengths, image.version, must_live, now_ns, params.may_step);
  if (result.code != Code::kOk) Free(slot);
  return result;
}

// The old expiry is made torn for readers first: one who had fetched it could conclude that the item has expired after
// the touch succeeded. Then the clock is looked at, and if it has come that far, no reader is told that the key was
// here since.
WriteResult Partition::Touch(uint64_t hash, absl::string_view key, uint64_t expiry_ms, int64_t now_ns) {
  const Found found = Find(hash, key);
  if (found.slot == nullptr) return {Code::kNotFound, 0, Slot()};
  if (found.lengths().kind == ItemKind::kCounter) {
    StoreWord(found.item + kExpiryOffset, ExpiryWord(found.version(), expiry_ms));  // it ends when it is swept
    return Noted(hash, expiry_ms, {Code::kOk, found.version(), Slot(LoadWord(found.slot))});
  }
  if (!Expired(found)) {
    StoreWordFenced(found.item + kExpiryOffset, InvertTag(LoadWord(found.item + kExpiryOffset)));
    if (!Expired(found)) {
      StoreWord(found.item + kExpiryOffset, ExpiryWord(found.version(), expiry_ms));
      return Noted(hash, expiry_ms, {Code::kOk, found.version(), Slot(LoadWord(found.slot))});
    }
  }
  RemoveExpired(found, now_ns);
  return {Code::kNotFound, 0, Slot()};
}

bool Partition::Expire(uint64_t hash, uint64_t offset, int64_t now_ns) {
  const Found found{index_.FindOffset(hash, offset), region_ + offset};
  if (found.slot == nullptr || !Expired(found)) return false;
  RemoveExpired(found, now_ns);
  return true;
}

WriteResult Partition::Delete(uint64_t hash, absl::string_view key, Condition condition, uint64_t version,
                              int64_t now_ns) {
  return DeleteItem(hash, key, ItemKind::kValue, condition, version, now_ns);
}

WriteResult Partition::DeleteCounter(uint64_t hash, absl::string_view key, int64_t now_ns) {
  return DeleteItem(hash, key, ItemKind::kCounter, Condition::kAlways, 0, now_ns);
}

WriteResult Partition::DeleteItem(uint64_t hash, absl::string_view key, ItemKind kind, Condition condition,
                                  uint64_t version, int64_t now_ns) {
  const Found found = Find(hash, key);
  if (found.slot == nullptr) return {Code::kNotFound, 0, Slot()};
  if (Expired(found)) {
    RemoveExpired(found, now_ns);
    return {Code::kNotFound, 0, Slot()};
  }
  if (condition == Condition::kAbsent) condition = Condition::kAlways;
  const WriteResult result = Check(found, /*expired=*/false, condition, version, kind);
  if (result.code != Code::kOk) return result;
  Remove(found, now_ns);
  deletes_ += 1;
  return result;
}

WriteResult Partition::Get(uint64_t hash, absl::string_view key, ItemView* item) const {
  const Found found = Find(hash, key);
  if (found.slot == nullptr || Expired(found)) return {Code::kNotFound, 0, Slot()};
  const ItemLengths lengths = found.lengths();
  item->version = found.version();
  item->expiry_ms = found.expiry_ms();
  item->kind = lengths.kind;
  item->flags = lengths.flags;
  item->key = {found.item + kItemHeaderBytes, lengths.key_bytes};
  item->value = {found.item + ValueOffset(lengths.key_bytes), lengths.value_bytes};
  return {Code::kOk, item->version, Slot(LoadWord(found.slot))};
}

bool Partition::Tidy(int64_t now_ns) {
  index_.Tidy(now_ns);
  TakeIndexFigures();
  return index_.untidy();
}

void Partition::AddTo(TableStats* stats) const {
  stats->keys += keys_.value();
  stats->key_bytes += key_bytes_.value();
  stats->value_bytes += value_bytes_.value();
  stats->puts += puts_.value();
  stats->rewrites += rewrites_.value();
  stats->expired_items += expired_items_.value();
  stats->expiry_bytes += expiry_.bytes();
  stats->deletes += deletes_.value();
  stats->moved_items += moved_items_.value();
  stats->splits += splits_.value();
  stats->merges += merges_.value();
  stats->segment_moves += segment_moves_.value();
  stats->overflow_keys += overflow_keys_.value();
}

}  // namespace farlook::kv
