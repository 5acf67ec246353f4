// One step of a walk through the whole table, as a state machine without I/O: like Lookup, it names the bytes of the
// region that it needs, the caller feeds them, and it ends with the items of a part of the table.
//
// The walk is in the order of positions (kv/layout/segment.h), which is the order of the keys' hashes. A part is a
// range of positions and a range of main buckets. Both are functions of the key alone. So a part means the same after
// splits, merges and failovers, and to any reader of a table with this hash seed.
//
//      segment  -> the items of the part's slots -> the segment again -> items of slots that changed, or whose item was
//                  dead, torn or of another slot -> the segment again, and so on
//      the segment at the second or a later look shows no such slot -> Done
//      a bucket's description is not what the directory promised -> Refresh, and the part from the beginning
//      after kMaxLooks looks -> Overtaken
//
// Promise: a key that exists from Start() to kDone is among found(), if it belongs to covered(). Its slot is in the
// segment, in one place, as long as the segment's description stands (docs/protocol.md, section "Reading"). The item of
// the slot is READ until it proves itself, and the slot is the same word at the look after that. Each item that was
// found was the key's value at some moment of the step. A key that is deleted and stored again during the step may be
// found twice. An item that expires is left out if it was certainly expired before a second READ that shows it
// unchanged.
//
// One case is excluded by assumption: within one step an item's memory is given to another key of the same bucket and
// fingerprint, and back to the first key.
//
// No input is trusted: offsets and lengths are checked against the region before they are used.
#ifndef FARLOOK_KV_READ_SCAN_H_
#define FARLOOK_KV_READ_SCAN_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/layout/item.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/read/directory.h"
#include "kv/read/lookup.h"

namespace farlook::kv {

// A part of the table: positions [first, last], and of these the main buckets [bucket, bucket_end).
struct ScanPart {
  uint64_t first = 0;
  uint64_t last = ~uint64_t{0};
  uint32_t bucket = 0;
  uint32_t bucket_end = kMainBuckets;

  bool Has(uint64_t hash) const {
    const uint64_t position = PositionOf(hash);
    return first <= position && position <= last && bucket <= BucketOf(hash) && BucketOf(hash) < bucket_end;
  }
  // Sets `*next` to what remains of this part after a step that covered the beginning of it. Returns false if nothing
  // does.
  bool After(const ScanPart& covered, ScanPart* next) const;
  // Sets `*next` to all that follows a part whose last step left nothing. Returns false if nothing does.
  bool Following(ScanPart* next) const {
    if (last == ~uint64_t{0}) return false;
    *next = {.first = last + 1};
    return true;
  }
};

// The choice of the items that are kept.
struct ScanFilter {
  std::string prefix;   // of the key
  bool values = false;  // else only keys and properties
};

// One item, with key and value in ScanFound::bytes.
struct ScanItem {
  uint64_t hash = 0;
  uint64_t version = 0;
  uint64_t expiry_ms = 0;  // 0: never
  ItemKind kind = ItemKind::kValue;
  uint8_t flags = 0;
  uint16_t key_bytes = 0;
  uint32_t value_bytes = 0;  // also if the value is not kept
  size_t at = 0;             // of the key; the value follows it
};
struct ScanFound {
  std::vector<ScanItem> items;
  std::string bytes;

  absl::string_view KeyOf(const ScanItem& item) const {
    return absl::string_view(bytes).substr(item.at, item.key_bytes);
  }
  absl::string_view ValueOf(const ScanItem& item) const {
    return absl::string_view(bytes).substr(item.at + item.key_bytes, item.value_bytes);
  }
  void Clear() {
    items.clear();
    bytes.clear();
  }
};

// Thread safety: one thread. Reusable: Start() begins a new step. Keeps its memory.
class Scan {
 public:
  enum class Step : uint8_t {
    kRead,       // READ wanted(), one behind the other, and Feed() the bytes
    kRefresh,    // refresh the directory for position() and stale_entry(), then Resume()
    kDone,       // found() has the items of covered(), if Trusts(); if the entries changed, Resume()
    kOvertaken,  // writers were faster kMaxLooks times, or a writer has stopped halfway
  };

  static constexpr int kMaxLooks = 1000;

  // Begins with the first segment of `part`. The step covers at most this segment, and of it as many main buckets, but
  // at least one, as have items of `most_bytes` together. `filter` must stay until the end.
  Step Start(const ReaderContext& context, const ScanPart& part, uint64_t most_bytes, const ScanFilter& filter);

  absl::Span<const Range> wanted() const { return wanted_; }
  uint64_t wanted_bytes() const { return wanted_bytes_; }
  bool wants_segment() const { return wants_segment_; }

  // `bytes` are the wanted ones, in private memory. `late`: the READ of a segment took longer than kMaxBucketReadNs.
  Step Feed(const char* bytes, bool late);
  // Continues after the directory was refreshed, with the part from its beginning.
  Step Resume() { return Again(); }

  // Returns whether the entries that led to the segment are still those of the directory.
  bool SameEntries() const;
  bool Trusts(int64_t now_ns) const { return context_.directory->TrustedAt(now_ns) && SameEntries(); }

  uint64_t position() const { return part_.first; }
  DirectoryEntry stale_entry() const { return entry_; }

  // The result of kDone: ScanPart::After() has what remains.
  const ScanPart& covered() const { return covered_; }
  ScanFound& found() { return found_; }

  int looks() const { return looks_; }

 private:
  enum class State : uint8_t {
    kUnread,    // the item is to be READ
    kRead,      // the item proved itself, and the slot is to be looked at again
    kFinished,  // nothing more is to be done
  };
  struct Candidate {
    Slot slot;
    uint16_t place = 0;  // index of the slot's word in the segment
    State state = State::kUnread;
    bool known = false;  // `hash` is that of a key found here
    uint64_t hash = 0;
    uint64_t version = 0;  // of an item that had certainly expired after it was READ; 0: none
    uint64_t expiry_ms = 0;
  };

  Step Again();
  Step WantSegment();
  Step WantItems();
  bool DescribesAll(const char* segment) const;
  Step FirstLook(const char* segment);
  bool AddSlots(const char* segment, uint32_t number, uint64_t* bytes);
  Step LaterLook(const char* segment);
  Step FeedItems(const char* bytes);
  State Judge(Candidate* candidate, const char* bytes);
  State JudgeExpiry(Candidate* candidate, const ItemView& item) const;
  void Keep(uint64_t hash, const ItemView& item);

  ReaderContext context_{};
  const ScanFilter* filter_ = nullptr;
  ScanPart part_;
  uint64_t most_bytes_ = 0;

  DirectoryEntry entry_;
  ScanPart covered_;
  int looks_ = 0;
  bool first_look_ = true;
  bool wants_segment_ = true;
  std::vector<Range> wanted_;
  uint64_t wanted_bytes_ = 0;
  std::bitset<kBuckets> added_;  // the overflow buckets that are among the candidates
  std::vector<Candidate> candidates_;
  ScanFound found_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_READ_SCAN_H_
