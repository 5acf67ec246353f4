// The reader: one Get as a state machine without I/O. It names the bytes of the region that it needs, the caller feeds
// them, and it ends with an answer. docs/protocol.md, "Reading", gives the rules and the reasons why they are right.
//
//      cached location -> item          valid: Found. DEAD or torn: read again, at most kMaxRetries times. If its first
//                                       word is a slot that the item may have moved to: read there, once. Otherwise
//                                       continue as without a cached location
//      bucket          -> each item whose fingerprint matches, one after the other -> the linked overflow bucket, likewise
//      nothing matched -> NotFound
//      only whole, live items of other keys -> everything once more; NotFound only if slots and versions are the same
//      anything else   -> from the bucket again, at most kMaxRounds times, then AskServer
//
// A valid item with an expiry time is Found if the server's clock has certainly not reached that time. It is NotFound
// if the clock had certainly passed it before a second READ that shows the same item; otherwise AskServer. A Get of an
// item that never expires reads no clock.
//
// No input is trusted: offsets and lengths are checked against the region before they are used.
#ifndef FARLOOK_KV_READ_LOOKUP_H_
#define FARLOOK_KV_READ_LOOKUP_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "kv/layout/hash.h"
#include "kv/layout/item.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/read/directory.h"
#include "kv/read/expiry_clock.h"

namespace farlook::kv {

// Shared state of the lookups of one connection. The directory must be loaded.
struct ReaderContext {
  const Hasher* hasher;
  Directory* directory;
  uint64_t region_bytes;
  ReaderClock* clock = nullptr;  // null: leave items with an expiry time to the server
};

// Thread safety: one thread. Reusable: Start() begins a new lookup. No allocation.
class Lookup {
 public:
  enum class Step : uint8_t {
    kRead,       // READ wanted() and Feed() it
    kFound,      // item() and slot()
    kNotFound,   // the key was absent at some moment between Start() and now, if directory Trusts(hash(), entry())
    kRefresh,    // refresh the directory for hash() and stale_entry(), then Resume()
    kAskServer,  // overtaken by writers too often, or the region makes no sense: send a kGet
  };

  // Maximum number of rounds, each beginning with the main bucket, before the lookup gives up.
  static constexpr int kMaxRounds = 32;
  // READs of a cached location that is DEAD or torn, beyond the first: an update of it may be in progress.
  static constexpr int kMaxRetries = 2;
  // Looks at items with an expiry time, beyond the first.
  static constexpr int kMaxExpiryLooks = 4;

  // Begins to look for `key`, whose bytes must stay until the end. `hash` is the hasher's. `cached`, if not empty, is
  // the item's last known location.
  Step Start(const ReaderContext& context, absl::string_view key, uint64_t hash, Slot cached = Slot());

  // The bytes to READ. For an item the READ may be split so that the value is written to another place: its first
  // item_head_bytes() go to one buffer, the others to another.
  const Range& wanted() const { return wanted_; }
  bool wants_item() const { return phase_ == Phase::kCached || phase_ == Phase::kItem; }
  uint32_t item_head_bytes() const { return static_cast<uint32_t>(ValueOffset(key_.size())); }

  // `bytes` are the wanted ones, in private memory that must stay until the next call (kFound's item points into it).
  // `late`: the READ took longer than kMaxBucketReadNs from post to completion; a late bucket is discarded. Only
  // kNotFound depends on it. So a caller may pass false without reading the clock. On kNotFound it must then read the
  // clock, and call Start() again if more than kMaxBucketReadNs passed since its first post.
  Step Feed(absl::string_view bytes, bool late);
  // The same for an item that was split: its first item_head_bytes(), and the others.
  Step Feed(absl::string_view head, bool late, absl::string_view rest);

  // Continues after kRefresh, when the directory was refreshed.
  Step Resume();

  // The answer. The slot is the item's location: a hint for the next lookup.
  const ItemView& item() const { return item_; }
  Slot slot() const { return slot_; }

  uint64_t hash() const { return hash_; }
  absl::string_view key() const { return key_; }
  // The entry that led to the last wanted bucket.
  DirectoryEntry entry() const { return entry_; }
  DirectoryEntry stale_entry() const { return entry_; }

  // The cost, for statistics.
  uint32_t rounds() const { return rounds_; }  // number of times that it began with the main bucket
  uint32_t bucket_reads() const { return bucket_reads_; }
  uint32_t item_reads() const { return item_reads_; }
  bool cached_was_stale() const { return cached_was_stale_; }
  bool moved() const { return moved_; }  // slot() is the place to which the item moved from the cached location

 private:
  enum class Phase : uint8_t { kCached, kBucket, kItem, kDone };

  Step WantMain();
  Step WantBucket(uint32_t number);
  Step WantItem();
  Step FeedBucket(absl::string_view bytes);
  Step FeedItem(ItemCheck check, const char* bytes);
  Step FeedExpiring();
  Step FeedStale(ItemCheck check, const char* bytes);
  Step BucketDone();
  Step Again();

  ReaderContext context_;
  absl::string_view key_;
  uint64_t hash_ = 0;
  DirectoryEntry entry_;
  Slot slot_;
  Range wanted_;
  ItemView item_;

  Phase phase_ = Phase::kDone;
  bool cached_was_stale_ = false;
  bool moved_ = false;
  uint8_t retries_ = 0;
  uint8_t expiry_looks_ = 0;
  bool second_look_ = false;
  uint16_t rounds_ = 0;
  uint16_t bucket_reads_ = 0;
  uint16_t item_reads_ = 0;

  uint8_t bucket_ = 0;       // 0: main, 1: overflow
  uint8_t next_ = 0;         // the match whose item is wanted
  bool only_others_ = true;  // every item so far was whole, alive and of another key

  // The item with an expiry time that the last look found, and the server's time before that look's next READ.
  uint64_t expiring_version_ = 0;
  uint64_t expiring_ms_ = 0;
  uint64_t clock_lo_ = 0;

  // The slots that match in the main [0] and the overflow [1] bucket, and the versions of their items: a second look
  // must find what the first one found. Last in the object, since a lookup nearly always ends with the first slot.
  struct Look {
    uint8_t count = 0;
    uint8_t link = 0;
    std::array<uint64_t, kSlotsPerBucket> slots;
    std::array<uint64_t, kSlotsPerBucket> versions;
  };
  Look looks_[2];
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_READ_LOOKUP_H_
