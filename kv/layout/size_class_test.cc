#include "kv/layout/size_class.h"

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

TEST(SizeClass, IsTheSmallestThatFits) {
  for (int c = 0; c < kSizeClasses; ++c) {
    const SizeClass size_class = static_cast<SizeClass>(c);
    const uint64_t bytes = SizeClassBytes(size_class);
    const uint64_t less = c == 0 ? 0 : SizeClassBytes(static_cast<SizeClass>(c - 1));
    ASSERT_LT(less, bytes) << c;
    EXPECT_EQ(SizeClassFor(bytes), size_class);
    EXPECT_EQ(SizeClassFor(less + 1), size_class);
    EXPECT_EQ(SizeClassFor((less + bytes) / 2 + 1), size_class);
  }
}

TEST(SizeClass, RoundingUpCostsAtMostASixteenthAbove512Bytes) {
  for (int c = 1; c < kSizeClasses; ++c) {
    const uint64_t bytes = SizeClassBytes(static_cast<SizeClass>(c));
    const uint64_t less = SizeClassBytes(static_cast<SizeClass>(c - 1));
    EXPECT_EQ(bytes % kGranuleBytes, 0u);
    if (bytes <= 512) {
      EXPECT_EQ(bytes - less, kGranuleBytes);
    } else {
      EXPECT_LE((bytes - less) * 16, less) << c;
    }
  }
}

TEST(SizeClass, TheLastOneHoldsTheLargestItem) {
  EXPECT_EQ(SizeClassFor(kMaxItemBytes), kSizeClasses - 1);
  EXPECT_GE(SizeClassBytes(kSizeClasses - 1), kMaxItemBytes);
  EXPECT_LE(SizeClassBytes(kSizeClasses - 1), ~uint32_t{0}) << "a Range has 32 bits for bytes";
}

}  // namespace
}  // namespace farlook::kv
