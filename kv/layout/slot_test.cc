#include "kv/layout/slot.h"

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(Slot, GoldenWord) {
  const Slot slot(0xbeef, 4, 0x400000);
  EXPECT_EQ(slot.word(), 0xbeef'0200'0002'0000u);
  EXPECT_EQ(slot.fingerprint(), 0xbeef);
  EXPECT_EQ(slot.size_class(), 4);
  EXPECT_EQ(slot.bytes(), 160u);
  EXPECT_EQ(slot.offset(), 0x400000u);
}

TEST(Slot, EachFieldIsKeptAtItsLimits) {
  for (const uint16_t fingerprint : {0x0000, 0x0001, 0x8000, 0xffff}) {
    for (const SizeClass size_class : {0, 1, 255, kSizeClasses - 1}) {
      for (const uint64_t offset : {kGranuleBytes, 64 * kMiB, kMaxRegionBytes - kGranuleBytes}) {
        const Slot slot(fingerprint, size_class, offset);
        EXPECT_EQ(slot.fingerprint(), fingerprint);
        EXPECT_EQ(slot.size_class(), size_class);
        EXPECT_EQ(slot.offset(), offset);
        EXPECT_FALSE(slot.empty());
        EXPECT_EQ(Slot(slot.word()), slot);
      }
    }
  }
  EXPECT_TRUE(Slot().empty());
}

TEST(Slot, OnlyWhatLiesInsideTheRegionIsValid) {
  const uint64_t region = 16 * kMiB;
  EXPECT_FALSE(Slot().ValidIn(region));
  EXPECT_FALSE(Slot(0xbeef, 4, 0).ValidIn(region)) << "offset 0 is the header";
  EXPECT_TRUE(Slot(0, 0, kGranuleBytes).ValidIn(region)) << "fingerprint 0 is one like others";
  // 160 bytes that end with the region, then one granule later.
  EXPECT_TRUE(Slot(1, 4, region - 160).ValidIn(region));
  EXPECT_FALSE(Slot(1, 4, region - 160 + 32).ValidIn(region));
  EXPECT_FALSE(Slot(1, 0, region).ValidIn(region));
  EXPECT_FALSE(Slot(1, 0, kMaxRegionBytes - kGranuleBytes).ValidIn(region));
  EXPECT_FALSE(Slot(1, kSizeClasses - 1, kMiB).ValidIn(region)) << "longer than the region";
  EXPECT_FALSE(Slot(1, kSizeClasses, kMiB).ValidIn(kMaxRegionBytes)) << "no such class";
  for (int bit = 36; bit < 39; ++bit) {
    EXPECT_FALSE(Slot(Slot(1, 4, kMiB).word() | 1ull << bit).ValidIn(region)) << "reserved bit " << bit;
  }
}

}  // namespace
}  // namespace farlook::kv
