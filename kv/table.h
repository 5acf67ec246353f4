// The writer's side of the table: what the server does to the region.
//
// The hash space is cut into partitions by its top bits. A partition has its own segments, blocks of small items and
// versions. It shares free memory, blocks of longer items and the directory with the others, so writers of different
// partitions rarely meet.
//
// Thread safety: a call that takes a hash must be made under the lock of PartitionOf(hash), see locks(), where several
// threads call; calls for different partitions may run at the same time. A call that makes room tries to get other
// partitions' locks. Readers of the region need no lock at all.
//
// Ordering: every store to the region is a release (words.h). A write is, in this order:
//     version word of the new item as DEAD -> its body, its expiry -> old item DEAD -> slot, in place
//         -> version word alive -> return
// and where the new item fits into the old one's piece, which is no longer than kRedoBytes, in that piece:
//     a copy to the partition's redo piece -> version word as DEAD -> body, expiry -> version word alive -> return
// See docs/protocol.md, "Writing". Do not change the order: tests/ and the model say what breaks.
#ifndef FARLOOK_KV_TABLE_H_
#define FARLOOK_KV_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/epoch_word.h"
#include "kv/expiry.h"
#include "kv/hash.h"
#include "kv/item.h"
#include "kv/key_place.h"
#include "kv/message.h"
#include "kv/segment.h"
#include "kv/slot.h"
#include "kv/touched.h"

namespace farlook::kv {

class Compactor;
class Heap;
class Partition;
class PartitionLocks;
class PieceMarks;
class SegmentPool;
class SharedDirectory;

class TableClock;

struct TableOptions {
  uint64_t incarnation = 0;  // random; REQUIRES != 0
  uint64_t hash_seed = 0;    // random
  int partitions = 1;        // a power of two, at most 64
  uint64_t max_value_bytes = kDefaultMaxValueBytes;
  // Below this no version lies. Random, below kMaxFirstVersion, so that a condition on a version of another incarnation
  // does not hold here by chance.
  uint64_t first_version = 0;
  bool rewrites = true;  // false, for tests of what moves: no put is done in the old item's piece
  bool evict = false;    // a cache: where memory is full, items go that were not put to be kept, and are no counters
  // Items' expiry times are times of this clock. Null: nothing ever expires.
  const TableClock* clock = nullptr;
  // What has expired is there until somebody deletes it; Sweep() only shows it. Of a group's member, where the end of
  // an item is a record.
  bool keeps_expired = false;
};
// Leaves room for as many versions again, and 15 bits above them.
inline constexpr uint64_t kMaxFirstVersion = uint64_t{1} << 47;
inline constexpr uint64_t kEndOfVersions = uint64_t{1} << 48;

// How a key is to be put.
struct PutParams {
  Condition condition = Condition::kAlways;
  uint64_t version = 0;    // for Condition::kVersion
  uint64_t expiry_ms = 0;  // when it expires, of the table's clock; 0: never
  bool keep_ttl = false;   // instead: when the old item would have; where there is none, as above
  uint8_t flags = 0;       // of the item: kKeepItem
  bool refill = false;     // the key was just missed: if it was evicted lately it is more than a chance find
  bool may_step = true;    // may make a step towards room; else kMakingRoom says that one would be due
};

// What a write did. `version` and `slot` are those of the item that the key has now, where it has one and the call
// found out: after kOk of a put, after kExists, kVersionMismatch. A delete's kOk has the version that was deleted.
struct WriteResult {
  Code code = Code::kOk;
  uint64_t version = 0;
  Slot slot;
  bool in_place = false;  // of a put: its item lies where the old one did, so that it took no memory and no slot
};

// Memory for an item that is not published yet: its version is DEAD, its header and key are written.
struct Reservation {
  Slot slot;  // empty: none
  uint64_t hash = 0;
  uint64_t version = 0;    // that it will have
  absl::string_view head;  // what of the item its checksum covers between version and value; in the region
  // Of version, head and value, from who has computed it as the value came (Hasher::Stream). Else Publish does, under
  // the lock.
  std::optional<uint64_t> checksum;
  absl::Span<char> value;  // in the region: write with StoreWord (8-byte aligned) or let the transport write
};

// Where a walk over a partition's items has come to.
struct WalkPlace {
  uint32_t bucket = 0;
  uint64_t passed = 0;  // of the partition's positions, for this bucket
};

// What a piece of the index's housekeeping came to.
enum class TidyResult : uint8_t {
  kNothing,  // there is nothing to do before the next write
  kWaits,    // there will be more, though nobody writes: when time has passed, or memory is free
  kDid,      // it did something; there may be more
};

// What is over, and somebody else ends: a counter, or an item of a table that keeps what has expired.
struct ExpiredItem {
  uint64_t hash;
  std::string key;
};

struct TableStats {
  uint64_t keys = 0;
  uint64_t key_bytes = 0;    // of live items
  uint64_t value_bytes = 0;  // of live items
  uint64_t region_bytes = 0;
  uint64_t index_bytes = 0;    // memory of segments, and the directory in force
  uint64_t segment_bytes = 0;  // of segments that are in use, or were lately
  uint64_t segments = 0;       // in use
  uint64_t splits = 0;
  uint64_t merges = 0;  // of two segments
  uint64_t segment_moves = 0;
  uint64_t overflow_keys = 0;  // in overflow buckets at their insertion, since start
  uint64_t moved_items = 0;    // by compaction
  uint64_t expired_items = 0;  // that were removed
  uint64_t expiry_bytes = 0;   // of this process's memory: where items expire
  uint64_t puts = 0;           // applied
  uint64_t rewrites = 0;       // of the puts, those in the old item's piece
  uint64_t deletes = 0;        // applied
  int level = 0;               // of the directory

  // Of a cache, by kind of block: small, medium, large; runs.
  struct Evictions {
    uint64_t evictions = 0;
    uint64_t age_ms = 0;  // of those that were last, about: since they were put, or last looked at in vain
  };
  std::array<Evictions, 4> evictions;
  uint64_t ghost_hits = 0;      // refills of keys that had been evicted soon after they were first put
  uint64_t eviction_bytes = 0;  // of this process's memory: what chooses them knows

  // Memory. Region, but for rounding: overhead, index, free, and the blocks of each kind.
  struct Blocks {
    uint64_t blocks = 0;
    uint64_t bytes = 0;       // of blocks
    uint64_t used_bytes = 0;  // of items' pieces in them
  };
  std::array<Blocks, 4> blocks;      // for small items, medium and large ones; and units of one item each
  uint64_t free_bytes = 0;           // of units that nothing uses
  uint64_t reserve_bytes = 0;        // of those, what new keys do not get
  uint64_t used_bytes = 0;           // of items' pieces
  uint64_t reclaimable_bytes = 0;    // holes among them that moving items could make units of
  uint64_t overhead_bytes = 0;       // header, directory, marks, redo pieces, page map
  uint64_t largest_value_bytes = 0;  // a new value of this length has units without moving anything, under any key
  uint64_t largest_after_bytes = 0;  // and one of this length fits after moving; often a longer one does too
};

class Table {
 public:
  // Makes an empty table in `region`, which must be zero, 64-byte aligned and outlive it. INVALID_ARGUMENT says which
  // option or size is wrong.
  static absl::StatusOr<std::unique_ptr<Table>> Create(absl::Span<char> region, const TableOptions& options);
  ~Table();

  const Hasher& hasher() const { return hasher_; }
  uint64_t HashOf(absl::string_view key) const { return hasher_(key); }
  int partitions() const;
  int PartitionOf(uint64_t hash) const { return partition_bits_ == 0 ? 0 : PartitionAt(PositionOf(hash)); }
  // One for each partition.
  PartitionLocks* locks() const { return locks_.get(); }

  // Where memory is full of holes, room for a write is made in steps. Put, InsertCounter, Reserve and Publish then say
  // kMakingRoom, which changes nothing (a reservation is kept): let the lock go and call again, until they say
  // something else, which they do.

  // An item that has expired is absent in all that follows; whatever write finds it frees it.

  // Puts key = value when the condition holds. REQUIRES key.size() is within limits. Codes: kOk, kNotFound, kExists,
  // kVersionMismatch, kNoMemory, kIndexFull, kTooLarge, kWrongKind. Anything but kOk changes nothing. `now_ns`: the
  // time, for quarantines.
  WriteResult Put(const KeyPlace& place, const KeyValue& item, const PutParams& params, int64_t now_ns);
  WriteResult Put(uint64_t hash, absl::string_view key, absl::string_view value, const PutParams& params,
                  int64_t now_ns) {
    return Put(KeyPlace{hash}, KeyValue{key, value}, params, now_ns);
  }
  WriteResult Put(uint64_t hash, absl::string_view key, absl::string_view value, Condition condition, uint64_t version,
                  int64_t now_ns) {
    return Put(hash, key, value, PutParams{condition, version}, now_ns);
  }

  // The key's item expires at `expiry_ms` from now on, or, with 0, never. kOk with version and slot, which stay what
  // they are; kNotFound; kWrongKind.
  WriteResult Touch(uint64_t hash, absl::string_view key, uint64_t expiry_ms, int64_t now_ns);

  // The tick in which a partition's first item expires, or earlier (expiry.h): when it is over Sweep() has something to
  // do. Needs no lock.
  ExpiryIndex::Tick ExpiryDue(int partition) const;
  // Removes values that have expired, and adds what others end to `*left`; looks at some `budget` buckets and those
  // that continue them. Whether there is more to do now. REQUIRES the partition's lock.
  bool Sweep(int partition, size_t budget, int64_t now_ns, std::vector<ExpiredItem>* left);

  // Codes: kOk, kNotFound, kVersionMismatch, kWrongKind.
  WriteResult Delete(uint64_t hash, absl::string_view key, Condition condition, uint64_t version, int64_t now_ns);
  // Removes whatever item the key has, a counter's too; `has_expired`: it counts as such. Codes: kOk, kNotFound.
  WriteResult Erase(uint64_t hash, absl::string_view key, bool has_expired, int64_t now_ns);

  // The item that the key has now. kOk with `*item` (pointing into the region; valid under the lock), version and slot;
  // or kNotFound.
  WriteResult Get(uint64_t hash, absl::string_view key, ItemView* item) const;

  // A counter's item, which names its cell for as long as it lives. The caller keeps the order (docs/protocol.md,
  // "Counters"): the cell has its value before InsertCounter, and is dead before DeleteCounter. Codes: as Put and
  // Delete of a key that must be absent, or present; kWrongKind if the key names a value.
  WriteResult InsertCounter(uint64_t hash, absl::string_view key, uint64_t cell, uint64_t expiry_ms, int64_t now_ns);
  WriteResult InsertCounter(uint64_t hash, absl::string_view key, uint64_t cell, int64_t now_ns) {
    return InsertCounter(hash, key, cell, /*expiry_ms=*/0, now_ns);
  }
  WriteResult DeleteCounter(uint64_t hash, absl::string_view key, int64_t now_ns = 0);
  // kOk and *cell; kNotFound; kWrongKind.
  Code FindCounter(uint64_t hash, absl::string_view key, uint64_t* cell) const;

  // A put in two steps, for a value that arrives by itself. Between the steps the lock may be let go; the memory is
  // used for nothing else until Publish or Abandon. Reserve: kOk or kNoMemory or kTooLarge. Publish checks the
  // condition, as Put does; unless it says kOk the reservation is abandoned. The value's bytes must be written by then.
  // The item's flags and kind are those that were reserved with. (A counter's item that is made so holds what the
  // caller wants, and may be replaced.)
  Code Reserve(uint64_t hash, absl::string_view key, uint64_t value_bytes, Reservation* reservation, int64_t now_ns,
               bool may_step = true, uint8_t flags = 0, ItemKind kind = ItemKind::kValue);
  // Reserve for a copy of another table's item, which will have that one's version; what this table assigns later is
  // above it. kVersionMismatch: no table with as many partitions gave a key of this hash this version.
  Code ReserveCopy(uint64_t hash, absl::string_view key, uint64_t value_bytes, uint64_t version,
                   Reservation* reservation, int64_t now_ns, uint8_t flags = 0, ItemKind kind = ItemKind::kValue);
  WriteResult Publish(const Reservation& reservation, const PutParams& params, int64_t now_ns);
  WriteResult Publish(const Reservation& reservation, Condition condition, uint64_t version, int64_t now_ns) {
    return Publish(reservation, PutParams{condition, version}, now_ns);
  }
  void Abandon(const Reservation& reservation);

  // No version of a later write to one of the partition's keys is this or less. Under its lock.
  uint64_t NewestVersion(int partition) const;
  // Nor is one of its partition's this, or less, which another table of the same shape has used. Under that one's lock.
  int PartitionOfVersion(uint64_t version) const;
  void RaiseVersions(uint64_t version);

  // Shows the partition's items from `*place` on, of some `budget` buckets, and moves it. False: those were the last.
  // What is there from the first call to the last is shown, once at least, whatever is written in between. `see` writes
  // nothing. REQUIRES the partition's lock.
  bool Walk(int partition, WalkPlace* place, size_t budget,
            absl::FunctionRef<void(uint64_t hash, const ItemView& item)> see) const;

  // For tests of callers: the next `calls` of Put, InsertCounter, Reserve and Publish say kMakingRoom.
  void PretendToMakeRoom(uint64_t calls) { pretences_ = calls; }

  // A reader found an item where `slot` leads, and says so, truly or not. False: nothing that may be evicted is there.
  // Any thread, without a lock.
  bool Touched(Slot slot);
  // The same of many. How many led to what may be evicted.
  size_t Touched(const TouchedLocations& touched);
  bool evicts() const { return marks_ != nullptr; }

  // Of a group's member: shows this word to all who READ the region's header, before it returns. Any thread, without a
  // lock; one at a time.
  void ShowEpoch(EpochWord word);

  // A bounded piece of the index's housekeeping, under the lock of this partition: writes do the same as they come.
  TidyResult Tidy(int partition, int64_t now_ns);
  // Whether memory of the index waits for it. Needs no lock.
  bool untidy() const;

  // Without a lock: have the bucket, then the items it points to, brought into cache before a call for place->hash, and
  // note where they are, which is a hint for Put().
  void PrefetchBucket(KeyPlace* place) const;
  void PrefetchItem(KeyPlace* place) const;
  // All buckets, and then all items.
  void Prefetch(absl::Span<KeyPlace> places) const;

  // Sums over all partitions. Needs no lock; the figures are of slightly different moments.
  TableStats stats() const;

 private:
  Table(absl::Span<char> region, const TableOptions& options);

  int PartitionAt(uint64_t position) const {
    return partition_bits_ == 0 ? 0 : static_cast<int>(position >> (64 - partition_bits_));
  }
  void PrefetchBucketHere(KeyPlace* place) const;
  bool Pretends() { return pretences_ > 0 && pretences_-- > 0; }

  absl::Span<char> region_;
  TableOptions options_;
  Hasher hasher_;
  int partition_bits_ = 0;
  uint64_t pretences_ = 0;
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<PartitionLocks> locks_;
  std::unique_ptr<Compactor> compactor_;
  std::unique_ptr<PieceMarks> marks_;  // null: nothing is evicted
  std::unique_ptr<SharedDirectory> directory_;
  std::unique_ptr<SegmentPool> segments_;
  std::vector<std::unique_ptr<Partition>> partitions_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_TABLE_H_
