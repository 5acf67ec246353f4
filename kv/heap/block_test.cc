#include "kv/heap/block.h"

#include <algorithm>
#include <map>
#include <random>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

uint64_t looks = 0;

TEST(BlockTest, TheShortestHoleThatSufficesIsTaken) {
  Block block;
  block.Reset(0x10000, BlockKind::kSmall, false);
  EXPECT_EQ(block.TakeHole(2048, &looks).cells(), 2048u);
  EXPECT_TRUE(block.TakeHole(1, &looks).cells() == 0);
  block.Free(100, 10);
  block.Free(200, 5);
  block.Free(300, 7);
  EXPECT_EQ(block.longest(), 10u);
  const Block::Extent hole = block.TakeHole(6, &looks);
  EXPECT_EQ(hole.begin, 300u);
  EXPECT_EQ(hole.end, 307u);
  EXPECT_EQ(block.longest(), 10u);
  EXPECT_EQ(block.TakeHole(6, &looks).begin, 100u);
  EXPECT_EQ(block.longest(), 5u);
  EXPECT_EQ(block.free_cells(), 5u);
}

TEST(BlockTest, AFreedPieceIsOneHoleWithItsNeighbours) {
  Block block;
  block.Reset(0x10000, BlockKind::kSmall, false);
  block.TakeHole(2048, &looks);
  block.Free(60, 4);
  block.Free(70, 60);
  EXPECT_EQ(block.longest(), 60u);
  block.Free(64, 6);
  EXPECT_EQ(block.longest(), 70u);
  block.Free(0, 60);
  block.Free(130, 2048 - 130);
  EXPECT_EQ(block.longest(), 2048u);
  EXPECT_TRUE(block.empty());
}

TEST(BlockTest, RecoveryOccupiesOnlyFreeCells) {
  Block block;
  block.Reset(0x10000, BlockKind::kSmall, false);
  EXPECT_TRUE(block.Occupy(60, 10));  // in two words of the bits
  EXPECT_FALSE(block.Occupy(69, 1));
  EXPECT_FALSE(block.Occupy(50, 11));
  EXPECT_FALSE(block.Occupy(0, 2048));
  EXPECT_FALSE(block.Occupy(64, 64));
  EXPECT_TRUE(block.Occupy(50, 10));
  EXPECT_TRUE(block.Occupy(70, 64));
  EXPECT_FALSE(block.Occupy(2044, 5));  // beyond the block's end
  EXPECT_TRUE(block.Occupy(2044, 4));
  EXPECT_EQ(block.free_cells(), 2048u - 10 - 10 - 64 - 4);
  EXPECT_EQ(block.NextPiece(0), 50u);
  EXPECT_EQ(block.NextPiece(51), 60u);
  EXPECT_EQ(block.CellsOfPiece(70), 64u);
  block.MeasureHoles();
  EXPECT_EQ(block.longest(), 2044u - 134);
}

// Random pieces compared with a map of them, in blocks of each kind.
TEST(BlockTest, RandomPiecesNeverOverlapAndHolesCoalesce) {
  for (const BlockKind kind : {BlockKind::kSmall, BlockKind::kMedium, BlockKind::kLarge}) {
    std::mt19937_64 random(static_cast<uint64_t>(kind));
    Block block;
    block.Reset(0x200000, kind, true);
    std::map<uint32_t, uint32_t> pieces;
    for (int step = 0; step < 30'000; ++step) {
      const auto cells = static_cast<uint32_t>(1 + random() % (step % 1000 < 500 ? 8 : 120));
      if (random() % 16 < (step % 4000 < 2000 ? 9 : 6)) {
        const Block::Extent hole = block.TakeHole(cells, &looks);
        if (hole.cells() == 0) continue;
        ASSERT_GE(hole.cells(), cells);
        block.Begin(hole.begin);
        if (hole.cells() > cells) block.Free(hole.begin + cells, hole.cells() - cells);
        pieces[hole.begin] = cells;
      } else if (!pieces.empty()) {
        auto at = pieces.lower_bound(static_cast<uint32_t>(random() % block.cells()));
        if (at == pieces.end()) at = pieces.begin();
        block.Free(at->first, at->second);
        pieces.erase(at);
      }
      uint32_t free = 0, longest = 0, end = 0, piece = block.NextPiece(0);
      for (const auto& [begin, n] : pieces) {
        ASSERT_GE(begin, end);
        ASSERT_EQ(piece, begin);
        ASSERT_EQ(block.CellsOfPiece(piece), n);
        piece = block.NextPiece(piece + 1);
        free += begin - end;
        longest = std::max(longest, begin - end);
        end = begin + n;
      }
      ASSERT_EQ(piece, block.cells());
      free += block.cells() - end;
      longest = std::max(longest, block.cells() - end);
      ASSERT_EQ(block.free_cells(), free);
      ASSERT_EQ(block.longest(), longest);
    }
  }
}

TEST(BlockTest, EverySizeClassFillsItsCells) {
  for (int c = 0; c < kSizeClasses; ++c) {
    const uint64_t bytes = SizeClassBytes(static_cast<SizeClass>(c));
    const BlockKind kind = KindFor(bytes);
    if (kind == BlockKind::kRun) continue;
    EXPECT_EQ(uint64_t{ShapeOf(kind).CellsFor(bytes)} << ShapeOf(kind).cell_shift, bytes);
  }
}

}  // namespace
}  // namespace farlook::kv
