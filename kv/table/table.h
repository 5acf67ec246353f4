// The writer's side of the table: the server's operations on the region.
//
// The hash space is divided into partitions by the top bits of hashes. A partition has its own segments, blocks of
// small items and versions. It shares free memory, blocks of longer items and the directory with the others, so writers
// of different partitions rarely contend.
//
// Thread safety: with several threads, a call that takes a hash must be made under the lock of PartitionOf(hash), see
// locks(). Calls for different partitions may run at the same time. A call that makes room tries to take other
// partitions' locks. Readers of the region need no lock.
//
// Ordering: every store to the region is a release (words.h). A write is, in this order:
//     version word of the new item as DEAD -> its body, its expiry -> old item DEAD -> slot, in place
//         -> version word alive -> return
// If the new item fits into the old one's piece, and that is no longer than kRedoBytes, it is written there:
//     a copy to the partition's redo piece -> version word as DEAD -> body, expiry -> version word alive -> return
// See docs/protocol.md, "Writing". Do not change the order: the tests in tests/ and the model show what breaks.
#ifndef FARLOOK_KV_TABLE_TABLE_H_
#define FARLOOK_KV_TABLE_TABLE_H_

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
#include "kv/expiry/expiry.h"
#include "kv/layout/epoch_word.h"
#include "kv/layout/hash.h"
#include "kv/layout/item.h"
#include "kv/layout/key_place.h"
#include "kv/layout/region.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/wire/message.h"
#include "kv/wire/room.h"
#include "kv/wire/touched.h"

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
  // All versions are above this. Random, below kMaxFirstVersion, so that a condition on a version of another
  // incarnation does not hold here by chance.
  uint64_t first_version = 0;
  bool rewrites = true;  // false, for tests of moves: no put is done in the old item's piece
  bool evict = false;    // a cache: if memory is full, items are evicted, except counters and items that were put with
                         // kKeepItem
  // Items' expiry times are times of this clock. Null: nothing ever expires.
  const TableClock* clock = nullptr;
  // Expired items stay until they are deleted explicitly; Sweep() only reports them. For a member of a group, where the
  // end of an item is a record.
  bool keeps_expired = false;
};
// Leaves room for as many versions again, and 15 bits above them.
inline constexpr uint64_t kMaxFirstVersion = uint64_t{1} << 47;
inline constexpr uint64_t kEndOfVersions = uint64_t{1} << 48;

// Options of a put.
struct PutParams {
  Condition condition = Condition::kAlways;
  uint64_t version = 0;    // for Condition::kVersion
  uint64_t expiry_ms = 0;  // the expiry time on the table's clock; 0: never
  bool keep_ttl = false;   // keep the old item's expiry; without an old item, expiry_ms applies
  uint8_t flags = 0;       // of the item: kKeepItem
  bool refill = false;     // the key was just missed: if it was evicted recently, it begins old (eviction.h)
  bool may_step = true;    // may do a step of making room; otherwise kMakingRoom reports that one is needed
};

// The result of a write. `version` and `slot` are those of the key's present item, if there is one and the call
// determined it: after kOk of a put, after kExists, kVersionMismatch. A delete's kOk has the version that was deleted.
struct WriteResult {
  Code code = Code::kOk;
  uint64_t version = 0;
  Slot slot;
  bool in_place = false;  // of a put: its item has the old item's place, so it took no memory and no slot
};

// Memory for an item that is not published yet: its version is DEAD, its header and key are written.
struct Reservation {
  Slot slot;  // empty: none
  uint64_t hash = 0;
  uint64_t version = 0;    // that it will have
  absl::string_view head;  // the part of the item between version and value that its checksum covers; in the region
  // The checksum of version, head and value, if the caller computed it while the value arrived (Hasher::Stream).
  // Otherwise Publish computes it, under the lock.
  std::optional<uint64_t> checksum;
  absl::Span<char> value;  // in the region: write with StoreWord (8-byte aligned) or let the transport write
};

// The memory that a reservation may use.
enum class Reach : uint8_t {
  kOfPuts,    // new keys leave the reserve; in a group also overwrites that need more room
  kOfCopies,  // the same, and leaves what is set aside for the index
  kReserve,   // leaves what is set aside for the index
  kLast,      // the same, and may waste memory, or overwrites' certain room: for a copy without any other place
};

// The progress of a walk over a partition's items.
struct WalkPlace {
  uint32_t bucket = 0;
  uint64_t passed = 0;  // of the partition's positions, for this bucket
};

// The result of one step of the index's housekeeping.
enum class TidyResult : uint8_t {
  kNothing,  // nothing to do before the next write
  kWaits,    // more will be due, even without writes: later, or when memory is free
  kDid,      // did something; there may be more
};

// An expired item that the caller must end: a counter, or an item of a table with keeps_expired.
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
  uint64_t segment_bytes = 0;  // of segments in use or in quarantine
  uint64_t segments = 0;       // in use
  uint64_t splits = 0;
  uint64_t merges = 0;  // of two segments
  uint64_t segment_moves = 0;
  uint64_t overflow_keys = 0;  // that were inserted into overflow buckets, since start
  uint64_t moved_items = 0;    // by compaction
  uint64_t expired_items = 0;  // that were removed
  uint64_t expiry_bytes = 0;   // of this process's memory: the expiry index
  uint64_t puts = 0;           // applied
  uint64_t rewrites = 0;       // of the puts, those in the old item's piece
  uint64_t deletes = 0;        // applied
  int level = 0;               // of the directory

  // Evictions of a cache, by kind of block: small, medium, large; runs.
  struct Evictions {
    uint64_t evictions = 0;
    uint64_t age_ms = 0;  // of the last victims, about: time since they were put, or since the hand's last visit
  };
  std::array<Evictions, 4> evictions;
  uint64_t ghost_hits = 0;      // refills of keys that had been evicted soon after they were first put
  uint64_t eviction_bytes = 0;  // of this process's memory: the data for choosing victims

  // Memory. Apart from rounding, the region consists of overhead, index, free memory, and the blocks of each kind.
  struct Blocks {
    uint64_t blocks = 0;
    uint64_t bytes = 0;       // of blocks
    uint64_t used_bytes = 0;  // of items' pieces in them
  };
  std::array<Blocks, 4> blocks;      // for small, medium and large items; and units of one item each
  uint64_t free_bytes = 0;           // of unused units
  uint64_t reserve_bytes = 0;        // the part of free_bytes that new keys do not get
  uint64_t used_bytes = 0;           // of items' pieces
  uint64_t reclaimable_bytes = 0;    // holes that moving items could turn into units
  uint64_t overhead_bytes = 0;       // header, directory, marks, redo pieces, page map
  uint64_t largest_value_bytes = 0;  // a new value of this length fits without moving anything, under any key
  uint64_t largest_after_bytes = 0;  // a value of this length fits after moving; often a longer one does too
};

class Table {
 public:
  // Creates an empty table in `region`, which must be zero, 64-byte aligned and outlive it. INVALID_ARGUMENT names the
  // wrong option or size.
  static absl::StatusOr<std::unique_ptr<Table>> Create(absl::Span<char> region, const TableOptions& options);
  ~Table();

  const Hasher& hasher() const { return hasher_; }
  uint64_t HashOf(absl::string_view key) const { return hasher_(key); }
  int partitions() const;
  int PartitionOf(uint64_t hash) const { return partition_bits_ == 0 ? 0 : PartitionAt(PositionOf(hash)); }
  // One lock for each partition.
  PartitionLocks* locks() const { return locks_.get(); }

  // If memory is full of holes, room for a write is made in steps. Then Put, InsertCounter, Reserve and Publish return
  // kMakingRoom, which changes nothing (a reservation is kept): release the lock and call again until the code differs.
  // The number of these calls is bounded.

  // All following functions treat an expired item as absent; a write that finds one frees it.

  // Puts key = value if the condition holds. REQUIRES key.size() is within limits. Codes: kOk, kNotFound, kExists,
  // kVersionMismatch, kNoMemory, kIndexFull, kTooLarge, kWrongKind. Any code except kOk changes nothing. `now_ns`: the
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

  // Sets the expiry of the key's item to `expiry_ms` (0: never). kOk with version and slot, which do not change;
  // kNotFound; kWrongKind.
  WriteResult Touch(uint64_t hash, absl::string_view key, uint64_t expiry_ms, int64_t now_ns);

  // The tick in which a partition's first item expires, or earlier (expiry.h): when that tick has ended, Sweep() has
  // work to do. Needs no lock.
  ExpiryIndex::Tick ExpiryDue(int partition) const;
  // Removes expired values, and adds expired items that the caller must end to `*left`. Looks at about `budget` buckets
  // and their overflow buckets. Returns whether more remains to do now. REQUIRES the partition's lock. `to_now`: also
  // looks for items that expire in the current tick.
  bool Sweep(int partition, size_t budget, int64_t now_ns, std::vector<ExpiredItem>* left, bool to_now = false);
  // Return whether all items that had expired by this time of the table's clock were removed, or added to `*left`: in a
  // partition, and in the table. Until then a write that finds no room and may not make steps returns kMakingRoom.
  // Needs no lock.
  bool Swept(int partition, uint64_t time_us) const;
  bool Swept(uint64_t time_us) const;

  // Codes: kOk, kNotFound, kVersionMismatch, kWrongKind.
  WriteResult Delete(uint64_t hash, absl::string_view key, Condition condition, uint64_t version, int64_t now_ns);
  // Removes the key's item of any kind, also a counter's; `has_expired`: counted as expired. Codes: kOk, kNotFound.
  WriteResult Erase(uint64_t hash, absl::string_view key, bool has_expired, int64_t now_ns);

  // The key's present item. kOk with `*item` (which points into the region; valid under the lock), version and slot; or
  // kNotFound.
  WriteResult Get(uint64_t hash, absl::string_view key, ItemView* item) const;

  // Inserts or deletes a counter's item, which names its cell for its whole life. The caller keeps the order
  // (docs/protocol.md, "Counters"): the cell has its value before InsertCounter, and is dead before DeleteCounter.
  // Codes: as Put and Delete of a key that must be absent, or present; kWrongKind if the key names a value.
  WriteResult InsertCounter(uint64_t hash, absl::string_view key, uint64_t cell, uint64_t expiry_ms, int64_t now_ns);
  WriteResult InsertCounter(uint64_t hash, absl::string_view key, uint64_t cell, int64_t now_ns) {
    return InsertCounter(hash, key, cell, /*expiry_ms=*/0, now_ns);
  }
  WriteResult DeleteCounter(uint64_t hash, absl::string_view key, int64_t now_ns = 0);
  // kOk and *cell; kNotFound; kWrongKind.
  Code FindCounter(uint64_t hash, absl::string_view key, uint64_t* cell) const;

  // A put in two steps, for a value that arrives asynchronously. Between the steps the lock may be released; the memory
  // is not used otherwise until Publish or Abandon. Reserve: kOk or kNoMemory or kTooLarge. Publish checks the
  // condition, as Put does; unless it returns kOk or kMakingRoom, the reservation is abandoned. The value's bytes must
  // be written before Publish. The item has the flags and the kind that were passed to Reserve. (A counter's item that
  // is made this way has any contents that the caller wants, and may be replaced.)
  Code Reserve(uint64_t hash, absl::string_view key, uint64_t value_bytes, Reservation* reservation, int64_t now_ns,
               bool may_step = true, uint8_t flags = 0, ItemKind kind = ItemKind::kValue);
  // Reserves a copy of another table's item with that item's version; later versions of this table are above it.
  // Returns kVersionMismatch if no table with as many partitions assigned this version to a key of this hash.
  Code ReserveCopy(uint64_t hash, absl::string_view key, uint64_t value_bytes, uint64_t version,
                   Reservation* reservation, int64_t now_ns, uint8_t flags = 0, ItemKind kind = ItemKind::kValue,
                   Reach reach = Reach::kOfPuts);
  WriteResult Publish(const Reservation& reservation, const PutParams& params, int64_t now_ns);
  WriteResult Publish(const Reservation& reservation, Condition condition, uint64_t version, int64_t now_ns) {
    return Publish(reservation, PutParams{condition, version}, now_ns);
  }
  void Abandon(const Reservation& reservation);

  // For a backup. Sets units of 64 KiB aside for the index, which only the index uses. Makes a step towards having them
  // free, under the lock of `partition`. Codes: kOk, kMakingRoom, kNoMemory.
  Code SetAsideForIndex(uint64_t units, int partition, int64_t now_ns);
  // Returns the room for copies that need more memory than the items that they replace. Needs no lock.
  Room RoomForCopies() const;
  // Returns whether room for overwrites depends on a reserved item that must be published first. Needs no lock.
  bool AwaitsPublish() const;
  // Has the next calls that make room try again what was found not worth moving. Takes all locks: no lock may be held.
  void ForgetStuck();

  // All later writes to the partition's keys have versions above this. Under its lock.
  uint64_t NewestVersion(int partition) const;
  // For a version that another table of the same shape has used: PartitionOfVersion() is its partition, and
  // RaiseVersions() makes all later versions of that partition larger. Under that partition's lock.
  int PartitionOfVersion(uint64_t version) const;
  void RaiseVersions(uint64_t version);

  // Shows the partition's items from `*place` on, in about `budget` buckets, and advances `*place`. Returns false if
  // those were the last. Each item that is there from the first call to the last is shown at least once, whatever is
  // written in between. `see` must not write. REQUIRES the partition's lock.
  bool Walk(int partition, WalkPlace* place, size_t budget,
            absl::FunctionRef<void(uint64_t hash, const ItemView& item)> see) const;

  // For tests of callers: the next `calls` of Put, InsertCounter, Reserve and Publish return kMakingRoom.
  void PretendToMakeRoom(uint64_t calls) { pretences_ = calls; }

  // Records a reader's claim, which may be false, that it found an item at `slot`. Returns false if no evictable item
  // is there. Any thread, without a lock.
  bool Touched(Slot slot);
  // The same for many. Returns how many led to evictable items.
  size_t Touched(const TouchedLocations& touched);
  bool evicts() const { return marks_ != nullptr; }

  // For a member of a group: makes this word visible in the region's header to all readers before it returns. Any
  // thread, without a lock; one at a time.
  void ShowEpoch(EpochWord word);

  // A bounded step of the index's housekeeping, under the lock of this partition; writes do the same.
  TidyResult Tidy(int partition, int64_t now_ns);
  // Returns whether memory of the index waits for it. Needs no lock.
  bool untidy() const;

  // Without a lock: prefetch the bucket, then the items that it points to, before a call for place->hash, and note
  // their places as a hint for Put().
  void PrefetchBucket(KeyPlace* place) const;
  void PrefetchItem(KeyPlace* place) const;
  // Prefetches all buckets, and then all items.
  void Prefetch(absl::Span<KeyPlace> places) const;

  // Sums over all partitions. Needs no lock; the figures are from slightly different moments.
  TableStats stats() const;

 private:
  friend class Recovery;

  // `header` is the one in the region.
  Table(absl::Span<char> region, const TableOptions& options, const RegionHeader& header);

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

#endif  // FARLOOK_KV_TABLE_TABLE_H_
