// Every limit of the stored format and of the protocol, with its unit, in one place.
#ifndef FARLOOK_KV_LIMITS_H_
#define FARLOOK_KV_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace farlook::kv {

inline constexpr size_t kMinKeyBytes = 1;
inline constexpr size_t kMaxKeyBytes = 1024;
constexpr bool IsKeyLength(size_t bytes) { return bytes - kMinKeyBytes <= kMaxKeyBytes - kMinKeyBytes; }
inline constexpr uint64_t kDefaultMaxValueBytes = 16ull << 20;
inline constexpr uint64_t kMaxValueBytes = 64ull << 20;  // what --max_value_bytes may be raised to

// A region is cut into pages; each belongs to the index, to a slab of items of one size, or to one large item.
inline constexpr uint64_t kPageBytes = 2ull << 20;
inline constexpr uint64_t kMinRegionBytes = 16ull << 20;
// Of a group: how long a reader may believe that its primary is the one there is.
inline constexpr uint32_t kMaxLeaseUs = 60'000'000;
inline constexpr uint64_t kMaxRegionBytes = 2ull << 40;

// The table is cut into at most so many partitions.
inline constexpr int kMaxPartitions = 64;

// Items start at multiples of this. It is the unit of offsets in slots.
inline constexpr uint64_t kGranuleBytes = 32;

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kBucketBytes = 128;
inline constexpr size_t kWordsPerBucket = kBucketBytes / 8;
inline constexpr size_t kSlotsPerBucket = kWordsPerBucket - 1;

// The directory never has more than 2^kMaxLevel entries.
inline constexpr int kMaxLevel = 27;

// A segment that was split may be used again this much later; a reader distrusts a lookup that found nothing and took
// longer than kMaxBucketReadNs. See "Retired segments" in docs/design-notes.md.
inline constexpr int64_t kQuarantineNs = 100'000'000;
inline constexpr int64_t kMaxBucketReadNs = 25'000'000;
static_assert(kMaxBucketReadNs * 2 < kQuarantineNs,
              "a READ that is trusted must end long before its segment is reused");

// Memory leaves the index this much later than the index's epoch was increased, kQuarantineNs; for how long a reader
// relies on an epoch that it READ. See "Memory that leaves the index" in docs/design-notes.md.
inline constexpr int64_t kIndexTrustNs = 50'000'000;
static_assert(kIndexTrustNs * 2 <= kQuarantineNs, "who relies on an epoch must look again long before memory leaves");

// Messages. A message that does not fit in kMaxMessageBytes is announced and pulled instead.
inline constexpr size_t kMaxMessageBytes = 4096;
inline constexpr uint32_t kDefaultWindow = 256;  // requests that one session may have without an answer
inline constexpr uint32_t kMaxWindow = 4096;

static_assert(kMaxRegionBytes / kGranuleBytes <= 1ull << 36, "a slot has 36 bits for the offset");
static_assert(kPageBytes % kGranuleBytes == 0 && kPageBytes % kBucketBytes == 0);

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LIMITS_H_
