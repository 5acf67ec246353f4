// The region: the contiguous memory that holds the whole table, and its header.
//
//      header, directory, marks, redo pieces, page map; then, from the next unit of 64 KiB on, segments and items
//
// The directory is one array of 8-byte entries for each level g, at directory_offset + 8 * 2^g, with 2^g entries. The
// header's "level" selects the array in force. Only the server uses marks, redo pieces and page map: they hold what is
// needed to recover the table from the region.
//
//      offset  header, 128 bytes
//       0      magic            "FARLOOK1"
//       8      layout version   u64
//      16      incarnation      random, new with every start of a server
//      24      hash seed        for keys and checksums
//      32      region bytes
//      40      partitions       a power of two
//      48      directory offset
//      56      marks offset     a line of 64 bytes for each partition
//      64      redo offset      1,024 bytes for each partition
//      72      page map offset  a word for each unit of 64 KiB
//      80      page map entries
//      88      checksum         XXH3-64, seeded with the hash seed, of bytes [0, 88), which never change
//      96      index state      63..8 epoch | 7..0 level; only this word and the next change
//     104      epoch word       of a member of a group (epoch_word.h); zero without a group
//     112      zero
//
// Marks of a partition, 64 bytes: 0 upper bound of the versions that were given to items | 8 (first partition only)
// upper bound of the number of segments ever made | 16 the slot of the item that the redo piece is a copy for, or 0 |
// 24 and 32 the offsets between which an item was moved last: at one of them it may be alive without a slot | 40 (first
// partition only) not 0 while slots were dropped by recovery, and the memory that no slot names may hold living items |
// 48 (first partition only) the maximum length of a value | 56 zero. A version or a segment id is used only after a
// mark that covers it was stored, so marks are raised in steps.
#ifndef FARLOOK_KV_LAYOUT_REGION_H_
#define FARLOOK_KV_LAYOUT_REGION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kv/layout/limits.h"

namespace farlook::kv {

inline constexpr uint64_t kRegionMagic = 0x314b4f4f4c524146;  // "FARLOOK1"
inline constexpr uint64_t kLayoutVersion = 2;
inline constexpr uint64_t kRegionHeaderBytes = 128;
inline constexpr uint64_t kHeaderChecksumOffset = 88;
inline constexpr uint64_t kIndexStateOffset = 96;
inline constexpr uint64_t kEpochWordOffset = 104;
inline constexpr uint64_t kDirectoryOffset = kRegionHeaderBytes;

// The marks of one partition.
inline constexpr uint64_t kMarksBytes = kLineBytes;
inline constexpr uint64_t kVersionMark = 0;
inline constexpr uint64_t kSegmentIdMark = 8;
inline constexpr uint64_t kRedoTarget = 16;
inline constexpr uint64_t kMoveFrom = 24;
inline constexpr uint64_t kMoveTo = 32;
inline constexpr uint64_t kDroppedSlots = 40;
inline constexpr uint64_t kMaxValueMark = 48;

// Number of versions that a partition may use before it stores its mark again.
inline constexpr uint64_t kVersionsPerMark = uint64_t{1} << 20;

// The longest piece that is updated in place, and therefore the size of a redo piece.
inline constexpr uint64_t kRedoBytes = 1024;

// The page map has one word for each unit of this size.
inline constexpr uint64_t kUnitBytes = 64 << 10;

// The changing properties of the index in one word, so that a reader gets both from the same moment. The level is log2
// of the directory's entries. The epoch is increased before memory leaves the index. A copy of the directory that was
// READ under another epoch may lead to memory that is no longer a segment.
class IndexState {
 public:
  constexpr IndexState() = default;
  constexpr explicit IndexState(uint64_t word) : word_(word) {}
  constexpr IndexState(int level, uint64_t epoch) : word_(epoch << 8 | static_cast<uint64_t>(level)) {}

  constexpr uint64_t word() const { return word_; }
  constexpr int level() const { return static_cast<int>(word_ & 0xff); }
  constexpr uint64_t epoch() const { return word_ >> 8; }
  friend constexpr bool operator==(IndexState a, IndexState b) { return a.word_ == b.word_; }

 private:
  uint64_t word_ = 0;
};

struct RegionHeader {
  uint64_t incarnation = 0;
  uint64_t hash_seed = 0;
  uint64_t region_bytes = 0;
  uint64_t partitions = 1;
  uint64_t directory_offset = kDirectoryOffset;
  uint64_t marks_offset = 0;
  uint64_t redo_offset = 0;
  uint64_t map_offset = 0;
  uint64_t map_entries = 0;
  int level = 0;
  uint64_t epoch = 0;  // of the index

  // Returns the header of a region of this size; the size determines all offsets.
  static RegionHeader For(uint64_t region_bytes, int partitions);

  IndexState state() const { return IndexState(level, epoch); }
  uint64_t DirectoryArray(int of_level) const { return directory_offset + (uint64_t{8} << of_level); }
  uint64_t MarksOf(uint64_t partition) const { return marks_offset + partition * kMarksBytes; }
  uint64_t RedoOf(uint64_t partition) const { return redo_offset + partition * kRedoBytes; }
  // The word of the page map for the unit that begins at `offset`.
  uint64_t MapWordOf(uint64_t offset) const { return map_offset + offset / kUnitBytes * 8; }
  // End of the reserved memory: header, directory, marks, redo pieces and page map.
  uint64_t ReservedBytes() const { return map_offset + map_entries * 8; }
};

// A word of the page map: the use of one unit of 64 KiB.
//
//       63              32 31     16 15        8 7     4 3     0
//      +------------------+---------+-----------+-------+-------+
//      | units of the run |  zero   | partition | block | use   |
//      +------------------+---------+-----------+-------+-------+
//
// The word of a run's first unit holds the number of units; the words of the others hold kRest. Zero is a free unit.
class MapWord {
 public:
  enum class Use : uint8_t { kFree = 0, kIndex = 1, kItems = 2, kRest = 3 };
  static constexpr uint8_t kShared = 0xff;  // in place of a partition's number

  constexpr MapWord() = default;
  constexpr explicit MapWord(uint64_t word) : word_(word) {}
  // REQUIRES block < 16.
  constexpr MapWord(Use use, uint8_t block, uint8_t partition, uint32_t units)
      : word_(uint64_t{static_cast<uint8_t>(use)} | uint64_t{block} << 4 | uint64_t{partition} << 8 |
              uint64_t{units} << 32) {}

  constexpr uint64_t word() const { return word_; }
  constexpr Use use() const { return static_cast<Use>(word_ & 0xf); }
  constexpr uint8_t block() const { return word_ >> 4 & 0xf; }
  constexpr uint8_t partition() const { return word_ >> 8 & 0xff; }
  constexpr uint32_t units() const { return static_cast<uint32_t>(word_ >> 32); }

 private:
  uint64_t word_ = 0;
};

// The highest level for which a region's directory has room: enough segments to fill the region.
int MaxLevelFor(uint64_t region_bytes);

// Number of whole pages that the reserved memory takes with the maximum number of partitions.
uint64_t ReservedPages(uint64_t region_bytes);

// Writes the header with StoreWord. The index state is stored last. REQUIRES the memory is zero.
void WriteRegionHeader(char* region, const RegionHeader& header);

// Decodes untrusted bytes, read from a region for which the server announced `mapped_bytes`. INVALID_ARGUMENT names the
// problem: not a region, another layout version, impossible geometry.
absl::StatusOr<RegionHeader> DecodeRegionHeader(absl::string_view bytes, uint64_t mapped_bytes);

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_REGION_H_
