// Search for a fingerprint in a bucket, with vectors where available, and the rule by which a bucket proves absence.
#ifndef FARLOOK_KV_LAYOUT_FINGERPRINTS_H_
#define FARLOOK_KV_LAYOUT_FINGERPRINTS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/base/config.h"
#include "kv/layout/limits.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/layout/words.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace farlook::kv {

#if defined(__SSE2__)
// The upper 16 bits of each of eight words.
inline __m128i UpperBits(const char* words) {
  const auto upper_halves = [words](size_t i) {  // of four words from the i-th on
    __m128 a, b;
    std::memcpy(&a, words + 8 * i, sizeof a);
    std::memcpy(&b, words + 8 * (i + 2), sizeof b);
    return _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
  };
  // Packing saturates; the results of an arithmetic shift fit.
  return _mm_packs_epi32(_mm_srai_epi32(upper_halves(0), 16), _mm_srai_epi32(upper_halves(4), 16));
}
#endif

// Returns a bit for each word of a bucket in private memory whose upper 16 bits are this fingerprint; never for word 0.
inline uint32_t MatchingWords(const char* bucket, uint16_t fingerprint) {
  uint32_t matches = 0;
#if defined(__SSE2__)
  static_assert(kWordsPerBucket == 16);
  const __m128i wanted = _mm_set1_epi16(static_cast<int16_t>(fingerprint));
  const __m128i lower = _mm_cmpeq_epi16(UpperBits(bucket), wanted);
  const __m128i upper = _mm_cmpeq_epi16(UpperBits(bucket + kBucketBytes / 2), wanted);
  matches = static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(lower, upper)));
#else
  for (size_t i = 1; i < kWordsPerBucket; ++i) {
    matches |= static_cast<uint32_t>(LoadAs<uint16_t>(bucket + 8 * i + 6) == fingerprint) << i;
  }
#endif
  return matches & ~1u;
}

// The same for a bucket in the region, to which others store. The result is a hint, since a vector may be loaded in
// pieces: the caller must verify the slots that it leads to. For thread sanitizer, which would report a race, it loads
// words.
inline uint32_t LikelyWords(const char* bucket, uint16_t fingerprint) {
#if defined(ABSL_HAVE_THREAD_SANITIZER)
  uint32_t matches = 0;
  for (size_t i = 1; i < kWordsPerBucket; ++i) {
    matches |= static_cast<uint32_t>(LoadWord(bucket + 8 * i) >> 48 == fingerprint) << i;
  }
  return matches;
#else
  return MatchingWords(static_cast<const char*>(__builtin_assume_aligned(bucket, 16)), fingerprint);
#endif
}

// Returns whether a main bucket in private memory alone proves that the key of this hash is absent. It does if it is
// the bucket that `entry` leads to, links to no other, and no slot has the fingerprint. The proof holds if the whole
// bucket was fetched within kMaxBucketReadNs and the directory trusts the entry: see docs/protocol.md, "Reading".
inline bool ProvesAbsence(const char* bucket, DirectoryEntry entry, uint64_t hash) {
  const BucketInfo info(LoadAs<uint64_t>(bucket));
  return info.Describes(entry.segment_id(), BucketOf(hash)) && info.link() == 0 &&
         MatchingWords(bucket, FingerprintOf(hash)) == 0;
}

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_FINGERPRINTS_H_
