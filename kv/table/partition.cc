#include "kv/table/partition.h"

#include <algorithm>
#include <cstring>

#include "kv/layout/region.h"
#include "kv/layout/words.h"

namespace farlook::kv {
namespace {

// Up to this size an item is assembled in private memory before it is stored, so that its checksum is computed there.
constexpr uint64_t kScratchBytes = 8192;

// The largest piece that is written in place.
constexpr SizeClass kLargestRewritten = SizeClassFor(kRedoBytes);
static_assert(SizeClassBytes(kLargestRewritten) == kRedoBytes, "a redo piece holds what fits into such a piece");

// Returns whether a put first looks for another piece although its item fits, because it would waste more than half of
// the old one. Up to kLargestRewritten the classes are a granule apart.
bool Wastes(SizeClass piece, SizeClass needed) { return 2 * (needed + 1) < piece + 1; }

uint64_t ExpiryFor(const PutParams& params, uint64_t old_expiry_ms) {
  return params.keep_ttl && old_expiry_ms != 0 ? old_expiry_ms : params.expiry_ms;
}

bool WantsPresent(Condition condition) { return condition == Condition::kPresent || condition == Condition::kVersion; }

}  // namespace

Partition::Partition(absl::Span<char> region, const Hasher* hasher, Heap* heap, Compactor* compactor,
                     SegmentPool* segments, SharedDirectory* directory, PieceMarks* marks, uint64_t prefix, int bits,
                     const TableOptions& options)
    : region_(region.data()),
      marks_(region.data() + RegionHeader::For(region.size(), options.partitions).MarksOf(prefix)),
      redo_(region.data() + RegionHeader::For(region.size(), options.partitions).RedoOf(prefix)),
      hasher_(hasher),
      prefix_(prefix),
      bits_(bits),
      max_value_bytes_(options.max_value_bytes),
      clock_(options.keeps_expired ? nullptr : options.clock),
      sweeps_(options.clock),
      is_member_(options.keeps_expired),
      largest_rewritten_(options.rewrites ? kLargestRewritten : -1),
      index_(region.data(), hasher, segments, directory, {prefix, bits, region.size()}),
      heap_(heap),
      compactor_(compactor),
      expiry_(prefix, bits),
      versions_(std::max(options.first_version, LoadWord(marks_ + kVersionMark)) >> bits),
      marked_versions_(versions_),
      scratch_(kScratchBytes),
      walk_(heap, static_cast<int>(prefix)),
      share_bytes_(region.size() >> bits),
      eviction_(marks == nullptr ? nullptr : std::make_unique<Eviction>(marks, &walk_, share_bytes_, 0)) {}

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

// A later server continues from the mark, so no version is used before the mark covers it.
void Partition::RaiseVersionMark() {
  marked_versions_ = versions_ + kVersionsPerMark;
  StoreWord(marks_ + kVersionMark, marked_versions_ << bits_ | prefix_);
}

bool Partition::TimeIsOver(Found found) const {
  // A counter lives until the sweep hands it over: clients that know its cell do not look at its item.
  return clock_ != nullptr && found.lengths().kind != ItemKind::kCounter &&
         HasExpired(found.expiry_ms(), clock_->NowUs());
}

inline Code Partition::Check(Found found, Condition condition, uint64_t version, ItemKind kind) {
  if (found.slot == nullptr) return WantsPresent(condition) ? Code::kNotFound : Code::kOk;
  if (found.lengths().kind != kind) return Code::kWrongKind;
  if (condition == Condition::kAlways) [[likely]]
    return Code::kOk;
  if (condition == Condition::kAbsent) return Code::kExists;
  return condition == Condition::kVersion && version != found.version() ? Code::kVersionMismatch : Code::kOk;
}

Code Partition::Reserve(uint64_t hash, absl::string_view key, uint64_t value_bytes, Sort sort, Reservation* reservation,
                        int64_t now_ns, bool may_step, Reach reach) {
  if (value_bytes > max_value_bytes_ && sort.kind == ItemKind::kValue) return Code::kTooLarge;
  SizeClass size_class = SizeClassFor(ItemBytes(key.size(), value_bytes));
  const Found found = Find(hash, key);
  const Slot old = found.slot == nullptr ? Slot() : Slot(LoadWord(found.slot));
  const Claim claim = ClaimOf(old, size_class, reach);
  uint64_t offset = heap_->Allocate(number(), SizeClassBytes(size_class), FirstClaim(claim));
  const Want want{old, claim, may_step, old.offset(), now_ns};
  const Code code = offset != 0 ? Code::kOk : AllocateSlowly(want, &size_class, &offset);
  if (code != Code::kOk) return code;
  heap_->Pin(offset);
  char* item = region_ + offset;
  reservation->version = NextVersion();
  StoreWord(item + kVersionOffset, reservation->version | kDeadBit);
  const ItemLengths lengths{static_cast<uint16_t>(key.size()), sort.kind, sort.flags,
                            static_cast<uint32_t>(value_bytes)};
  StoreWord(item + kLengthsOffset, lengths.word());
  StoreBytes(item + kItemHeaderBytes, key.data(), key.size());
  reservation->slot = Slot(FingerprintOf(hash), size_class, offset);
  reservation->hash = hash;
  reservation->value = {item + ValueOffset(key.size()), value_bytes};
  reservation->head = {item + kLengthsOffset, ValueOffset(key.size()) - kLengthsOffset};
  reservation->checksum.reset();
  return Code::kOk;
}

Code Partition::ReserveCopy(uint64_t hash, absl::string_view key, uint64_t value_bytes, uint64_t version,
                            Reservation* reservation, int64_t now_ns, Sort sort, Reach reach) {
  const uint64_t number = version >> bits_;
  if (number << bits_ != (version ^ prefix_) || number == 0 || version >= kEndOfVersions) return Code::kVersionMismatch;
  const uint64_t own = versions_;
  versions_ = number - 1;  // the next one is the copy's
  const Code code = Reserve(hash, key, value_bytes, sort, reservation, now_ns, /*may_step=*/true, reach);
  versions_ = std::max(own, code == Code::kOk ? number : 0);
  return code;
}

void Partition::Abandon(const Reservation& reservation) {
  heap_->Unpin(reservation.slot.offset());
  Free(reservation.slot);
}

// REQUIRES the body of the new item is in place, and its version is DEAD.
WriteResult Partition::Link(Slot piece, uint64_t hash, Found found, ItemLengths lengths, uint64_t version,
                            bool must_live, int64_t now_ns, const PutParams& params) {
  const uint64_t offset = piece.offset();
  bool keeps_old = false;  // as home of the item, which is in the spare
  if (heap_->IsLent(offset) && !heap_->spare_has_home()) [[unlikely]] {
    keeps_old = found.slot != nullptr && Slot(LoadWord(found.slot)).size_class() == piece.size_class();
    if (!keeps_old) {
      const Claim claim = found.slot == nullptr ? Claim::kNewKey : Claim::kOverwrite;
      const uint64_t spared = found.slot == nullptr ? 0 : Slot(LoadWord(found.slot)).offset();
      const Code code = FindHome(piece, {Slot(), claim, params.may_step, spared, now_ns});
      if (code != Code::kOk) return {code, 0, Slot()};
      found = Find(hash, {region_ + offset + kItemHeaderBytes, lengths.key_bytes});  // it may have moved, or expired
      if (must_live && found.slot == nullptr) return {Code::kNotFound, 0, Slot()};
    }
  }
  const bool is_new = found.slot == nullptr;
  if (is_new) {
    Code code = Code::kOk;
    found.slot = FindRoom(hash, now_ns, params.may_step, &code);
    if (found.slot == nullptr) return {code, 0, Slot()};
    keys_ += 1;
    key_bytes_ += lengths.key_bytes;
  } else {
    if (!Kill(found, must_live, now_ns)) return {Code::kNotFound, 0, Slot()};
    value_bytes_ -= found.lengths().value_bytes;
  }
  const Slot old = is_new ? Slot() : Slot(LoadWord(found.slot));
  StoreWord(found.slot, piece.word());
  StoreWord(region_ + offset + kVersionOffset, version);  // here the write takes effect
  value_bytes_ += lengths.value_bytes;
  links_ += 1;
  if (eviction_ != nullptr) [[unlikely]] {
    const bool was_old = !is_new && eviction_->IsOld(old.offset());
    NoteWritten(hash, piece, lengths, params.refill, was_old, now_ns);
  }
  if (!is_new) {
    StoreWord(found.item, piece.word());  // for readers that remember the old place
    if (keeps_old) [[unlikely]] {
      if (eviction_ != nullptr) eviction_->Removed(KindFor(old.bytes()), old.offset());
      heap_->KeepHome(old.offset());
    } else {
      Free(old);
    }
  }
  return {Code::kOk, version, piece};
}

// A put with condition kPresent or kVersion must not succeed after a reader concluded that the item had expired. Such a
// reader saw the item alive when the clock had already reached its time. So the clock is read when no reader can see
// the item alive any more.
bool Partition::Kill(Found found, bool must_live, int64_t now_ns) {
  const uint64_t dead = found.version() | kDeadBit;
  if (!must_live) [[likely]] {
    StoreWord(found.item + kVersionOffset, dead);
    return true;
  }
  StoreWordFenced(found.item + kVersionOffset, dead);
  if (!Expired(found)) return true;
  RemoveExpired(found, Merging::kNow, now_ns);
  return false;
}

void Partition::Remove(Found found, Merging merging, int64_t now_ns) {
  const ItemLengths lengths = found.lengths();
  const Slot slot(LoadWord(found.slot));
  StoreWord(found.item + kVersionOffset, found.version() | kDeadBit);  // here the delete takes effect
  StoreWord(found.slot, 0);
  Free(slot);
  keys_ -= 1;
  key_bytes_ -= lengths.key_bytes;
  value_bytes_ -= lengths.value_bytes;
  index_.Removed(found.slot, merging, now_ns);
  TakeIndexFigures();
}

void Partition::RemoveExpired(Found found, Merging merging, int64_t now_ns) {
  Remove(found, merging, now_ns);
  expired_items_ += 1;
}

inline void Partition::StoreDead(char* to, const Image& image) {
  StoreWord(to + kVersionOffset, image.version | kDeadBit);
  StoreWord(to + kChecksumOffset, image.checksum);
  StoreWord(to + kLengthsOffset, image.lengths);
  StoreGranules(to + kItemHeaderBytes, image.bytes + kItemHeaderBytes, image.size - kItemHeaderBytes);
  StoreWord(to + kExpiryOffset, image.expiry);
}

WriteResult Partition::Publish(const Reservation& reservation, const PutParams& params, int64_t now_ns) {
  char* item = region_ + reservation.slot.offset();
  const ItemLengths lengths = ItemLengths::From(LoadWord(item + kLengthsOffset));
  const Found found = Find(reservation.hash, {item + kItemHeaderBytes, lengths.key_bytes});
  const bool expired = found.slot != nullptr && Expired(found);
  const Found present = expired ? Found() : found;
  const Code code = Check(present, params.condition, params.version, lengths.kind);
  if (code != Code::kOk) {
    const WriteResult refused = Answer(code, present);
    if (expired) RemoveExpired(found, Merging::kNow, now_ns);
    Abandon(reservation);
    return refused;
  }
  const uint64_t old_expiry_ms = present.slot == nullptr ? 0 : present.expiry_ms();
  const uint64_t new_version = reservation.version;
  if (reservation.checksum.has_value()) {
    StoreWord(item + kChecksumOffset, *reservation.checksum);
  } else {
    const uint64_t bytes = ItemBytes(lengths.key_bytes, lengths.value_bytes);
    const absl::string_view head(reinterpret_cast<const char*>(&new_version), sizeof new_version);
    StoreWord(item + kChecksumOffset, (*hasher_)(head, {item + kLengthsOffset, bytes - kLengthsOffset}));
  }
  StoreWord(item + kExpiryOffset, ExpiryWord(new_version, ExpiryFor(params, old_expiry_ms)));
  const bool must_live = WantsPresent(params.condition) && old_expiry_ms != 0;
  const WriteResult result =
      Link(reservation.slot, reservation.hash, found, lengths, new_version, must_live, now_ns, params);
  if (result.code == Code::kOk) {
    heap_->Unpin(reservation.slot.offset());
  } else if (result.code != Code::kMakingRoom) {
    Abandon(reservation);
  }
  return Noted(reservation.hash, params.expiry_ms, result);
}

// Assembles the item in `to`: private memory, or, with kDead, memory where a reader may look.
template <bool kDead>
inline Partition::Image Partition::Compose(char* to, const KeyValue& item, ItemLengths lengths, uint64_t expiry_ms) {
  Image image;
  image.bytes = to;
  image.lengths = lengths.word();
  image.size = ItemBytes(item.key.size(), item.value.size());
  image.version = NextVersion();
  image.expiry = ExpiryWord(image.version, expiry_ms);
  StoreWord(to + kVersionOffset, image.version | (kDead ? kDeadBit : 0));
  StoreWord(to + kLengthsOffset, image.lengths);
  // The padding; before the key, which may overwrite all of it.
  StoreWord(to + ValueOffset(item.key.size()) - 8, 0);
  StoreDeadKey(to + kItemHeaderBytes, item.key.data(), item.key.size());
  if (!item.value.empty()) [[likely]]
    StoreDeadBytes(to + ValueOffset(item.key.size()), item.value.data(), item.value.size());
  image.checksum =
      kDead ? ItemChecksumApart(*hasher_, image.version, to, image.size) : ItemChecksum(*hasher_, to, image.size);
  return image;
}

// Puts an item into the old item's piece. If the server ended in between, the redo piece would hold the new contents.
// So the copy is complete before the target names the piece, and is DEAD, since a reader may look there.
[[gnu::always_inline]] inline WriteResult Partition::PutInPlace(Found found, Slot slot, const KeyValue& item,
                                                                ItemLengths lengths, uint64_t expiry_ms, bool must_live,
                                                                int64_t now_ns) {
  StoreWord(marks_ + kRedoTarget, 0);
  if (!HasChecksumApart(ItemBytes(item.key.size(), item.value.size()))) [[unlikely]]
    return PutInPlaceCopied(found, slot, item, lengths, expiry_ms, must_live, now_ns);
  char* const redo = redo_;
  const Image image = Compose</*kDead=*/true>(redo, item, lengths, expiry_ms);
  StoreWord(redo + kChecksumOffset, image.checksum);
  StoreWord(redo + kExpiryOffset, image.expiry);
  return Rewrite(found, slot, image, must_live, now_ns);
}

// For sizes without a separate checksum (HasChecksumApart).
[[gnu::noinline]] WriteResult Partition::PutInPlaceCopied(Found found, Slot slot, const KeyValue& item,
                                                          ItemLengths lengths, uint64_t expiry_ms, bool must_live,
                                                          int64_t now_ns) {
  const Image image = Compose</*kDead=*/false>(scratch_.data(), item, lengths, expiry_ms);
  StoreDead(redo_, image);
  return Rewrite(found, slot, image, must_live, now_ns);
}

// Continues after the redo piece is written.
inline WriteResult Partition::Rewrite(Found found, Slot slot, const Image& image, bool must_live, int64_t now_ns) {
  StoreWord(marks_ + kRedoTarget, slot.word());
  if (must_live && !Kill(found, must_live, now_ns)) return {Code::kNotFound, 0, Slot()};
  value_bytes_ += (image.lengths >> 32) - uint64_t{found.lengths().value_bytes};
  StoreDead(found.item, image);
  StoreWord(found.item + kVersionOffset, image.version);  // here it takes effect
  rewrites_ += 1;
  if (eviction_ != nullptr) [[unlikely]] {
    NoteWritten(/*hash=*/0, slot, ItemLengths::From(image.lengths), /*refill=*/false, /*was_old=*/false, now_ns);
  }
  return {Code::kOk, image.version, slot, /*in_place=*/true};
}

// The condition does not hold for the present item, or did not hold for it before it expired.
[[gnu::noinline]] WriteResult Partition::Refuse(Code code, Found found, bool expired, int64_t now_ns) {
  const WriteResult refused = Answer(code, expired ? Found() : found);
  if (expired) RemoveExpired(found, Merging::kNow, now_ns);
  return refused;
}

// Puts an item that is too long to be assembled in private memory.
[[gnu::noinline]] WriteResult Partition::PutLong(uint64_t hash, absl::string_view key, absl::string_view value,
                                                 Sort sort, const PutParams& params, int64_t now_ns) {
  Reservation reservation;
  const Code code = Reserve(hash, key, value.size(), sort, &reservation, now_ns, params.may_step);
  if (code != Code::kOk) return {code, 0, Slot()};
  StoreBytes(reservation.value.data(), value.data(), value.size());
  const WriteResult result = Publish(reservation, params, now_ns);
  if (result.code == Code::kMakingRoom) Abandon(reservation);
  return result;
}

// Puts an item into the new piece at `offset`, which is freed on failure.
[[gnu::noinline]] WriteResult Partition::PutElsewhere(uint64_t offset, SizeClass size_class, uint64_t hash, Found found,
                                                      const Image& image, bool must_live, const PutParams& params,
                                                      int64_t now_ns) {
  StoreDead(region_ + offset, image);
  const Slot slot(FingerprintOf(hash), size_class, offset);
  const WriteResult result =
      Link(slot, hash, found, ItemLengths::From(image.lengths), image.version, must_live, now_ns, params);
  if (result.code != Code::kOk) Free(slot);
  return result;
}

// Rare cases are separate functions, so that the variables of the common ones stay in registers here.
template <ItemKind kKind>
[[gnu::always_inline]] inline WriteResult Partition::PutItem(const KeyPlace& place, const KeyValue& item,
                                                             const PutParams& params, int64_t now_ns) {
  Found found{index_.Find(place, item.key)};
  uint64_t old_expiry_ms = found.slot == nullptr ? 0 : found.expiry_ms();
  const bool expired = old_expiry_ms != 0 && TimeIsOver(found);
  if (expired) [[unlikely]]
    old_expiry_ms = 0;
  Code code = Check(expired ? Found() : found, params.condition, params.version, kKind);
  if (code != Code::kOk) [[unlikely]]
    return Refuse(code, found, expired, now_ns);
  if (kKind == ItemKind::kValue && item.value.size() > max_value_bytes_) [[unlikely]]
    return {Code::kTooLarge, 0, Slot()};
  const uint64_t bytes = ItemBytes(item.key.size(), item.value.size());
  if (bytes > kScratchBytes) return PutLong(place.hash, item.key, item.value, {kKind, params.flags}, params, now_ns);

  const bool must_live = old_expiry_ms != 0 && WantsPresent(params.condition);
  SizeClass size_class = SizeClassFor(bytes);
  const Slot old = found.slot == nullptr ? Slot() : Slot(LoadWord(found.slot));
  const bool fits = found.slot != nullptr && size_class <= old.size_class() && old.size_class() <= largest_rewritten_;
  uint64_t offset = 0;  // of another piece
  if (!fits || Wastes(old.size_class(), size_class)) {
    const Claim claim = found.slot == nullptr ? Claim::kNewKey : Claim::kOverwrite;
    offset = heap_->Allocate(number(), SizeClassBytes(size_class), FirstClaim(claim));
    if (offset == 0 && !fits) {
      const Want want{old, claim, params.may_step, old.offset(), now_ns};
      code = AllocateSlowly(want, &size_class, &offset);
      if (code != Code::kOk) return {code, 0, Slot()};
      found = Find(place.hash, item.key);  // it may have been moved, or have expired
      if (must_live && found.slot == nullptr) [[unlikely]] {
        Free(Slot(FingerprintOf(place.hash), size_class, offset));
        return {Code::kNotFound, 0, Slot()};
      }
    }
  }
  const ItemLengths lengths{static_cast<uint16_t>(item.key.size()), kKind, params.flags,
                            static_cast<uint32_t>(item.value.size())};
  const uint64_t expiry_ms = ExpiryFor(params, old_expiry_ms);
  if (offset == 0) [[likely]] {
    return Noted(place.hash, params.expiry_ms, PutInPlace(found, old, item, lengths, expiry_ms, must_live, now_ns));
  }
  const Image image = Compose</*kDead=*/false>(scratch_.data(), item, lengths, expiry_ms);
  return Noted(place.hash, params.expiry_ms,
               PutElsewhere(offset, size_class, place.hash, found, image, must_live, params, now_ns));
}

[[gnu::always_inline]] inline WriteResult Partition::Put(const KeyPlace& place, const KeyValue& item,
                                                         const PutParams& params, int64_t now_ns) {
  return PutItem<ItemKind::kValue>(place, item, params, now_ns);
}

// Defined here, so that it is inlined with the partition's Put: most calls are puts.
WriteResult Table::Put(const KeyPlace& place, const KeyValue& item, const PutParams& params, int64_t now_ns) {
  if (Pretends()) [[unlikely]]
    return {Code::kMakingRoom, 0, Slot()};
  return partitions_[static_cast<size_t>(PartitionOf(place.hash))]->Put(place, item, params, now_ns);
}

// A counter's item is written once and never replaced, so its cell stays right as long as it is alive.
WriteResult Partition::InsertCounter(uint64_t hash, absl::string_view key, uint64_t cell, uint64_t expiry_ms,
                                     int64_t now_ns) {
  const absl::string_view value(reinterpret_cast<const char*>(&cell), sizeof cell);
  const PutParams params{Condition::kAbsent, /*version=*/0, expiry_ms};
  return PutItem<ItemKind::kCounter>({hash}, {key, value}, params, now_ns);
}

// First the old expiry is made torn for readers: a reader that had fetched it could conclude that the item has expired
// after the touch succeeded. Then the clock is read. If it has passed the expiry time, the touch fails, so no later
// reader is misled.
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
  RemoveExpired(found, Merging::kNow, now_ns);
  return {Code::kNotFound, 0, Slot()};
}

WriteResult Partition::Delete(uint64_t hash, absl::string_view key, Condition condition, uint64_t version,
                              int64_t now_ns) {
  return DeleteItem(hash, key, ItemKind::kValue, condition, version, now_ns);
}

WriteResult Partition::DeleteCounter(uint64_t hash, absl::string_view key, int64_t now_ns) {
  return DeleteItem(hash, key, ItemKind::kCounter, Condition::kAlways, 0, now_ns);
}

WriteResult Partition::Erase(uint64_t hash, absl::string_view key, bool has_expired, int64_t now_ns) {
  const Found found = Find(hash, key);
  const WriteResult result = Answer(found.slot == nullptr ? Code::kNotFound : Code::kOk, found);
  if (found.slot == nullptr) return result;
  Remove(found, Merging::kNow, now_ns);
  (has_expired ? expired_items_ : deletes_) += 1;
  return result;
}

WriteResult Partition::DeleteItem(uint64_t hash, absl::string_view key, ItemKind kind, Condition condition,
                                  uint64_t version, int64_t now_ns) {
  const Found found = Find(hash, key);
  if (found.slot == nullptr) return {Code::kNotFound, 0, Slot()};
  if (Expired(found)) {
    RemoveExpired(found, Merging::kNow, now_ns);
    return {Code::kNotFound, 0, Slot()};
  }
  if (condition == Condition::kAbsent) condition = Condition::kAlways;
  const WriteResult result = Answer(Check(found, condition, version, kind), found);
  if (result.code != Code::kOk) return result;
  Remove(found, Merging::kNow, now_ns);
  deletes_ += 1;
  return result;
}

WriteResult Partition::Get(uint64_t hash, absl::string_view key, ItemView* item) const {
  const Found found = Find(hash, key);
  if (found.slot == nullptr || Expired(found)) return {Code::kNotFound, 0, Slot()};
  if (eviction_ != nullptr) eviction_->Used(static_cast<uint64_t>(found.item - region_));
  *item = ViewOf(found);
  return {Code::kOk, item->version, Slot(LoadWord(found.slot))};
}

ItemView Partition::ViewOf(Found found) {
  const ItemLengths lengths = found.lengths();
  ItemView item;
  item.version = found.version();
  item.expiry_ms = found.expiry_ms();
  item.kind = lengths.kind;
  item.flags = lengths.flags;
  item.key = {found.item + kItemHeaderBytes, lengths.key_bytes};
  item.value = {found.item + ValueOffset(lengths.key_bytes), lengths.value_bytes};
  return item;
}

TidyResult Partition::Tidy(int64_t now_ns) {
  const uint64_t done = index_.merges() + index_.moves();
  const size_t put_off = index_.merges_put_off();
  index_.Tidy(now_ns);
  TakeIndexFigures();
  if (index_.merges() + index_.moves() != done || index_.merges_put_off() < put_off) return TidyResult::kDid;
  return index_.untidy() ? TidyResult::kWaits : TidyResult::kNothing;
}

void Partition::AddTo(TableStats* stats) const {
  stats->keys += keys_.value();
  stats->key_bytes += key_bytes_.value();
  stats->value_bytes += value_bytes_.value();
  stats->puts += links_.value() + rewrites_.value();
  stats->rewrites += rewrites_.value();
  stats->expired_items += expired_items_.value();
  stats->expiry_bytes += expiry_.bytes();
  stats->deletes += deletes_.value();
  stats->moved_items += moved_items_.value();
  stats->splits += splits_.value();
  stats->merges += merges_.value();
  stats->segment_moves += segment_moves_.value();
  stats->overflow_keys += overflow_keys_.value();
  if (eviction_ == nullptr) return;
  for (size_t i = 0; i < stats->evictions.size(); ++i) {
    const Eviction::Stats of = eviction_->stats(static_cast<BlockKind>(i + 1));
    stats->evictions[i].evictions += of.evictions;
    stats->evictions[i].age_ms = std::max(stats->evictions[i].age_ms, of.age_ms);
  }
  stats->ghost_hits += eviction_->ghost_hits();
  stats->eviction_bytes += eviction_->memory_bytes();
}

}  // namespace farlook::kv
