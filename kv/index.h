// One partition's part of the index: finding slots, and growing by splitting segments.
//
// Invariants:
//   * A slot never moves within its segment. A split leaves the old segment as it is and builds two new ones.
//   * A segment's memory is a segment for ever: the index never gives a page back. A reader with an old directory
//     therefore always READs a bucket, and its id tells whether it is the right one.
//   * A retired segment's descriptions are zero and its slots stay as they were for at least kQuarantineNs.
// See "Retired segments" in docs/design-notes.md.
#ifndef FARLOOK_KV_INDEX_H_
#define FARLOOK_KV_INDEX_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "kv/hash.h"
#include "kv/message.h"
#include "kv/page_pool.h"
#include "kv/segment.h"
#include "kv/shared_directory.h"
#include "kv/slot.h"

namespace farlook::kv {

// Thread safety: one thread at a time (the partition's lock).
class Index {
 public:
  // Serves the positions whose top `bits` are `prefix`.
  Index(char* region, const Hasher* hasher, PagePool* pool, SharedDirectory* directory, uint64_t prefix, int bits);

  // Makes the first segments. False: not enough memory.
  bool Init();

  // Where the slot of a key is, or null. *item is where its item is.
  char* Find(uint64_t hash, absl::string_view key, char** item) const;
  // Where the slot is that holds an item at this offset, or null.
  char* FindOffset(uint64_t hash, uint64_t offset) const;

  // An empty slot for a hash, splitting segments as needed. Null with *code: kNoMemory (nothing in the pool; try again
  // when there is), kIndexFull.
  char* FindRoom(uint64_t hash, int64_t now_ns, Code* code);

  void PrefetchItem(uint64_t hash) const;

  uint64_t pages() const { return pages_; }
  uint64_t segment_bytes() const { return segment_bytes_; }
  uint64_t splits() const { return splits_; }
  uint64_t overflow_keys() const { return overflow_keys_; }

 private:
  struct Retired {
    uint64_t offset;
    int64_t since_ns;
    bool stamped;  // else since_ns was read before it was retired, no one knows how long
  };

  char* SegmentOf(uint64_t hash) const { return region_ + directory_->Find(PositionOf(hash)).offset(); }
  void StampRetired(int64_t now_ns);
  uint64_t NewSegment(int64_t now_ns);
  char* RoomIn(char* segment, uint32_t bucket);
  Code Split(uint64_t hash, int64_t now_ns);
  void Install(uint64_t position, int depth, uint64_t offset, const std::vector<uint64_t>& image);

  char* const region_;
  const Hasher* const hasher_;
  PagePool* const pool_;
  SharedDirectory* const directory_;
  const uint64_t prefix_;
  const int bits_;

  absl::flat_hash_map<uint32_t, int> depth_;  // of each segment in use, by id
  std::deque<Retired> retired_;               // oldest first
  uint64_t fresh_ = 0;                        // offset of memory for segments never used
  uint64_t fresh_end_ = 0;
  uint64_t pages_ = 0;
  uint64_t segment_bytes_ = 0;
  uint64_t splits_ = 0;
  uint64_t overflow_keys_ = 0;

  std::vector<uint64_t> images_[2];  // scratch of Split
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_INDEX_H_
