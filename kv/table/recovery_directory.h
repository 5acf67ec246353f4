// The segments that a region's directory leads to, as another process left it.
//
// A split, a merge and a move store the entries of the new segment one after the other. A process that ends meanwhile
// leaves a segment whose entries are no aligned block. The old segment and the new one have all keys of each entry that
// led to either, as nothing is written to a partition meanwhile. So either may serve the smallest aligned block of
// positions around its entries. Keys that a segment has and no longer serves are left to the caller.
#ifndef FARLOOK_KV_TABLE_RECOVERY_DIRECTORY_H_
#define FARLOOK_KV_TABLE_RECOVERY_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kv/layout/region.h"
#include "kv/layout/segment.h"

namespace farlook::kv {

class RecoveryDirectory {
 public:
  struct Segment {
    uint64_t offset;
    uint64_t position;  // the first that it serves
    int depth;          // number of top bits that its positions share
  };

  // `bits`: log2 of the number of partitions.
  RecoveryDirectory(char* region, const RegionHeader& header, int bits);

  // Reads the entries in force and stores nothing. DATA_LOSS names an entry that leads to no segment, or entries that
  // no server left.
  absl::Status Read();
  // By position. Together they serve all positions.
  const std::vector<Segment>& segments() const { return segments_; }
  // Number of entries that lead elsewhere in the region.
  size_t mended() const { return mended_; }
  // Stores those entries. May be repeated after it was interrupted.
  void Mend() const;

 private:
  // The entries of one segment: their indexes, and how many they are.
  struct Range {
    uint64_t first, last, count;
    bool IsBlock() const { return FirstOfBlock() == first && SizeOfBlock() == count; }
    // The smallest aligned block that has them all.
    uint64_t SizeOfBlock() const;
    uint64_t FirstOfBlock() const { return first / SizeOfBlock() * SizeOfBlock(); }
  };
  using Ranges = absl::flat_hash_map<uint64_t, Range>;  // by entry

  absl::Status Check(uint64_t index) const;
  absl::Status Align(uint64_t begin, uint64_t end);
  Ranges RangesOf(uint64_t begin, uint64_t end) const;

  char* const region_;
  const RegionHeader header_;
  const int first_depth_;
  std::vector<uint64_t> entries_;
  std::vector<Segment> segments_;
  size_t mended_ = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_TABLE_RECOVERY_DIRECTORY_H_
