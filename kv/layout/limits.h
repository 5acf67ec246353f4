// Every limit of the stored format and of the protocol, with its unit, in one place.
#ifndef FARLOOK_KV_LAYOUT_LIMITS_H_
#define FARLOOK_KV_LAYOUT_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace farlook::kv {

inline constexpr size_t kMinKeyBytes = 1;
inline constexpr size_t kMaxKeyBytes = 1024;
constexpr bool IsKeyLength(size_t bytes) { return bytes - kMinKeyBytes <= kMaxKeyBytes - kMinKeyBytes; }
inline constexpr uint64_t kDefaultMaxValueBytes = 16ull << 20;
inline constexpr uint64_t kMaxValueBytes = 512ull << 20;  // upper limit of --max_value_bytes

// A region is a multiple of this. Its pages are divided into units (kUnitBytes in region.h).
inline constexpr uint64_t kPageBytes = 2ull << 20;
inline constexpr uint64_t kMinRegionBytes = 16ull << 20;
// The longest lease of a group: how long a reader may rely on its primary being the current one.
inline constexpr uint32_t kMaxLeaseUs = 60'000'000;
inline constexpr uint64_t kMaxRegionBytes = 2ull << 40;

// Maximum number of partitions of a table.
inline constexpr int kMaxPartitions = 64;

// Items start at multiples of this. Offsets in slots are counted in this unit.
inline constexpr uint64_t kGranuleBytes = 32;

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kBucketBytes = 128;
inline constexpr size_t kWordsPerBucket = kBucketBytes / 8;
inline constexpr size_t kSlotsPerBucket = kWordsPerBucket - 1;

// The directory never has more than 2^kMaxLevel entries.
inline constexpr int kMaxLevel = 27;

// The memory of a segment that was split is reused no sooner than kQuarantineNs later. A reader distrusts a lookup that
// found nothing and took longer than kMaxBucketReadNs. See "Retired segments" in docs/design-notes.md.
inline constexpr int64_t kQuarantineNs = 100'000'000;
inline constexpr int64_t kMaxBucketReadNs = 25'000'000;
static_assert(kMaxBucketReadNs * 2 < kQuarantineNs,
              "a READ that is trusted must end long before its segment is reused");

// The time for which a reader relies on an epoch of the index that it READ. Memory leaves the index kQuarantineNs after
// the epoch was increased. See "Memory that leaves the index" in docs/design-notes.md.
inline constexpr int64_t kIndexTrustNs = 50'000'000;
static_assert(kIndexTrustNs * 2 <= kQuarantineNs,
              "a reader that relies on an epoch must look again long before memory leaves");

// Messages. A value whose message would exceed kMaxMessageBytes is announced and pulled instead.
inline constexpr size_t kMaxMessageBytes = 4096;
inline constexpr uint32_t kDefaultWindow = 256;  // requests that one session may have without a reply
inline constexpr uint32_t kMaxWindow = 4096;

static_assert(kMaxRegionBytes / kGranuleBytes <= 1ull << 36, "a slot has 36 bits for the offset");
static_assert(kPageBytes % kGranuleBytes == 0 && kPageBytes % kBucketBytes == 0);

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_LIMITS_H_
