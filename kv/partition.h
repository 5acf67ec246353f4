// One partition of the table: its part of the index, its items, its versions. Table's documentation gives the
// contracts.
#ifndef FARLOOK_KV_PARTITION_H_
#define FARLOOK_KV_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "kv/compactor.h"
#include "kv/expiry.h"
#include "kv/expiry_clock.h"
#include "kv/figure.h"
#include "kv/hash.h"
#include "kv/heap.h"
#include "kv/index.h"
#include "kv/item.h"
#include "kv/shared_directory.h"
#include "kv/table.h"

namespace farlook::kv {

// Thread safety: one thread at a time, but AddTo and the prefetches.
class Partition final : public ItemMover {
 public:
  Partition(absl::Span<char> region, const Hasher* hasher, Heap* heap, Compactor* compactor, SegmentPool* segments,
            SharedDirectory* directory, uint64_t prefix, int bits, const TableOptions& options);

  bool Init();

  WriteResult Put(uint64_t hash, absl::string_view key, absl::string_view value, const PutParams& params,
                  int64_t now_ns);
  WriteResult Touch(uint64_t hash, absl::string_view key, uint64_t expiry_ms, int64_t now_ns);
  bool Expire(uint64_t hash, uint64_t offset, int64_t now_ns);
  WriteResult Delete(uint64_t hash, absl::string_view key, Condition condition, uint64_t version, int64_t now_ns);
  WriteResult Get(uint64_t hash, absl::string_view key, ItemView* item) const;
  WriteResult InsertCounter(uint64_t hash, absl::string_view key, uint64_t cell, uint64_t expiry_ms, int64_t now_ns);
  WriteResult DeleteCounter(uint64_t hash, absl::string_view key, int64_t now_ns);
  Code Reserve(uint64_t hash, absl::string_view key, uint64_t value_bytes, Reservation* reservation, bool may_step);
  WriteResult Publish(const Reservation& reservation, const PutParams& params, int64_t now_ns);
  void Abandon(const Reservation& reservation);
  bool Sweep(size_t budget, int64_t now_ns, std::vector<ExpiredCounter>* counters);
  ExpiryIndex::Tick expiry_due() const { return expiry_.due(); }
  void PrefetchItem(uint64_t hash) const { index_.PrefetchItem(hash); }

  bool Tidy(int64_t now_ns);

  void AddTo(TableStats* stats) const;

  char* SlotOfItemAt(uint64_t offset) override;
  void MoveItem(char* slot, uint64_t from, uint64_t to) override;

 private:
  // Where a key is now.
  struct Found {
    char* slot = nullptr;  // null: absent
    char* item = nullptr;
    uint64_t version() const { return LoadWord(item + kVersionOffset); }
    uint64_t expiry_ms() const { return ExpiryTimeMs(LoadWord(item + kExpiryOffset)); }
    ItemLengths lengths() const { return ItemLengths::From(LoadWord(item + kLengthsOffset)); }
  };
  // An item that is whole in private memory.
  struct Image {
    const char* bytes;  // its lengths, key and value lie where they will, followed by zeros to a whole word
    uint64_t size;
    uint64_t version, checksum, expiry;
  };

  Found Find(uint64_t hash, absl::string_view key) const;
  bool Expired(const Found& found) const;
  // kOk if the condition holds. Otherwise says why, with the present version and slot. `expired`: as if it were absent.
  WriteResult Check(const Found& found, bool expired, Condition condition, uint64_t version, ItemKind kind) const;
  WriteResult PutItem(uint64_t hash, absl::string_view key, absl::string_view value, ItemKind kind,
                      const PutParams& params, int64_t now_ns);
  // Ends the old item of a put. False: its expiry came first, so the key is absent.
  bool Kill(const Found& found, bool must_live, int64_t now_ns);
  void Remove(const Found& found, int64_t now_ns);
  void RemoveExpired(const Found& found, int64_t now_ns);
  Image Compose(absl::string_view key, absl::string_view value, ItemLengths lengths, uint64_t expiry_ms);
  static void StoreDead(char* to, const Image& image);
  WriteResult Rewrite(const Found& found, const Image& image, bool must_live, int64_t now_ns);
  WriteResult DeleteItem(uint64_t hash, absl::string_view key, ItemKind kind, Condition condition, uint64_t version,
                         int64_t now_ns);
  // A piece, moving others if it must. kOk, kMakingRoom, kNoMemory.
  Code Allocate(uint64_t bytes, Claim claim, bool may_step, uint64_t* offset) {
    *offset = heap_->Allocate(number(), bytes, claim);
    return *offset != 0 ? Code::kOk : AllocateSlowly(bytes, claim, may_step, offset);
  }
  Code AllocateSlowly(uint64_t bytes, Claim claim, bool may_step, uint64_t* offset);
  // A slot for a new key. Null with *code.
  char* FindRoom(uint64_t hash, int64_t now_ns, bool may_step, Code* code);
  void Free(Slot slot) { heap_->Free(number(), slot.offset(), slot.bytes()); }
  int number() const { return static_cast<int>(prefix_); }
  WriteResult Link(const Reservation& reservation, Found found, ItemLengths lengths, uint64_t version, bool must_live,
                   int64_t now_ns, bool may_step);
  uint64_t NextVersion() {
    if (++versions_ > marked_versions_) [[unlikely]]
      RaiseVersionMark();
    return versions_ << bits_ | prefix_;
  }
  void RaiseVersionMark();
  void TakeIndexFigures();
  // What a write did to an item that expires at `expiry_ms` from now on (0: never), for the sweep.
  WriteResult Noted(uint64_t hash, uint64_t expiry_ms, const WriteResult& result) {
    if (expiry_ms != 0 && result.code == Code::kOk) [[unlikely]]
      expiry_.Note(hash, expiry_ms);
    return result;
  }
  void VisitBucket(ExpiryIndex::Visit* visit, uint64_t clock_us, int64_t now_ns, std::vector<ExpiredCounter>* counters);
  void SweepBucket(const char* bucket, uint64_t clock_us, int64_t now_ns, ExpiryIndex::Visit* visit,
                   std::vector<ExpiredCounter>* counters);

  char* const region_;
  char* const marks_;  // kv/region.h
  char* const redo_;
  const Hasher* const hasher_;
  const uint64_t prefix_;
  const int bits_;
  const uint64_t max_value_bytes_;
  const TableClock* const clock_;  // or null
  const int largest_rewritten_;    // class of the largest piece that is written in place
  Index index_;
  Heap* const heap_;
  Compactor* const compactor_;
  ExpiryIndex expiry_;
  uint64_t versions_;
  uint64_t marked_versions_;  // the region says that they may be in use up to here
  std::vector<char> scratch_;

  Figure keys_, key_bytes_, value_bytes_, puts_, rewrites_, deletes_, expired_items_, moved_items_;
  Figure splits_, merges_, segment_moves_, overflow_keys_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_PARTITION_H_
