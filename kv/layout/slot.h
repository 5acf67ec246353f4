// A slot: the index's 8-byte word for one key.
//
//      63          48 47       39 38   36 35                                   0
//     +--------------+-----------+-------+--------------------------------------+
//     | fingerprint  |size class | zero  | offset of the item, in granules of 32 |
//     +--------------+-----------+-------+--------------------------------------+
//
// Zero is an empty slot: offset 0 is the region's header and never an item.
// Example: fingerprint 0xbeef, size class 4 (160 bytes), offset 0x400000: 0xbeef_0200_0002_0000.
#ifndef FARLOOK_KV_LAYOUT_SLOT_H_
#define FARLOOK_KV_LAYOUT_SLOT_H_

#include <cstdint>

#include "kv/layout/limits.h"
#include "kv/layout/size_class.h"

namespace farlook::kv {

// The part of a key's hash that a slot keeps.
inline uint16_t FingerprintOf(uint64_t hash) { return static_cast<uint16_t>(hash); }

class Slot {
 public:
  constexpr Slot() = default;
  constexpr explicit Slot(uint64_t word) : word_(word) {}
  // REQUIRES offset % kGranuleBytes == 0, offset < kMaxRegionBytes.
  constexpr Slot(uint16_t fingerprint, SizeClass size_class, uint64_t offset)
      : word_(uint64_t{fingerprint} << kFingerprintShift | uint64_t{size_class} << kClassShift |
              offset / kGranuleBytes) {}

  constexpr uint64_t word() const { return word_; }
  constexpr bool empty() const { return word_ == 0; }
  constexpr uint16_t fingerprint() const { return static_cast<uint16_t>(word_ >> kFingerprintShift); }
  constexpr SizeClass size_class() const {
    return static_cast<SizeClass>(word_ >> kClassShift & ((1u << kClassBits) - 1));
  }
  constexpr uint64_t offset() const { return (word_ & ((1ull << kOffsetBits) - 1)) * kGranuleBytes; }
  constexpr uint64_t bytes() const { return SizeClassBytes(size_class()); }

  // Returns whether a reader may READ at this offset: not empty, reserved bits zero, wholly inside the region.
  constexpr bool ValidIn(uint64_t region_bytes) const {
    if (offset() == 0 || (word_ & kReservedMask) != 0 || size_class() >= kSizeClasses) return false;
    return offset() < region_bytes && bytes() <= region_bytes - offset();
  }

  friend constexpr bool operator==(Slot a, Slot b) { return a.word_ == b.word_; }

 private:
  static constexpr int kOffsetBits = 36, kReservedBits = 3, kClassBits = 9, kFingerprintBits = 16;
  static constexpr int kClassShift = kOffsetBits + kReservedBits;
  static constexpr int kFingerprintShift = kClassShift + kClassBits;
  static constexpr uint64_t kReservedMask = ((1ull << kReservedBits) - 1) << kOffsetBits;
  static_assert(kFingerprintShift + kFingerprintBits == 64, "the fields fill the word");

  uint64_t word_ = 0;
};

static_assert(sizeof(Slot) == 8);

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_SLOT_H_
