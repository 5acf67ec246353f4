#include "kv/heap/heap_recovery.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kv/layout/size_class.h"
#include "kv/layout/test_region.h"

namespace farlook::kv {
namespace {

// A heap with pieces of each kind, and one that continues with those that are still named.
class HeapRecoveryTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [partition, bytes] :
         std::vector<std::pair<int, uint64_t>>{{0, 100}, {3, 9'000}, {2, 300'000}, {1, 700'000}}) {
      const SizeClass size_class = SizeClassFor(bytes);
      const uint64_t offset = heap_.Allocate(partition, SizeClassBytes(size_class), Claim::kNewKey);
      ASSERT_NE(offset, 0u);
      pieces_.push_back({partition, Slot(0, size_class, offset)});
    }
  }
  struct Piece {
    int partition;
    Slot slot;
  };
  std::unique_ptr<Heap> Continue() {
    auto heap = std::make_unique<Heap>(memory_.span().data(), header_);
    HeapRecovery recovery(heap.get());
    EXPECT_TRUE(recovery.Read().ok());
    recovery.Adopt();
    for (const Piece& piece : pieces_) {
      EXPECT_TRUE(recovery.IsHole(piece.slot.offset()));
      EXPECT_TRUE(recovery.MayBe(piece.partition, piece.slot));
      EXPECT_TRUE(recovery.Claim(piece.partition, piece.slot));
      EXPECT_FALSE(recovery.IsHole(piece.slot.offset()));
      EXPECT_EQ(recovery.PieceAt(piece.slot.offset() + piece.slot.bytes() - 1), piece.slot.offset());
    }
    recovery.Finish();
    return heap;
  }

  TestMemory memory_{kMinRegionBytes};
  const RegionHeader header_ = RegionHeader::For(kMinRegionBytes, 4);
  Heap heap_{memory_.span().data(), header_};
  std::vector<Piece> pieces_;
};

TEST_F(HeapRecoveryTest, KnowsPiecesAndTheirOwners) {
  const std::unique_ptr<Heap> heap = Continue();
  for (const Piece& piece : pieces_) {
    for (int partition = 0; partition < 4; ++partition) {
      uint64_t from = 0;
      uint32_t looks = 1'000;
      EXPECT_EQ(heap->NextPiece(partition, KindFor(piece.slot.bytes()), &from, &looks),
                partition == piece.partition ? piece.slot.offset() : 0);
    }
  }
  const HeapStats before = heap_.stats(), now = heap->stats();
  for (size_t kind = 0; kind < before.kinds.size(); ++kind) {
    EXPECT_EQ(now.kinds[kind].blocks, before.kinds[kind].blocks) << kind;
    EXPECT_EQ(now.kinds[kind].used_bytes, before.kinds[kind].used_bytes) << kind;
  }
  EXPECT_EQ(now.free_bytes, before.free_bytes);
}

// The spare is as long as the longest piece, and becomes shorter when that is freed.
TEST_F(HeapRecoveryTest, ProvidesTheSpare) {
  const std::unique_ptr<Heap> heap = Continue();
  const Slot large = pieces_[2].slot, run = pieces_[3].slot;
  EXPECT_TRUE(heap->SpareServes(run.bytes()));
  heap->Free(pieces_[3].partition, run.offset(), run.bytes());
  EXPECT_FALSE(heap->SpareServes(run.bytes()));
  EXPECT_TRUE(heap->SpareServes(large.bytes()));
  heap->Free(pieces_[2].partition, large.offset(), large.bytes());
  EXPECT_FALSE(heap->SpareServes(large.bytes()));
}

TEST_F(HeapRecoveryTest, FreesWhatIsNotNamed) {
  pieces_.clear();
  const HeapStats now = Continue()->stats();
  EXPECT_EQ(now.free_bytes + now.overhead_bytes, kMinRegionBytes);
  // The page map says so too.
  EXPECT_EQ(Continue()->stats().free_bytes, now.free_bytes);
}

// A slot of another partition, length or place names no piece.
TEST_F(HeapRecoveryTest, RefusesWhatIsNoPiece) {
  Heap heap(memory_.span().data(), header_);
  HeapRecovery recovery(&heap);
  ASSERT_TRUE(recovery.Read().ok());
  recovery.Adopt();
  const Slot small = pieces_[0].slot, medium = pieces_[1].slot, run = pieces_[3].slot;
  EXPECT_FALSE(recovery.MayBe(1, small));
  EXPECT_FALSE(recovery.MayBe(0, Slot(0, small.size_class(), medium.offset())));
  EXPECT_FALSE(recovery.MayBe(3, Slot(0, medium.size_class(), medium.offset() + kGranuleBytes)));
  EXPECT_FALSE(recovery.MayBe(0, run));
  EXPECT_FALSE(recovery.MayBe(1, Slot(0, SizeClassFor(600'000), run.offset())));
  EXPECT_FALSE(recovery.MayBe(1, Slot(0, run.size_class(), run.offset() + kUnitBytes)));
  EXPECT_TRUE(recovery.Claim(3, medium));
  EXPECT_FALSE(recovery.Claim(3, Slot(0, medium.size_class(), medium.offset() + 256)));
}

}  // namespace
}  // namespace farlook::kv
