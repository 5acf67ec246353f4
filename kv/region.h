// The region: the contiguous memory that holds the whole table, and its header.
//
//     page 0 ..   header (first line), then the directory: one array of 8-byte entries for each level g, at
//                 directory_offset + 8 * 2^g, with 2^g entries; the index's "level" says which one is in force
//     page n ..   pages of the index (segments), slabs of items, runs of pages for large items
//
//     offset  header, 64 bytes
//      0      magic            "FARLOOK1"
//      8      layout version   u64
//     16      incarnation      random, new with every start of a server
//     24      hash seed        for keys and checksums
//     32      region bytes
//     40      directory offset
//     48      level            log2 of the directory's entries: the only word that ever changes
//     56      checksum         XXH3-64, seeded with the hash seed, of bytes [0, 48)
#ifndef FARLOOK_KV_REGION_H_
#define FARLOOK_KV_REGION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kv/limits.h"

namespace farlook::kv {

inline constexpr uint64_t kRegionMagic = 0x314b4f4f4c524146;  // "FARLOOK1"
inline constexpr uint64_t kLayoutVersion = 1;
inline constexpr uint64_t kRegionHeaderBytes = 64;
inline constexpr uint64_t kLevelOffset = 48;
inline constexpr uint64_t kDirectoryOffset = 128;

struct RegionHeader {
  uint64_t incarnation = 0;
  uint64_t hash_seed = 0;
  uint64_t region_bytes = 0;
  uint64_t directory_offset = kDirectoryOffset;
  int level = 0;

  // Where the entries of a level start.
  uint64_t DirectoryArray(int of_level) const { return directory_offset + (uint64_t{8} << of_level); }
};

// The highest level that a region's directory is given room for: enough segments to fill the region.
int MaxLevelFor(uint64_t region_bytes);

// What header and directory take, in whole pages.
uint64_t ReservedPages(uint64_t region_bytes);

// Writes the header with StoreWord. REQUIRES the memory is zero. The level is stored last.
void WriteRegionHeader(char* region, const RegionHeader& header);

// Decodes untrusted bytes, read from a region that is said to have `mapped_bytes`. INVALID_ARGUMENT says what is wrong:
// not a region, another layout version, impossible geometry.
absl::StatusOr<RegionHeader> DecodeRegionHeader(absl::string_view bytes, uint64_t mapped_bytes);

}  // namespace farlook::kv

#endif  // FARLOOK_KV_REGION_H_
