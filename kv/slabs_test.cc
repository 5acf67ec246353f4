#include "kv/slabs.h"

#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kv/limits.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kPages = 64;

// The pieces in use: no two overlap, none lies outside.
class Model {
 public:
  void Add(uint64_t offset, SizeClass size_class) {
    const uint64_t bytes = SizeClassBytes(size_class);
    ASSERT_GE(offset, kPageBytes);
    ASSERT_LE(offset + bytes, kPages * kPageBytes);
    ASSERT_EQ(offset % kGranuleBytes, 0u);
    const auto next = pieces_.lower_bound(offset);
    if (next != pieces_.end()) {
      ASSERT_LE(offset + bytes, next->first);
    }
    if (next != pieces_.begin()) {
      const auto before = std::prev(next);
      ASSERT_LE(before->first + SizeClassBytes(before->second), offset);
    }
    pieces_[offset] = size_class;
  }
  uint64_t TakeAny(uint64_t random) {
    auto at = pieces_.lower_bound(random % (kPages * kPageBytes));
    if (at == pieces_.end()) at = pieces_.begin();
    const uint64_t offset = at->first;
    pieces_.erase(at);
    return offset;
  }
  std::map<uint64_t, SizeClass> pieces_;
};

TEST(Slabs, RandomPiecesNeverOverlapAndAllMemoryComesBack) {
  for (const uint64_t seed : {1, 2, 3}) {
    PagePool pool(1, kPages);
    Slabs slabs(&pool, kPages);
    Model model;
    std::mt19937_64 random(seed);
    const std::vector<uint64_t> sizes = {32, 64, 500, 1000, 3000, 70'000, 700'000, 2'000'000, 5'000'000, 16'000'000};
    int refused = 0;
    for (int i = 0; i < 100'000; ++i) {
      const bool growing = i / 10'000 % 2 == 0;
      if (model.pieces_.empty() || random() % 8 < (growing ? 5u : 3u)) {
        const uint64_t most = sizes[random() % 20 == 0 ? random() % sizes.size() : random() % 5];
        const SizeClass size_class = SizeClassFor(1 + random() % most);
        const uint64_t offset = slabs.Allocate(size_class);
        if (offset == 0) {
          ++refused;
          continue;
        }
        model.Add(offset, size_class);
        if (HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
      } else {
        slabs.Free(model.TakeAny(random()));
      }
    }
    while (!model.pieces_.empty()) slabs.Free(model.TakeAny(random()));
    EXPECT_EQ(pool.free_pages(), kPages - 1) << "seed " << seed;
    EXPECT_LT(refused, 100'000 / 4);
  }
}

TEST(Slabs, ASlabIsFilledBeforeAnotherIsTaken) {
  PagePool pool(1, kPages);
  Slabs slabs(&pool, kPages);
  const SizeClass size_class = SizeClassFor(1024);
  for (uint64_t i = 0; i < kPageBytes / 1024; ++i) EXPECT_NE(slabs.Allocate(size_class), 0u);
  EXPECT_EQ(pool.free_pages(), kPages - 2);
  EXPECT_NE(slabs.Allocate(size_class), 0u);
  EXPECT_EQ(pool.free_pages(), kPages - 3);
}

// 3/4 of a page each: slabs of several pages waste less, but where only single pages are left those do.
TEST(Slabs, RunsWhereTheyWasteLessAndSinglePagesWhereNoneIsLeft) {
  const SizeClass size_class = SizeClassFor(kPageBytes * 3 / 4);
  {
    PagePool pool(1, kPages);
    Slabs slabs(&pool, kPages);
    EXPECT_NE(slabs.Allocate(size_class), 0u);
    EXPECT_EQ(pool.free_pages(), kPages - 1 - 3);
    for (int i = 0; i < 3; ++i) EXPECT_NE(slabs.Allocate(size_class), 0u) << "four of them in three pages";
    EXPECT_EQ(pool.free_pages(), kPages - 1 - 3);
  }
  {
    PagePool pool(1, 3);
    Slabs slabs(&pool, 3);
    EXPECT_NE(slabs.Allocate(size_class), 0u);
    EXPECT_NE(slabs.Allocate(size_class), 0u);
    EXPECT_EQ(slabs.Allocate(size_class), 0u);
  }
}

// Two full slabs, of which one then has every eighth piece in use and the other every second.
class SparseSlabs : public testing::Test {
 protected:
  SparseSlabs() {
    for (uint64_t i = 0; i < 2 * kPerSlab; ++i) pieces_.push_back(slabs_.Allocate(kClass));
    for (uint64_t i = 0; i < 2 * kPerSlab; ++i) {
      if (i % (i < kPerSlab ? 8 : 2) != 0) {
        slabs_.Free(pieces_[i]);
      } else {
        used_.push_back(pieces_[i]);
      }
    }
  }

  static constexpr SizeClass kClass = SizeClassFor(1024);
  static constexpr uint64_t kPerSlab = kPageBytes / 1024;
  PagePool pool_{1, kPages};
  Slabs slabs_{&pool_, kPages};
  std::vector<uint64_t> pieces_, used_;
};

TEST_F(SparseSlabs, TheSparsestIsTheOneWithTheFewestBytesInUse) {
  Slab* slab = slabs_.Sparsest();
  ASSERT_NE(slab, nullptr);
  EXPECT_EQ(slab->offset, pieces_[0] / kPageBytes * kPageBytes);
  EXPECT_EQ(slab->used, kPerSlab / 8);
  EXPECT_TRUE(slab->Used(0));
  EXPECT_FALSE(slab->Used(1));
  EXPECT_EQ(slab->PieceOffset(3), slab->offset + 3 * 1024);
}

TEST_F(SparseSlabs, APinnedPieceKeepsItsSlabFromBeingChosen) {
  slabs_.Pin(used_[0]);
  Slab* slab = slabs_.Sparsest();
  ASSERT_NE(slab, nullptr);
  EXPECT_NE(slab->offset, pieces_[0] / kPageBytes * kPageBytes);
  slabs_.Pin(used_.back());
  EXPECT_EQ(slabs_.Sparsest(), nullptr);
  slabs_.Unpin(used_[0]);
  EXPECT_NE(slabs_.Sparsest(), nullptr);
}

TEST_F(SparseSlabs, ASlabWhosePiecesFitNowhereElseIsNotChosen) {
  while (slabs_.Sparsest() != nullptr) ASSERT_NE(slabs_.Allocate(kClass), 0u);
  // Expect: no room in either for what the other holds; one slab is full.
  uint64_t room = 0;
  while (pool_.free_pages() == kPages - 3) {
    slabs_.Allocate(kClass);
    ++room;
  }
  EXPECT_GT(room, 0u);
}

TEST_F(SparseSlabs, AWithdrawnSlabGivesNoPiecesAndIsGoneWhenItIsRetired) {
  Slab* slab = slabs_.Sparsest();
  const uint64_t page = slab->offset / kPageBytes;
  slabs_.Withdraw(slab);
  for (uint64_t i = 0; i < slab->used; ++i) EXPECT_NE(slabs_.Allocate(kClass) / kPageBytes, page);
  EXPECT_EQ(pool_.free_pages(), kPages - 3);
  slabs_.Retire(slab);
  EXPECT_EQ(pool_.free_pages(), kPages - 2);
}

TEST_F(SparseSlabs, AWithdrawnSlabThatIsPutBackGivesItsPiecesAgain) {
  // Its first free piece is beyond the bitmap's first word; then the first ones are moved out.
  Slab* slab = slabs_.Sparsest();
  while (slab->search_from < 3) slabs_.Allocate(kClass);
  slabs_.Withdraw(slab);
  uint32_t moved = 0;
  for (uint32_t piece = 0; piece < 64; ++piece) {
    slab->bitmap[0] &= ~(1ull << piece);
    --slab->used;
    ++moved;
  }
  slabs_.PutBack(slab);
  uint64_t room = 0;
  for (const Slab* s : {slab}) room += s->capacity - s->used;
  ASSERT_GE(room, moved);
  std::map<uint64_t, int> given;
  for (uint64_t i = 0; i < room; ++i) {
    const uint64_t offset = slabs_.Allocate(kClass);
    ASSERT_EQ(offset / kPageBytes, slab->offset / kPageBytes);
    ASSERT_EQ(given[offset]++, 0);
  }
}

}  // namespace
}  // namespace farlook::kv
