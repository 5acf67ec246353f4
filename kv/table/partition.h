// One partition of the table: its part of the index, its items, its versions. See Table for the contracts.
#ifndef FARLOOK_KV_TABLE_PARTITION_H_
#define FARLOOK_KV_TABLE_PARTITION_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "kv/cache/eviction.h"
#include "kv/expiry/expiry.h"
#include "kv/heap/compactor.h"
#include "kv/heap/figure.h"
#include "kv/heap/heap.h"
#include "kv/index/index.h"
#include "kv/index/shared_directory.h"
#include "kv/layout/hash.h"
#include "kv/layout/item.h"
#include "kv/layout/key_place.h"
#include "kv/read/expiry_clock.h"
#include "kv/table/table.h"

namespace farlook::kv {

// Thread safety: one thread at a time, except for AddTo, LookAhead, SweptUs and the prefetches.
class Partition final : public ItemMover {
 public:
  Partition(absl::Span<char> region, const Hasher* hasher, Heap* heap, Compactor* compactor, SegmentPool* segments,
            SharedDirectory* directory, PieceMarks* marks, uint64_t prefix, int bits, const TableOptions& options);

  bool Init();

  WriteResult Put(const KeyPlace& place, const KeyValue& item, const PutParams& params, int64_t now_ns);
  WriteResult Touch(uint64_t hash, absl::string_view key, uint64_t expiry_ms, int64_t now_ns);
  WriteResult Delete(uint64_t hash, absl::string_view key, Condition condition, uint64_t version, int64_t now_ns);
  WriteResult Get(uint64_t hash, absl::string_view key, ItemView* item) const;
  WriteResult InsertCounter(uint64_t hash, absl::string_view key, uint64_t cell, uint64_t expiry_ms, int64_t now_ns);
  WriteResult DeleteCounter(uint64_t hash, absl::string_view key, int64_t now_ns);
  WriteResult Erase(uint64_t hash, absl::string_view key, bool has_expired, int64_t now_ns);
  // Kind and flags of an item to reserve.
  struct Sort {
    ItemKind kind;
    uint8_t flags;
  };
  Code Reserve(uint64_t hash, absl::string_view key, uint64_t value_bytes, Sort sort, Reservation* reservation,
               int64_t now_ns, bool may_step, Reach reach = Reach::kOfPuts);
  Code ReserveCopy(uint64_t hash, absl::string_view key, uint64_t value_bytes, uint64_t version,
                   Reservation* reservation, int64_t now_ns, Sort sort, Reach reach);
  Code SetAside(int64_t now_ns);
  WriteResult Publish(const Reservation& reservation, const PutParams& params, int64_t now_ns);
  void Abandon(const Reservation& reservation);
  // See Table.
  uint64_t newest_version() const { return versions_ << bits_ | prefix_; }
  void RaiseVersions(uint64_t version) {
    if ((version >> bits_) > versions_) versions_ = version >> bits_;
    if (versions_ > marked_versions_) RaiseVersionMark();
  }
  bool WalkItems(WalkPlace* place, size_t budget,
                 absl::FunctionRef<void(uint64_t hash, const ItemView& item)> see) const;
  bool Sweep(size_t budget, int64_t now_ns, std::vector<ExpiredItem>* left, bool to_now = false);
  ExpiryIndex::Tick expiry_due() const { return expiry_.due(); }
  void LookAhead(uint64_t position, KeyPlace* place) const { index_.LookAhead(position, place); }
  void PrefetchItem(KeyPlace* place) const { index_.PrefetchItem(place); }

  TidyResult Tidy(int64_t now_ns);

  void AddTo(TableStats* stats) const;

  char* SlotOfItemAt(uint64_t offset) override;
  bool CopyItem(uint64_t from, uint64_t to, uint64_t most, uint64_t* copied) override;
  void MoveCopied(char* slot, uint64_t from, uint64_t to) override;
  uint64_t EvictOldest(int64_t now_ns) override;
  uint64_t SweptUs() const override;

 private:
  friend class Recovery;

  // Maximum number of items that a call which needs room evicts: with and without permission to make steps.
  static constexpr int kEvictionsOfAStep = 64, kEvictionsAtOnce = 16;

  class Walk final : public PieceWalk {
   public:
    Walk(const Heap* heap, int partition) : heap_(heap), partition_(partition) {}
    uint64_t Next(BlockKind kind, uint64_t* from, uint32_t* looks) const override {
      return heap_->NextPiece(partition_, kind, from, looks);
    }

   private:
    const Heap* const heap_;
    const int partition_;
  };
  // A key's present slot and item.
  struct Found : Index::Found {
    uint64_t version() const { return LoadWord(item + kVersionOffset); }
    uint64_t expiry_ms() const { return ExpiryTimeMs(LoadWord(item + kExpiryOffset)); }
    ItemLengths lengths() const { return ItemLengths::From(LoadWord(item + kLengthsOffset)); }
  };
  // A complete item, in private memory or in the redo piece.
  struct Image {
    const char* bytes;  // key and value at their final offsets, followed by arbitrary bytes up to a whole granule
    uint64_t size;
    uint64_t lengths;  // the word
    uint64_t version, checksum, expiry;
  };

  Found Find(uint64_t hash, absl::string_view key) const { return {index_.Find(hash, key)}; }
  static ItemView ViewOf(Found found);
  // Expired() first excludes items that never expire, for which no clock is read.
  bool Expired(Found found) const { return found.expiry_ms() != 0 && TimeIsOver(found); }
  bool TimeIsOver(Found found) const;
  // Returns kOk if the condition holds for the present item, or for its absence; otherwise the code of the refusal.
  static Code Check(Found found, Condition condition, uint64_t version, ItemKind kind);
  // A result with the present version and slot.
  static WriteResult Answer(Code code, Found found) {
    if (found.slot == nullptr) return {code, 0, Slot()};
    return {code, found.version(), Slot(LoadWord(found.slot))};
  }
  // Ends the old item of a put. Returns false if the item expired first, so that the key is absent.
  bool Kill(Found found, bool must_live, int64_t now_ns);
  void Remove(Found found, Merging merging, int64_t now_ns);
  void RemoveExpired(Found found, Merging merging, int64_t now_ns);
  template <ItemKind kKind>
  WriteResult PutItem(const KeyPlace& place, const KeyValue& item, const PutParams& params, int64_t now_ns);
  WriteResult Refuse(Code code, Found found, bool expired, int64_t now_ns);
  WriteResult PutLong(uint64_t hash, absl::string_view key, absl::string_view value, Sort sort, const PutParams& params,
                      int64_t now_ns);
  WriteResult PutElsewhere(uint64_t offset, SizeClass size_class, uint64_t hash, Found found, const Image& image,
                           bool must_live, const PutParams& params, int64_t now_ns);
  template <bool kDead>
  Image Compose(char* to, const KeyValue& item, ItemLengths lengths, uint64_t expiry_ms);
  WriteResult PutInPlace(Found found, Slot slot, const KeyValue& item, ItemLengths lengths, uint64_t expiry_ms,
                         bool must_live, int64_t now_ns);
  WriteResult PutInPlaceCopied(Found found, Slot slot, const KeyValue& item, ItemLengths lengths, uint64_t expiry_ms,
                               bool must_live, int64_t now_ns);
  static void StoreDead(char* to, const Image& image);
  WriteResult Rewrite(Found found, Slot slot, const Image& image, bool must_live, int64_t now_ns);
  WriteResult DeleteItem(uint64_t hash, absl::string_view key, ItemKind kind, Condition condition, uint64_t version,
                         int64_t now_ns);
  // Parameters of an allocation.
  struct Want {
    Slot old;  // of the item to overwrite, or empty
    Claim claim;
    bool may_step;
    uint64_t spared;  // the offset of an item that must not be evicted for it, or 0
    int64_t now_ns;
  };
  // The claim of an item of this class that replaces `old`. In a group, where a backup must also find room, an
  // overwrite that needs more than the old item's piece leaves the reserve, as a new key does.
  Claim ClaimOf(Slot old, SizeClass size_class, Reach reach) const {
    const bool grows = old.empty() || (is_member_ && size_class > old.size_class());
    if (reach == Reach::kOfPuts) return grows ? Claim::kNewKey : Claim::kOverwrite;
    if (reach == Reach::kOfCopies) return grows ? Claim::kNewKey : Claim::kCopy;
    return reach == Reach::kReserve ? Claim::kCopy : Claim::kLastCopy;
  }
  // In a cache, overwrites also leave the reserve, as long as anything can be evicted.
  Claim FirstClaim(Claim claim) const { return eviction_ == nullptr ? claim : Claim::kNewKey; }
  // Finds a piece for an item of class *size_class when the heap has none at once, moving or evicting others if needed.
  // For an overwrite with no larger class than the old one it may be the heap's spare; then *size_class becomes the old
  // one's. Returns kOk, kMakingRoom or kNoMemory.
  Code AllocateSlowly(const Want& want, SizeClass* size_class, uint64_t* offset);
  // Removes some expired items. Returns whether this partition has more of them.
  bool SweepSome(int64_t now_ns);
  // The code for a write that found no room: kMakingRoom while expired items may still occupy some.
  Code NoRoom(bool may_step) const;
  Code AllocateMoving(const Want& want, SizeClass* size_class, uint64_t* offset);
  Code AllocateEvicting(const Want& want, SizeClass* size_class, uint64_t* offset);
  Code FindHome(Slot lent, const Want& want);
  // Returns a slot for a new key. Null with *code.
  char* FindRoom(uint64_t hash, int64_t now_ns, bool may_step, Code* code);
  // For caches (partition_eviction.cc).
  bool EvictForUnit(int64_t now_ns, int* evictions);
  uint64_t EvictFor(uint64_t bytes, uint64_t spared, int64_t now_ns, uint32_t* looks);
  uint64_t EvictOne(BlockKind kind, uint64_t spared, int64_t now_ns, uint32_t* looks);
  // Reports that an item was written at `slot`.
  void NoteWritten(uint64_t hash, Slot slot, ItemLengths lengths, bool refill, bool was_old, int64_t now_ns);

  void Free(Slot slot) {
    if (eviction_ != nullptr) [[unlikely]]
      eviction_->Removed(KindFor(slot.bytes()), slot.offset());
    heap_->Free(number(), slot.offset(), slot.bytes());
  }
  int number() const { return static_cast<int>(prefix_); }
  WriteResult Link(Slot piece, uint64_t hash, Found found, ItemLengths lengths, uint64_t version, bool must_live,
                   int64_t now_ns, const PutParams& params);
  uint64_t NextVersion() {
    if (++versions_ > marked_versions_) [[unlikely]]
      RaiseVersionMark();
    return versions_ << bits_ | prefix_;
  }
  void RaiseVersionMark();
  void TakeIndexFigures();
  // Notes for the sweep that a write set an item's expiry to `expiry_ms` (0: never). Returns `result`.
  WriteResult Noted(uint64_t hash, uint64_t expiry_ms, WriteResult result) {
    if (expiry_ms != 0 && result.code == Code::kOk) [[unlikely]]
      NoteExpiry(hash, expiry_ms);
    return result;
  }
  void NoteExpiry(uint64_t hash, uint64_t expiry_ms);
  void ShowBucket(const char* bucket, uint32_t of,
                  absl::FunctionRef<void(uint64_t hash, const ItemView& item)> see) const;
  void Foresee(absl::Span<const ExpiryIndex::Place> places) const;
  void VisitBucket(ExpiryIndex::Visit* visit, uint64_t clock_us, int64_t now_ns, std::vector<ExpiredItem>* left);
  // The items of a main bucket, and then those of the overflow bucket that it links to.
  struct ItemsToSweep {
    std::array<char*, 2 * kSlotsPerBucket> slots;
    size_t count = 0;
    size_t own = 0;  // of the main bucket
  };
  void Gather(char* segment, uint32_t number, ItemsToSweep* items) const;
  void SweepItems(const ItemsToSweep& items, uint64_t clock_us, int64_t now_ns, ExpiryIndex::Visit* visit,
                  std::vector<ExpiredItem>* left);

  char* const region_;
  char* const marks_;  // kv/layout/region.h
  char* const redo_;
  const Hasher* const hasher_;
  const uint64_t prefix_;
  const int bits_;
  const uint64_t max_value_bytes_;
  const TableClock* const clock_;   // that decides which items are absent; or null
  const TableClock* const sweeps_;  // that decides which items are swept; or null
  const bool is_member_;            // of a group: TableOptions::keeps_expired
  const int largest_rewritten_;     // class of the largest piece that is written in place
  Index index_;
  Heap* const heap_;
  Compactor* const compactor_;
  ExpiryIndex expiry_;
  uint64_t round_us_ = 0;              // items that had expired by then are removed in the sweep's current round
  std::atomic<uint64_t> swept_us_{0};  // the same of the last complete round
  uint64_t versions_;
  uint64_t marked_versions_;  // the mark in the region: upper bound of the versions in use
  std::vector<char> scratch_;
  const Walk walk_;
  const uint64_t share_bytes_;          // of the region
  std::unique_ptr<Eviction> eviction_;  // null: nothing is evicted

  Figure keys_, key_bytes_, value_bytes_, links_, rewrites_, deletes_, expired_items_, moved_items_;
  Figure splits_, merges_, segment_moves_, overflow_keys_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_TABLE_PARTITION_H_
