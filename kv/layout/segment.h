// Segments and buckets: the layout of the index in memory, and the place of a hash in it.
//
// A hash's low bits give the place in a segment: 31..16 the bucket, 15..0 the fingerprint. Its top bits, stretched to a
// position (below), select the segment: the directory maps the position's top bits to one.
//
// A segment is an array of 256 buckets of 128 bytes: 240 main buckets, one of which a hash selects, then 16 overflow
// buckets, each shared by the main buckets that link to it. A bucket is
//
//      word 0         description: 63..34 segment id | 33..32 zero | 31..24 0xb5 | 23..16 number of the bucket in its
//                     segment | 15..13 zero | 12..8 link | 7..0 zero
//      words 1 .. 15  slots
//
// `link` is 0, or 1 + the number of an overflow bucket counted from the first of them. The id is never used twice in an
// incarnation and names the same range of positions for its whole life. A directory entry holds it too, so one READ of
// a bucket shows whether the reader looked in the right place. A retired segment's descriptions are zero. Example:
// bucket 17 of segment 9, linked to the third overflow bucket: 0x00000024_b5110300.
//
// Positions. With uniform hashes all segments would fill at the same time: the index would double at once and then be
// half empty. Hashes are therefore stretched, in eight steps, to positions. The densest positions have nearly twice the
// keys of the sparsest, so an eighth of the index splits at a time.
#ifndef FARLOOK_KV_LAYOUT_SEGMENT_H_
#define FARLOOK_KV_LAYOUT_SEGMENT_H_

#include <array>
#include <cstdint>

#include "kv/layout/limits.h"

namespace farlook::kv {

inline constexpr uint32_t kMainBuckets = 240;
inline constexpr uint32_t kOverflowBuckets = 16;
inline constexpr uint32_t kBuckets = kMainBuckets + kOverflowBuckets;
inline constexpr uint32_t kSegmentBytes = kBuckets * kBucketBytes;
inline constexpr uint32_t kSegmentWords = kSegmentBytes / 8;
static_assert(kBuckets <= 256, "a bucket's number has 8 bits");
static_assert(kPageBytes % kSegmentBytes == 0);

// A position has the number of its step in its three top bits. Step i holds a share of the hashes in proportion to
// 2^(i/8), from kStepStart[i] up, spread evenly: kStepScale[i] is 2^123 / (width of the step).
inline constexpr int kStepBits = 3;  // also the lowest level of a directory
inline constexpr std::array<uint64_t, 8> kStepStart = {0x0000000000000000, 0x172b83c7d517adcd, 0x306fe0a31b7152de,
                                                       0x4bfdad5362a271d4, 0x6a09e667f3bcc908, 0x8ace5422aa0db5ba,
                                                       0xae89f995ad3ad5e8, 0xd5818dcfba48725d};
inline constexpr std::array<uint64_t, 8> kStepScale = {0x5863e69d72c3c9d0, 0x510de06633daa801, 0x4a53b87fdd25bcaa,
                                                       0x44287f2f527d85d5, 0x3e805795b2ae92af, 0x395060e0652408e8,
                                                       0x348ea15dd8b6439d, 0x3031f34eb961e4e5};

// The last hash of each step.
inline constexpr std::array<uint64_t, 8> kStepLast = [] {
  std::array<uint64_t, 8> last{};
  for (size_t i = 0; i + 1 < last.size(); ++i) last[i] = kStepStart[i + 1] - 1;
  last.back() = ~uint64_t{0};
  return last;
}();

// The first of the steps that the hashes with these four top bits lie in. A sixteenth of the hashes spans at most two.
inline constexpr std::array<uint8_t, 16> kFirstStep = [] {
  std::array<uint8_t, 16> first{};
  for (uint64_t i = 0; i < first.size(); ++i) {
    while (first[i] + size_t{1} < kStepStart.size() && kStepStart[first[i] + size_t{1}] <= i << 60) ++first[i];
  }
  return first;
}();

// Returns the position of a hash; increases with the hash.
constexpr uint64_t PositionOf(uint64_t hash) {
  size_t step = kFirstStep[hash >> 60];
  step += hash > kStepLast[step];
  __extension__ using Wide = unsigned __int128;
  return uint64_t{step} << (64 - kStepBits) |
         static_cast<uint64_t>(static_cast<Wide>(hash - kStepStart[step]) * kStepScale[step] >> 62);
}
static_assert(PositionOf(~0ull) >> 60 == 0xf && PositionOf(0) == 0);
static_assert(PositionOf(kStepStart[5]) == 5ull << 61 && PositionOf(kStepStart[5] - 1) >> 60 == 9);

// The main bucket of its segment that a hash belongs to: [0, kMainBuckets).
constexpr uint32_t BucketOf(uint64_t hash) { return static_cast<uint32_t>((hash >> 16 & 0xffff) * kMainBuckets >> 16); }

// The number of the overflow bucket that a link names. REQUIRES link != 0.
constexpr uint32_t LinkedBucket(uint32_t link) { return kMainBuckets + link - 1; }

// A bucket's word 0.
class BucketInfo {
 public:
  constexpr BucketInfo() = default;  // retired
  constexpr explicit BucketInfo(uint64_t word) : word_(word) {}
  constexpr BucketInfo(uint32_t segment_id, uint32_t number, uint32_t link)
      : word_(uint64_t{segment_id} << 34 | kMagic << 24 | uint64_t{number} << 16 | uint64_t{link} << 8) {}

  constexpr uint64_t word() const { return word_; }
  constexpr uint32_t link() const { return word_ >> 8 & 0x1f; }
  constexpr uint32_t segment_id() const { return static_cast<uint32_t>(word_ >> 34); }

  // Returns whether this describes bucket `number` of segment `segment_id`, with any link.
  constexpr bool Describes(uint32_t segment_id, uint32_t number) const {
    return (word_ & ~kLinkMask) == BucketInfo(segment_id, number, 0).word_;
  }
  constexpr BucketInfo WithLink(uint32_t link) const { return BucketInfo((word_ & ~kLinkMask) | uint64_t{link} << 8); }

 private:
  static constexpr uint64_t kMagic = 0xb5;
  static constexpr uint64_t kLinkMask = 0x1full << 8;
  uint64_t word_ = 0;
};

static_assert(BucketInfo(9, 17, 3).word() == 0x00000024'b5110300);
static_assert(kMaxRegionBytes / kSegmentBytes <= 1ull << 28, "ids, of which a split takes two, have 30 bits");

// A directory entry: 63..34 segment id (from 1) | 33..0 offset of the segment in units of 128 bytes. Zero is never
// valid.
class DirectoryEntry {
 public:
  constexpr DirectoryEntry() = default;
  constexpr explicit DirectoryEntry(uint64_t word) : word_(word) {}
  constexpr DirectoryEntry(uint32_t segment_id, uint64_t offset)
      : word_(uint64_t{segment_id} << 34 | offset / kBucketBytes) {}

  constexpr uint64_t word() const { return word_; }
  constexpr uint32_t segment_id() const { return static_cast<uint32_t>(word_ >> 34); }
  constexpr uint64_t offset() const { return (word_ & ((1ull << 34) - 1)) * kBucketBytes; }

  // Returns whether a reader may READ a segment at this offset.
  constexpr bool ValidIn(uint64_t region_bytes) const {
    return segment_id() != 0 && offset() != 0 && offset() < region_bytes && kSegmentBytes <= region_bytes - offset();
  }
  friend constexpr bool operator==(DirectoryEntry a, DirectoryEntry b) { return a.word_ == b.word_; }

 private:
  uint64_t word_ = 0;
};

static_assert(kMaxRegionBytes / kBucketBytes <= 1ull << 34, "a directory entry has 34 bits for the offset");

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_SEGMENT_H_
