// A reader's copy of the directory. Does no I/O: it says which bytes of the region it wants and is fed them.
#ifndef FARLOOK_KV_DIRECTORY_H_
#define FARLOOK_KV_DIRECTORY_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kv/limits.h"
#include "kv/region.h"
#include "kv/segment.h"

namespace farlook::kv {

// Bytes of the region that a reader wants next.
struct Range {
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

// Loads header and directory, and keeps the directory fresh, entry by entry.
//
// When a reader finds that a bucket is not what an entry promised, the segment was split: the entry in force stands in
// the array of the same level, or, where that shows nothing new, the directory has grown to the next level, or the
// region is not the one that was connected to.
//
// Memory may leave the index and become anything else, also what looks like a bucket. So a bucket proves that a key is
// absent only if Trusts() the entry that led there: the index's epoch was looked at lately, and is still the one under
// which this copy was READ. See "Memory that leaves the index" in docs/design-notes.md. It is told the time; it has no
// clock.
//
// Thread safety: one thread.
class Directory {
 public:
  // What to do after Feed().
  enum class Step : uint8_t { kRead, kDone };

  // The pieces of one READ are at most `max_read_bytes` long.
  explicit Directory(uint64_t mapped_bytes, uint32_t max_read_bytes)
      : mapped_bytes_(mapped_bytes), max_read_bytes_(max_read_bytes / 8 * 8) {}

  bool loaded() const { return !entries_.empty(); }
  const RegionHeader& header() const { return header_; }
  uint64_t memory_bytes() const { return entries_.capacity() * sizeof entries_[0]; }

  // The entry for a hash as it is known here. REQUIRES loaded().
  DirectoryEntry Find(uint64_t hash) const { return DirectoryEntry(entries_[PositionOf(hash) >> shift_]); }

  // The entries as they are known here, in the order of positions.
  size_t size() const { return entries_.size(); }
  DirectoryEntry At(size_t index) const { return DirectoryEntry(entries_[index]); }

  // A refresh. Load() makes it begin with the header and fetch everything. Refresh(hash, seen) fetches the entry of
  // `hash` only, and everything when that is still `seen`; it does nothing (kDone) when the entry has already another
  // value. While it says kRead: READ wanted() and Feed() the bytes. One refresh at a time: REQUIRES !busy().
  Step Load();
  Step Refresh(uint64_t hash, DirectoryEntry seen);
  bool busy() const { return phase_ != Phase::kIdle; }
  // Looks whether the epoch is still the one of this copy: if so, it Trusts() its entries from the post of that READ
  // on; else it fetches everything. REQUIRES loaded().
  Step Confirm();
  // Whether what has arrived by `now_ns` of a bucket to which an entry of this copy led was still in the index.
  bool TrustedAt(int64_t now_ns) const { return now_ns - trusted_since_ns_ <= kIndexTrustNs; }
  // The same where this copy may have changed since: `entry` led there for `hash`.
  bool Trusts(uint64_t hash, DirectoryEntry entry, int64_t now_ns) const {
    return TrustedAt(now_ns) && Find(hash) == entry;
  }
  // Who posts the READ of wanted() says when: at a time not after the post.
  void Posting(int64_t now_ns) {
    if (phase_ == Phase::kHeader || phase_ == Phase::kState) looked_ns_ = now_ns;
  }
  const Range& wanted() const { return wanted_; }

  // Untrusted bytes, as many as were wanted. An error (FAILED_PRECONDITION: another incarnation; INVALID_ARGUMENT: not
  // a region) ends the refresh; what was known stays.
  absl::StatusOr<Step> Feed(absl::string_view bytes);

  // Gives up the refresh that is under way (the connection broke).
  void Abandon() { phase_ = Phase::kIdle; }

 private:
  enum class Phase : uint8_t { kIdle, kState, kHeader, kEntry, kArray };

  Step WantHeader();
  void WantPiece();

  const uint64_t mapped_bytes_;
  const uint32_t max_read_bytes_;
  RegionHeader header_;
  std::vector<uint64_t> entries_;
  int shift_ = 63;
  int64_t trusted_since_ns_ = std::numeric_limits<int64_t>::min() / 2;  // the epoch in header_ was in force then
  int64_t looked_ns_ = 0;  // kState, kHeader, kArray: when it was looked at

  Phase phase_ = Phase::kIdle;
  Range wanted_;
  uint64_t index_ = 0;              // kEntry: which
  RegionHeader next_header_;        // kArray
  std::vector<uint64_t> incoming_;  // kArray
  uint64_t fetched_ = 0;            // kArray: entries so far
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_DIRECTORY_H_
