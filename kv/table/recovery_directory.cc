#include "kv/table/recovery_directory.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/layout/words.h"

namespace farlook::kv {

RecoveryDirectory::RecoveryDirectory(char* region, const RegionHeader& header, int bits)
    : region_(region), header_(header), first_depth_(std::max(kStepBits, bits)) {}

uint64_t RecoveryDirectory::Range::SizeOfBlock() const { return uint64_t{1} << std::bit_width(first ^ last); }

absl::Status RecoveryDirectory::Read() {
  if (header_.level < first_depth_) return absl::DataLossError(absl::StrCat("directory: level ", header_.level));
  const uint64_t end = uint64_t{1} << header_.level;
  entries_.resize(end);
  for (uint64_t i = 0; i < end; ++i) {
    entries_[i] = LoadWord(region_ + header_.DirectoryArray(header_.level) + 8 * i);
    if (i > 0 && entries_[i] == entries_[i - 1]) continue;
    if (absl::Status status = Check(i); !status.ok()) return status;
  }
  // No segment serves more than such a part.
  const uint64_t part = end >> first_depth_;
  for (uint64_t begin = 0; begin < end; begin += part) {
    if (absl::Status status = Align(begin, begin + part); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RecoveryDirectory::Check(uint64_t index) const {
  const DirectoryEntry entry(entries_[index]);
  const auto damaged = [&](auto... what) {
    return absl::DataLossError(absl::StrCat("directory: entry ", index, " ", what...));
  };
  if (!entry.ValidIn(header_.region_bytes) || entry.offset() % kSegmentBytes != 0) {
    return damaged("leads to no segment: ", absl::Hex(entry.word(), absl::kZeroPad16));
  }
  for (uint32_t b = 0; b < kBuckets; ++b) {
    const BucketInfo info(LoadWord(region_ + entry.offset() + uint64_t{b} * kBucketBytes));
    const uint32_t most = b < kMainBuckets ? kOverflowBuckets : 0;
    if (!info.Describes(entry.segment_id(), b) || info.link() > most) {
      return damaged("leads to segment ", entry.segment_id(), ", whose bucket ", b, " is damaged");
    }
  }
  return absl::OkStatus();
}

RecoveryDirectory::Ranges RecoveryDirectory::RangesOf(uint64_t begin, uint64_t end) const {
  Ranges ranges;
  for (uint64_t i = begin; i < end; ++i) {
    Range& range = ranges.try_emplace(entries_[i], Range{i, i, 0}).first->second;
    range.last = i;
    ++range.count;
  }
  return ranges;
}

// Gives the segment with the largest block all of that block, until each segment has a whole block.
absl::Status RecoveryDirectory::Align(uint64_t begin, uint64_t end) {
  for (;;) {
    const Ranges ranges = RangesOf(begin, end);
    uint64_t widest = 0;
    Range range{};
    for (const auto& [entry, its] : ranges) {
      if (its.IsBlock() || (widest != 0 && its.SizeOfBlock() <= range.SizeOfBlock())) continue;
      widest = entry;
      range = its;
    }
    if (widest == 0) {
      for (uint64_t i = begin; i < end;) {
        const Range& its = ranges.at(entries_[i]);
        const int depth = header_.level - (std::bit_width(its.count) - 1);
        segments_.push_back({DirectoryEntry(entries_[i]).offset(), i << (64 - header_.level), depth});
        i += its.count;
      }
      return absl::OkStatus();
    }
    // One change at a time concerns two segments of a block.
    uint64_t other = 0;
    for (uint64_t i = range.FirstOfBlock(); i < range.FirstOfBlock() + range.SizeOfBlock(); ++i) {
      if (entries_[i] == widest) continue;
      if (other != 0 && entries_[i] != other) {
        return absl::DataLossError(absl::StrCat("directory: the entries of segment ",
                                                DirectoryEntry(widest).segment_id(), " are those of no split"));
      }
      other = std::exchange(entries_[i], widest);
      ++mended_;
    }
  }
}

void RecoveryDirectory::Mend() const {
  char* const array = region_ + header_.DirectoryArray(header_.level);
  for (uint64_t i = 0; i < entries_.size(); ++i) {
    if (LoadWord(array + 8 * i) != entries_[i]) StoreWord(array + 8 * i, entries_[i]);
  }
}

}  // namespace farlook::kv
