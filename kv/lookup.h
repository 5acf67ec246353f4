// The reader: one Get as a state machine that does no I/O. It says which bytes of the region it wants, is fed them, and
// ends with an answer. docs/protocol.md, "Reading", gives the rules and why they are right.
//
//     cached location -> item          valid: Found. DEAD or torn: once more, at most kMaxRetries times, or, when its
//                                      first word is a slot that the item may have moved to, there, once. Else as if
//                                      nothing were known
//     bucket          -> each item whose fingerprint matches, one after the other -> the linked overflow bucket, alike
//     nothing matched -> NotFound
//     only whole, live items of other keys -> all of it once more, and NotFound only if slots and versions are the same
//     anything else   -> from the bucket again, at most kMaxRounds times, then AskServer
//
// A valid item that expires is Found while the server's clock has surely not come so far, and NotFound when it surely
// had before a second READ that shows the same item; else AskServer. A Get of an item that never expires looks at no
// clock.
//
// Nothing that is fed is trusted: offsets and lengths are checked against the region before they are asked for.
#ifndef FARLOOK_KV_LOOKUP_H_
#define FARLOOK_KV_LOOKUP_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "kv/directory.h"
#include "kv/expiry_clock.h"
#include "kv/hash.h"
#include "kv/item.h"
#include "kv/segment.h"
#include "kv/slot.h"

namespace farlook::kv {

// What every lookup of one connection needs. The directory must be loaded.
struct ReaderContext {
  const Hasher* hasher;
  Directory* directory;
  uint64_t region_bytes;
  ReaderClock* clock = nullptr;  // null: what expires is the server's to answer
};

// Thread safety: one thread. Reusable: Start() begins anew. No allocation.
class Lookup {
 public:
  enum class Step : uint8_t {
    kRead,       // READ wanted() and Feed() it
    kFound,      // item() and slot()
    kNotFound,   // the key was absent at some moment between Start() and now, if directory Trusts(hash(), entry())
    kRefresh,    // refresh the directory for hash() and stale_entry(), then Resume()
    kAskServer,  // overtaken by writers too often, or the region makes no sense: send a kGet
  };

  // Bucket READs of one lookup before it gives up.
  static constexpr int kMaxRounds = 32;
  // READs of a cached location that is DEAD or torn, beyond the first: an update of it may be under way.
  static constexpr int kMaxRetries = 2;
  // Looks at items that expire, beyond the first.
  static constexpr int kMaxExpiryLooks = 4;

  // Begins to look for `key`, whose bytes must stay until the end. `hash` is the hasher's. `cached`, if not empty, is
  // where the item was last seen.
  Step Start(const ReaderContext& context, absl::string_view key, uint64_t hash, Slot cached = Slot());

  // What to READ. For an item the READ may be split so that the value lands elsewhere: its first item_head_bytes() go
  // to one place, the others to another.
  const Range& wanted() const { return wanted_; }
  bool wants_item() const { return phase_ == Phase::kCached || phase_ == Phase::kItem; }
  uint32_t item_head_bytes() const { return static_cast<uint32_t>(ValueOffset(key_.size())); }

  // `bytes` are what was wanted, in private memory that must stay until the next call (kFound's item points into it).
  // `late`: the READ took longer than kMaxBucketReadNs from post to completion; it is discarded if it was of a bucket.
  // Only kNotFound depends on it, so a caller that wants to save a look at the clock may pass false, if it takes the
  // time when it is told kNotFound and begins anew with Start() where more than kMaxBucketReadNs went by since its
  // first post.
  Step Feed(absl::string_view bytes, bool late);
  // The same for an item that was split: its first item_head_bytes(), and the others.
  Step Feed(absl::string_view head, bool late, absl::string_view rest);

  // After kRefresh, when the directory was refreshed.
  Step Resume();

  // The answer. The slot is where the item lay: a hint for the next lookup.
  const ItemView& item() const { return item_; }
  Slot slot() const { return slot_; }

  uint64_t hash() const { return hash_; }
  absl::string_view key() const { return key_; }
  // What led to the bucket that was wanted last.
  DirectoryEntry entry() const { return entry_; }
  DirectoryEntry stale_entry() const { return entry_; }

  // What it took, for statistics.
  uint32_t rounds() const { return rounds_; }  // how often it began with the main bucket
  uint32_t bucket_reads() const { return bucket_reads_; }
  uint32_t item_reads() const { return item_reads_; }
  bool cached_was_stale() const { return cached_was_stale_; }
  bool moved() const { return moved_; }  // slot() is where the item moved to from the cached location

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

  // The item that expires, as the last look at one saw it, and the server's time before that look's next READ.
  uint64_t expiring_version_ = 0;
  uint64_t expiring_ms_ = 0;
  uint64_t clock_lo_ = 0;

  // The slots that match in the main [0] and the overflow [1] bucket, and the versions of their items: a second look
  // must find what the first one saw. Last, since a lookup nearly always ends with the first slot.
  struct Look {
    uint8_t count = 0;
    uint8_t link = 0;
    std::array<uint64_t, kSlotsPerBucket> slots;
    std::array<uint64_t, kSlotsPerBucket> versions;
  };
  Look looks_[2];
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LOOKUP_H_
