#include "kv/layout/region.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kv/layout/hash.h"
#include "kv/layout/segment.h"
#include "kv/layout/words.h"

namespace farlook::kv {

int MaxLevelFor(uint64_t region_bytes) {
  const uint64_t segments = region_bytes / kSegmentBytes + 1;
  return std::clamp<int>(std::bit_width(segments), kStepBits, kMaxLevel);
}

RegionHeader RegionHeader::For(uint64_t region_bytes, int partitions) {
  RegionHeader header;
  header.region_bytes = region_bytes;
  header.partitions = static_cast<uint64_t>(partitions);
  // The arrays of all levels are powers of two from 64 bytes on, so the marks begin on a line boundary.
  header.marks_offset = header.directory_offset + (uint64_t{16} << MaxLevelFor(region_bytes));
  header.redo_offset = header.MarksOf(header.partitions);
  header.map_offset = header.RedoOf(header.partitions);
  header.map_entries = region_bytes / kUnitBytes;
  return header;
}

uint64_t ReservedPages(uint64_t region_bytes) {
  return (RegionHeader::For(region_bytes, kMaxPartitions).ReservedBytes() + kPageBytes - 1) / kPageBytes;
}

void WriteRegionHeader(char* region, const RegionHeader& header) {
  const uint64_t words[] = {kRegionMagic,        kLayoutVersion,    header.incarnation,      header.hash_seed,
                            header.region_bytes, header.partitions, header.directory_offset, header.marks_offset,
                            header.redo_offset,  header.map_offset, header.map_entries};
  static_assert(sizeof words == kHeaderChecksumOffset);
  StoreBytes(region, reinterpret_cast<const char*>(words), sizeof words);
  StoreWord(region + kHeaderChecksumOffset, Hasher(header.hash_seed)(words, sizeof words));
  StoreWord(region + kIndexStateOffset, header.state().word());
}

absl::StatusOr<RegionHeader> DecodeRegionHeader(absl::string_view bytes, uint64_t mapped_bytes) {
  if (bytes.size() < kRegionHeaderBytes) return absl::InvalidArgumentError("region header is cut short");
  const auto word = [&](size_t i) { return LoadAs<uint64_t>(bytes.data() + 8 * i); };
  if (word(0) != kRegionMagic) return absl::InvalidArgumentError("the server's memory is not a Farlook region");
  if (word(1) != kLayoutVersion) {
    return absl::InvalidArgumentError(absl::StrCat("the server's region has layout version ", word(1),
                                                   ", this client reads ", kLayoutVersion,
                                                   ": use client and server of the same release"));
  }
  RegionHeader header;
  header.incarnation = word(2);
  header.hash_seed = word(3);
  header.region_bytes = word(4);
  header.partitions = word(5);
  header.directory_offset = word(6);
  header.marks_offset = word(7);
  header.redo_offset = word(8);
  header.map_offset = word(9);
  header.map_entries = word(10);
  if (Hasher(header.hash_seed)(bytes.data(), kHeaderChecksumOffset) !=
      LoadAs<uint64_t>(&bytes[kHeaderChecksumOffset])) {
    return absl::InvalidArgumentError("region header: its checksum does not fit");
  }
  if (header.region_bytes > mapped_bytes || header.region_bytes < kMinRegionBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("region header: ", header.region_bytes, " bytes, but ", mapped_bytes, " are offered"));
  }
  const IndexState state(LoadAs<uint64_t>(&bytes[kIndexStateOffset]));
  header.level = state.level();
  header.epoch = state.epoch();
  if (header.level < kStepBits || header.level > MaxLevelFor(header.region_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("region header: impossible directory level ", header.level));
  }
  if (header.directory_offset % 8 != 0 || header.directory_offset >= header.region_bytes ||
      (uint64_t{16} << header.level) > header.region_bytes - header.directory_offset) {
    return absl::InvalidArgumentError("region header: the directory lies outside the region");
  }
  return header;
}

}  // namespace farlook::kv
