#include "kv/layout/cell_region.h"

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

TEST(CellRegionTest, TheBytesAreThoseOfTheDrawing) {
  alignas(64) char region[4 * 64 + 8] = {};
  FormatCellRegion({region, sizeof region}, 0x1122334455667788);
  EXPECT_EQ(std::string(region, 8), "FRLCELLS");
  EXPECT_EQ(LoadAs<uint64_t>(region + 8), 0x1122334455667788u);
  std::string expected(sizeof region, '\0');
  std::memcpy(expected.data(), region, 16);
  for (const size_t cell : {64, 128, 192}) expected[cell + 7] = '\x80';
  EXPECT_EQ(std::string(region, sizeof region), expected);
}

TEST(CellRegionTest, OnlyOffsetsOfWholeCellsAreValid) {
  EXPECT_FALSE(ValidCell(0, 4096));
  EXPECT_TRUE(ValidCell(64, 4096));
  EXPECT_FALSE(ValidCell(72, 4096));
  EXPECT_TRUE(ValidCell(4032, 4096));
  EXPECT_FALSE(ValidCell(4096, 4096));
  EXPECT_FALSE(ValidCell(4096, 4096 + 63));
  EXPECT_FALSE(ValidCell(~uint64_t{63}, 4096));
}

}  // namespace
}  // namespace farlook::kv
