#include "kv/partition.h"

#include <cstring>

#include "kv/region.h"
#include "kv/words.h"

namespace farlook::kv {
namespace {

// Up to this size an item is put together in private memory, so that its checksum is taken from there.
constexpr uint64_t kScratchBytes = 8192;

}  // namespace

Partition::Partition(absl::Span<char> region, const Hasher* hasher, PagePool* pool, SegmentPool* segments,
                     SharedDirectory* directory, uint64_t prefix, int bits, const TableOptions& options)
    : region_(region.data()),
      marks_(region.data() + RegionHeader::For(region.size(), options.partitions).MarksOf(prefix)),
      hasher_(hasher),
      prefix_(prefix),
      bits_(bits),
      max_value_bytes_(options.max_value_bytes),
      index_(region.data(), hasher, segments, directory, {prefix, bits, region.size()}),
      slabs_(pool, region.size() / kPageBytes),
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

WriteResult Partition::Check(const Found& found, Condition condition, uint64_t version, ItemKind kind) const {
  WriteResult result;
  if (found.slot == nullptr) {
    const bool wants_present = condition == Condition::kPresent || condition == Condition::kVersion;
    result.code = wants_present ? Code::kNotFound : Code::kOk;
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

uint64_t Partition::Allocate(SizeClass size_class) {
  while (true) {
    if (const uint64_t offset = slabs_.Allocate(size_class)) return offset;
    if (!Compact()) return 0;
  }
}

// Frees pages by moving the items of the emptiest slab to the room in others of its class.
bool Partition::Compact() {
  Slab* slab = slabs_.Sparsest();
  if (slab == nullptr) return false;
  slabs_.Withdraw(slab);
  if (MoveOut(slab)) {
    slabs_.Retire(slab);
    return true;
  }
  slabs_.PutBack(slab);
  return false;
}

bool Partition::MoveOut(Slab* slab) {
  const SizeClass size_class = slab->size_class;
  for (uint32_t piece = 0; piece < slab->capacity; ++piece) {
    if (!slab->Used(piece)) continue;
    const uint64_t from_offset = slab->PieceOffset(piece);
    char* from = region_ + from_offset;
    const ItemLengths lengths = ItemLengths::From(LoadWord(from + kLengthsOffset));
    const uint64_t hash = (*hasher_)(from + kItemHeaderBytes, lengths.key_bytes);
    char* slot = index_.FindOffset(hash, from_offset);
    const uint64_t to_offset = slot == nullptr ? 0 : slabs_.Allocate(size_class);
    if (to_offset == 0) return false;  // Sparsest promised otherwise; what was moved stays moved
    char* to = region_ + to_offset;
    const uint64_t version = LoadWord(from + kVersionOffset);
    const uint64_t bytes = ItemBytes(lengths.key_bytes, lengths.value_bytes);
    // The same version at two places for a moment, with the same contents: copy alive, slot, old one DEAD.
    StoreWord(to + kVersionOffset, version | kDeadBit);
    StoreWord(to + kChecksumOffset, LoadWord(from + kChecksumOffset));
    StoreWord(to + kExpiryOffset, LoadWord(from + kExpiryOffset));
    for (uint64_t i = kLengthsOffset; i < bytes; i += 8) StoreWord(to + i, LoadWord(from + i));
    StoreWord(to + kVersionOffset, version);
    StoreWord(slot, Slot(FingerprintOf(hash), size_class, to_offset).word());
    StoreWord(from + kVersionOffset, version | kDeadBit);
    slab->bitmap[piece / 64] &= ~(1ull << piece % 64);
    --slab->used;
    moved_items_ += 1;
  }
  return true;
}

Code Partition::Reserve(uint64_t hash, absl::string_view key, uint64_t value_bytes, Reservation* reservation) {
  if (value_bytes > max_value_bytes_) return Code::kTooLarge;
  const SizeClass size_class = SizeClassFor(ItemBytes(key.size(), value_bytes));
  const uint64_t offset = Allocate(size_class);
  if (offset == 0) return Code::kNoMemory;
  slabs_.Pin(offset);
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
  slabs_.Unpin(reservation.slot.offset());
  slabs_.Free(reservation.slot.offset());
}

// The body of the new item, but its checksum, is in place and its version says DEAD.
WriteResult Partition::Link(const Reservation& reservation, Found found, ItemLengths lengths, uint64_t version,
                            int64_t now_ns) {
  const uint64_t offset = reservation.slot.offset();
  const bool is_new = found.slot == nullptr;
  if (is_new) {
    Code code = Code::kOk;
    found.slot = index_.FindRoom(reservation.hash, now_ns, &code);
    while (found.slot == nullptr && code == Code::kNoMemory && Compact()) {
      found.slot = index_.FindRoom(reservation.hash, now_ns, &code);
    }
    TakeIndexFigures();
    if (found.slot == nullptr) {
      Abandon(reservation);
      return {code, 0, Slot()};
    }
    keys_ += 1;
    key_bytes_ += lengths.key_bytes;
  } else {
    StoreWord(found.item + kVersionOffset, found.version() | kDeadBit);
    value_bytes_ -= found.lengths().value_bytes;
  }
  StoreWord(found.slot, reservation.slot.word());
  StoreWord(region_ + offset + kVersionOffset, version);  // here the write takes effect
  value_bytes_ += lengths.value_bytes;
  puts_ += 1;
  slabs_.Unpin(offset);
  if (!is_new) slabs_.Free(static_cast<uint64_t>(found.item - region_));
  return {Code::kOk, version, reservation.slot};
}

WriteResult Partition::Publish(const Reservation& reservation, Condition condition, uint64_t version, int64_t now_ns) {
  char* item = region_ + reservation.slot.offset();
  const ItemLengths lengths = ItemLengths::From(LoadWord(item + kLengthsOffset));
  const Found found = Find(reservation.hash, {item + kItemHeaderBytes, lengths.key_bytes});
  WriteResult result = Check(found, condition, version);
  if (result.code != Code::kOk) {
    Abandon(reservation);
    return result;
  }
  const uint64_t new_version = NextVersion();
  StoreWord(item + kVersionOffset, new_version | kDeadBit);
  const uint64_t bytes = ItemBytes(lengths.key_bytes, lengths.value_bytes);
  const absl::string_view head(reinterpret_cast<const char*>(&new_version), sizeof new_version);
  StoreWord(item + kChecksumOffset, (*hasher_)(head, {item + kLengthsOffset, bytes - kLengthsOffset}));
  StoreWord(item + kExpiryOffset, NeverExpires(new_version));
  return Link(reservation, found, lengths, new_version, now_ns);
}

WriteResult Partition::Put(uint64_t hash, absl::string_view key, absl::string_view value, Condition condition,
                           uint64_t version, int64_t now_ns) {
  return PutItem(hash, key, value, ItemKind::kValue, condition, version, now_ns);
}

// A counter's item is written once and never replaced, so what it says about its cell is true as long as it is alive.
WriteResult Partition::InsertCounter(uint64_t hash, absl::string_view key, uint64_t cell, int64_t now_ns) {
  const absl::string_view value(reinterpret_cast<const char*>(&cell), sizeof cell);
  return PutItem(hash, key, value, ItemKind::kCounter, Condition::kAbsent, 0, now_ns);
}

WriteResult Partition::PutItem(uint64_t hash, absl::string_view key, absl::string_view value, ItemKind kind,
                               Condition condition, uint64_t version, int64_t now_ns) {
  const uint64_t bytes = ItemBytes(key.size(), value.size());
  Found found = Find(hash, key);
  WriteResult result = Check(found, condition, version, kind);
  if (result.code != Code::kOk) return result;
  if (value.size() > max_value_bytes_ && kind == ItemKind::kValue) return {Code::kTooLarge, 0, Slot()};
  if (bytes > kScratchBytes) {
    Reservation reservation;
    result.code = Reserve(hash, key, value.size(), &reservation);
    if (result.code != Code::kOk) return {result.code, 0, Slot()};
    StoreBytes(reservation.value.data(), value.data(), value.size());
    return Publish(reservation, condition, version, now_ns);
  }

  const SizeClass size_class = SizeClassFor(bytes);
  uint64_t offset = slabs_.Allocate(size_class);
  if (offset == 0) {
    offset = Allocate(size_class);
    if (offset == 0) return {Code::kNoMemory, 0, Slot()};
    found = Find(hash, key);  // it may have been moved
  }
  slabs_.Pin(offset);
  char* item = region_ + offset;
  const uint64_t new_version = NextVersion();
  StoreWord(item + kVersionOffset, new_version | kDeadBit);

  // The item as it will be, in private memory.
  char* s = scratch_.data();
  const ItemLengths lengths{static_cast<uint16_t>(key.size()), kind, 0, static_cast<uint32_t>(value.size())};
  StoreAs(s + kVersionOffset, new_version);
  StoreAs(s + kLengthsOffset, lengths.word());
  StoreAs(s + ValueOffset(key.size()) - 8, uint64_t{0});  // the padding; before the key, which may cover all of it
  std::memcpy(s + kItemHeaderBytes, key.data(), key.size());
  if (!value.empty()) std::memcpy(s + ValueOffset(key.size()), value.data(), value.size());
  const uint64_t checksum = ItemChecksum(*hasher_, s, bytes);

  StoreWord(item + kChecksumOffset, checksum);
  StoreWord(item + kExpiryOffset, NeverExpires(new_version));
  StoreBytes(item + kLengthsOffset, s + kLengthsOffset, bytes - kLengthsOffset);
  return Link({Slot(FingerprintOf(hash), size_class, offset), hash, {}}, found, lengths, new_version, now_ns);
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
  WriteResult result = Check(found, condition == Condition::kAbsent ? Condition::kAlways : condition, version, kind);
  if (result.code != Code::kOk) return result;
  const ItemLengths lengths = found.lengths();
  StoreWord(found.item + kVersionOffset, result.version | kDeadBit);  // here the delete takes effect
  StoreWord(found.slot, 0);
  slabs_.Free(result.slot.offset());
  keys_ -= 1;
  key_bytes_ -= lengths.key_bytes;
  value_bytes_ -= lengths.value_bytes;
  deletes_ += 1;
  index_.Removed(found.slot, now_ns);
  TakeIndexFigures();
  return result;
}

WriteResult Partition::Get(uint64_t hash, absl::string_view key, ItemView* item) const {
  const Found found = Find(hash, key);
  if (found.slot == nullptr) return {Code::kNotFound, 0, Slot()};
  const ItemLengths lengths = found.lengths();
  item->version = found.version();
  item->expiry_ms = ExpiryTimeMs(LoadWord(found.item + kExpiryOffset));
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
  stats->deletes += deletes_.value();
  stats->moved_items += moved_items_.value();
  stats->splits += splits_.value();
  stats->merges += merges_.value();
  stats->segment_moves += segment_moves_.value();
  stats->overflow_keys += overflow_keys_.value();
}

}  // namespace farlook::kv
