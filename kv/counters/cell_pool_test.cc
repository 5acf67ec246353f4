#include "kv/counters/cell_pool.h"

#include <set>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

TEST(CellPoolTest, GivesOutEveryCellOnceAndTheLastFreedFirst) {
  CellPool pool(4096);
  EXPECT_EQ(pool.total(), 63u);
  EXPECT_EQ(pool.free(), 63u);
  std::set<uint64_t> seen;
  while (const uint64_t cell = pool.Allocate()) {
    EXPECT_TRUE(ValidCell(cell, 4096));
    EXPECT_TRUE(seen.insert(cell).second);
  }
  EXPECT_EQ(seen.size(), 63u);
  EXPECT_EQ(pool.free(), 0u);
  pool.Free(128);
  pool.Free(64);
  EXPECT_EQ(pool.free(), 2u);
  EXPECT_EQ(pool.Allocate(), 64u);
  EXPECT_EQ(pool.Allocate(), 128u);
  EXPECT_EQ(pool.Allocate(), 0u);
}

TEST(CellPoolTest, GivesOutNoCellThatIsUsed) {
  CellPool pool(4096, {64, 256, 320});
  EXPECT_EQ(pool.total(), 63u);
  EXPECT_EQ(pool.free(), 60u);
  std::set<uint64_t> seen = {64, 256, 320};
  while (const uint64_t cell = pool.Allocate()) EXPECT_TRUE(seen.insert(cell).second) << cell;
  EXPECT_EQ(seen.size(), 63u);
}

TEST(CellPoolTest, ARegionOfLessThanTwoLinesHasNone) {
  CellPool pool(127);
  EXPECT_EQ(pool.total(), 0u);
  EXPECT_EQ(pool.Allocate(), 0u);
}

}  // namespace
}  // namespace farlook::kv
