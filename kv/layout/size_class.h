// Sizes of items. Memory for items comes in some 340 sizes, 32 bytes apart at first and then 16 to each doubling. So
// above 512 bytes rounding up costs at most 1/16.
//
//      class   0 ..  15   32, 64, 96 .. 512 bytes
//      class  16 ..  31   544, 576 .. 1,024
//      class  32 ..  47   1,088, 1,152 .. 2,048
//      class 16e + m      (17 + m) * 32 * 2^(e - 1) bytes, for e >= 1
#ifndef FARLOOK_KV_LAYOUT_SIZE_CLASS_H_
#define FARLOOK_KV_LAYOUT_SIZE_CLASS_H_

#include <bit>
#include <cstdint>

#include "kv/layout/limits.h"

namespace farlook::kv {

using SizeClass = uint16_t;

// Bytes of an item of this class.
constexpr uint64_t SizeClassBytes(SizeClass c) {
  if (c < 32) return (c + uint64_t{1}) * kGranuleBytes;
  const uint64_t m = c % 16, e = c / 16;
  return ((17 + m) * kGranuleBytes) << (e - 1);
}

// The smallest class of at least `bytes`. REQUIRES 0 < bytes <= SizeClassBytes(kSizeClasses - 1).
constexpr SizeClass SizeClassFor(uint64_t bytes) {
  const uint64_t granules = (bytes + kGranuleBytes - 1) / kGranuleBytes;
  if (granules <= 32) return static_cast<SizeClass>(granules - 1);
  const int e = 64 - std::countl_zero((granules - 1) / 16);  // granules lies in (16 * 2^(e-1), 16 * 2^e]
  const uint64_t unit = uint64_t{1} << (e - 1);
  return static_cast<SizeClass>(16 * e + (granules + unit - 1) / unit - 17);
}

// Length of the largest item: its header, its key padded to 8 bytes, its value padded to 8 bytes.
inline constexpr uint64_t kMaxItemBytes = 32 + kMaxKeyBytes + kMaxValueBytes;
inline constexpr int kSizeClasses = SizeClassFor(kMaxItemBytes) + 1;

static_assert(kSizeClasses <= 512, "a slot has 9 bits for the size class");
static_assert(SizeClassBytes(15) == 512 && SizeClassBytes(16) == 544 && SizeClassBytes(31) == 1024);
static_assert(SizeClassFor(1) == 0 && SizeClassFor(512) == 15 && SizeClassFor(513) == 16 && SizeClassFor(1025) == 32);

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_SIZE_CLASS_H_
