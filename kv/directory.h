// A reader's copy of the directory. Does no I/O: it says which bytes of the region it wants and is fed them.
#ifndef FARLOOK_KV_DIRECTORY_H_
#define FARLOOK_KV_DIRECTORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
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

  // A refresh. Load() makes it begin with the header and fetch everything. Refresh(hash, seen) fetches the entry of
  // `hash` only, and everything when that is still `seen`; it does nothing (kDone) when the entry has already another
  // value. While it says kRead: READ wanted() and Feed() the bytes. One refresh at a time: REQUIRES !busy().
  Step Load();
  Step Refresh(uint64_t hash, DirectoryEntry seen);
  bool busy() const { return phase_ != Phase::kIdle; }
  const Range& wanted() const { return wanted_; }

  // Untrusted bytes, as many as were wanted. An error (FAILED_PRECONDITION: another incarnation; INVALID_ARGUMENT: not
  // a region) ends the refresh; what was known stays.
  absl::StatusOr<Step> Feed(absl::string_view bytes);

  // Gives up the refresh that is under way (the connection broke).
  void Abandon() { phase_ = Phase::kIdle; }

 private:
  enum class Phase : uint8_t { kIdle, kHeader, kEntry, kArray };

  Step WantHeader();
  void WantPiece();

  const uint64_t mapped_bytes_;
  const uint32_t max_read_bytes_;
  RegionHeader header_;
  std::vector<uint64_t> entries_;
  int shift_ = 63;

  Phase phase_ = Phase::kIdle;
  Range wanted_;
  uint64_t index_ = 0;              // kEntry: which
  RegionHeader next_header_;        // kArray
  std::vector<uint64_t> incoming_;  // kArray
  uint64_t fetched_ = 0;            // kArray: entries so far
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_DIRECTORY_H_
