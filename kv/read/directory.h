// A reader's copy of the directory. Does no I/O: it names the bytes of the region that it needs, and the caller feeds
// them.
#ifndef FARLOOK_KV_READ_DIRECTORY_H_
#define FARLOOK_KV_READ_DIRECTORY_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kv/layout/limits.h"
#include "kv/layout/region.h"
#include "kv/layout/segment.h"

namespace farlook::kv {

// The bytes of the region that a reader needs next.
struct Range {
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

// Loads header and directory, and keeps the directory fresh, entry by entry.
//
// If a reader finds that a bucket is not the one that an entry promised, the segment was split. The entry in force is
// in the array of the same level. If that shows nothing new, the directory has grown to the next level, or the region
// is not the one that was connected to.
//
// Memory may leave the index and become anything else, even something that looks like a bucket. So a bucket proves that
// a key is absent only if Trusts() accepts the entry that led there. It does if the index's epoch was checked recently,
// and is still the one under which this copy was READ. See "Memory that leaves the index" in docs/design-notes.md. The
// caller passes the time; the directory has no clock.
//
// Thread safety: one thread.
class Directory {
 public:
  // The next action after Feed().
  enum class Step : uint8_t { kRead, kDone };

  // No READ is longer than `max_read_bytes`.
  explicit Directory(uint64_t mapped_bytes, uint32_t max_read_bytes)
      : mapped_bytes_(mapped_bytes), max_read_bytes_(max_read_bytes / 8 * 8) {}

  bool loaded() const { return !entries_.empty(); }
  const RegionHeader& header() const { return header_; }
  uint64_t memory_bytes() const { return entries_.capacity() * sizeof entries_[0]; }

  // The entry for a hash, as known here. REQUIRES loaded().
  DirectoryEntry Find(uint64_t hash) const { return DirectoryEntry(entries_[PositionOf(hash) >> shift_]); }

  // The entries as known here, in the order of positions.
  size_t size() const { return entries_.size(); }
  DirectoryEntry At(size_t index) const { return DirectoryEntry(entries_[index]); }
  // The index of a position's entry, and the last position of an entry. REQUIRES loaded().
  size_t IndexOf(uint64_t position) const { return position >> shift_; }
  uint64_t LastOf(size_t index) const { return (uint64_t{index} << shift_) + ((uint64_t{1} << shift_) - 1); }

  // Starts a refresh. Load() fetches the header and then everything. Refresh(hash, seen) fetches only the entry of
  // `hash`, and everything if that is still `seen`; it does nothing (kDone) if the known entry already differs from
  // `seen`. While the result is kRead: READ wanted() and pass the bytes to Feed(). One refresh at a time:
  // REQUIRES !busy().
  Step Load();
  Step Refresh(uint64_t hash, DirectoryEntry seen) { return RefreshAt(PositionOf(hash), seen); }
  Step RefreshAt(uint64_t position, DirectoryEntry seen);
  bool busy() const { return phase_ != Phase::kIdle; }
  // Checks whether the epoch is still the one of this copy. If so, entries are trusted from the post of that READ on;
  // otherwise everything is fetched. REQUIRES loaded().
  Step Confirm();
  // Returns whether a bucket that an entry of this copy led to, and that arrived by `now_ns`, was still in the index.
  bool TrustedAt(int64_t now_ns) const { return now_ns - trusted_since_ns_ <= kIndexTrustNs; }
  // The same if this copy may have changed since: `entry` led there for `hash`.
  bool Trusts(uint64_t hash, DirectoryEntry entry, int64_t now_ns) const {
    return TrustedAt(now_ns) && Find(hash) == entry;
  }
  // The caller that posts the READ of wanted() passes the time: not later than the post.
  void Posting(int64_t now_ns) {
    if (phase_ == Phase::kHeader || phase_ == Phase::kState) looked_ns_ = now_ns;
  }
  const Range& wanted() const { return wanted_; }

  // Consumes untrusted bytes, as many as were wanted. An error (FAILED_PRECONDITION: another incarnation;
  // INVALID_ARGUMENT: not a region) ends the refresh; the known entries stay.
  absl::StatusOr<Step> Feed(absl::string_view bytes);

  // Cancels the refresh in progress (the connection was lost).
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
  int64_t looked_ns_ = 0;  // kState, kHeader, kArray: the time of the check

  Phase phase_ = Phase::kIdle;
  Range wanted_;
  uint64_t index_ = 0;              // kEntry: the entry's index
  RegionHeader next_header_;        // kArray
  std::vector<uint64_t> incoming_;  // kArray
  uint64_t fetched_ = 0;            // kArray: entries so far
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_READ_DIRECTORY_H_
