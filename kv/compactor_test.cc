#include "kv/compactor.h"

#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "kv/region.h"
#include "kv/size_class.h"
#include "kv/test_region.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// All pieces of a heap: none overlaps another.
class Pieces {
 public:
  struct Piece {
    uint64_t bytes;
    int partition;
  };

  void Add(uint64_t offset, Piece piece) {
    const auto next = pieces_.lower_bound(offset);
    if (next != pieces_.end()) {
      EXPECT_LE(offset + piece.bytes, next->first);
    }
    if (next != pieces_.begin()) {
      EXPECT_LE(std::prev(next)->first + std::prev(next)->second.bytes, offset);
    }
    pieces_[offset] = piece;
    used_ += piece.bytes;
  }
  Piece Remove(uint64_t offset) {
    const Piece piece = pieces_.at(offset);
    used_ -= piece.bytes;
    pieces_.erase(offset);
    return piece;
  }
  const std::map<uint64_t, Piece>& all() const { return pieces_; }
  uint64_t used() const { return used_; }

 private:
  std::map<uint64_t, Piece> pieces_;
  uint64_t used_ = 0;
};

// A partition whose items are the pieces, but for those that have no slot yet.
class FakePartition : public ItemMover {
 public:
  FakePartition(Pieces* pieces, int number) : pieces_(pieces), number_(number) {}

  char* SlotOfItemAt(uint64_t offset) override {
    EXPECT_EQ(pieces_->all().count(offset), 1u) << "no piece begins there";
    EXPECT_EQ(pieces_->all().at(offset).partition, number_);
    return without_slot.count(offset) > 0 ? nullptr : &slot_;
  }
  bool CopyItem(uint64_t from, uint64_t /*to*/, uint64_t most, uint64_t* copied) override {
    const uint64_t bytes = pieces_->all().at(from).bytes;
    *copied += std::min(most, bytes - *copied);
    return *copied == bytes;
  }
  void MoveCopied(char* /*slot*/, uint64_t from, uint64_t to) override {
    const Pieces::Piece piece = pieces_->Remove(from);
    pieces_->Add(to, piece);
    ++moved_items;
    moved_bytes += piece.bytes;
  }
  uint64_t EvictOldest(int64_t /*now_ns*/) override { return 0; }

  std::set<uint64_t> without_slot;
  uint64_t moved_items = 0, moved_bytes = 0;

 private:
  Pieces* const pieces_;
  const int number_;
  char slot_ = 0;
};

class CompactorTest : public testing::Test {
 protected:
  void Make(uint64_t bytes, int partitions) {
    memory_ = std::make_unique<TestMemory>(bytes);
    heap_ = std::make_unique<Heap>(memory_->span().data(), RegionHeader::For(bytes, partitions));
    locks_ = std::make_unique<PartitionLocks>(partitions);
    compactor_ = std::make_unique<Compactor>(heap_.get(), locks_.get());
    for (int i = 0; i < partitions; ++i) {
      partitions_.push_back(std::make_unique<FakePartition>(&pieces_, i));
      compactor_->Add(partitions_.back().get());
    }
  }

  // 0: no room without moving.
  uint64_t Allocate(int partition, uint64_t bytes, Claim claim = Claim::kNewKey) {
    const uint64_t piece = SizeClassBytes(SizeClassFor(bytes));
    const uint64_t offset = heap_->Allocate(partition, piece, claim);
    if (offset != 0) pieces_.Add(offset, {piece, partition});
    return offset;
  }
  void Free(uint64_t offset) {
    const Pieces::Piece piece = pieces_.Remove(offset);
    heap_->Free(piece.partition, offset, piece.bytes);
  }
  std::vector<uint64_t> Fill(int partition, uint64_t bytes) {
    std::vector<uint64_t> offsets;
    while (const uint64_t offset = Allocate(partition, bytes)) offsets.push_back(offset);
    return offsets;
  }
  uint64_t moved_bytes() const {
    uint64_t sum = 0;
    for (const auto& partition : partitions_) sum += partition->moved_bytes;
    return sum;
  }
  uint64_t moved_items() const {
    uint64_t sum = 0;
    for (const auto& partition : partitions_) sum += partition->moved_items;
    return sum;
  }

  // As a partition does it, call by call, to the end. No call does more than it may.
  uint64_t MakeRoom(int partition, uint64_t bytes, Claim claim = Claim::kNewKey) {
    const uint64_t piece = SizeClassBytes(SizeClassFor(bytes));
    for (calls_ = 1; calls_ < 100'000; ++calls_) {
      const uint64_t bytes_before = moved_bytes(), items_before = moved_items();
      StepBudget budget;
      bool more = true;
      while (more && budget.left()) {
        more = compactor_->Step(partition, piece, claim, &budget);
        if (const uint64_t offset = Allocate(partition, bytes, claim)) {
          compactor_->Done(partition, true);
          return offset;
        }
      }
      EXPECT_LE(moved_bytes() - bytes_before, (256 << 10) + (512 << 10)) << "the last item may go beyond";
      EXPECT_LE(moved_items() - items_before, StepBudget().items);
      if (!more) {
        compactor_->Done(partition, false);
        return 0;
      }
    }
    ADD_FAILURE() << "without end";
    return 0;
  }

  std::unique_ptr<TestMemory> memory_;
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<PartitionLocks> locks_;
  std::unique_ptr<Compactor> compactor_;
  Pieces pieces_;
  std::vector<std::unique_ptr<FakePartition>> partitions_;
  uint64_t calls_ = 0;
};

TEST_F(CompactorTest, HolesBecomeRoomForWhatIsLongerThanThem) {
  Make(16 * kMiB, 1);
  const std::vector<uint64_t> pieces = Fill(0, 64);
  for (size_t i = 0; i < pieces.size(); i += 2) Free(pieces[i]);
  for (int i = 0; i < 100; ++i) ASSERT_NE(MakeRoom(0, 4096), 0u) << i;
  EXPECT_NE(MakeRoom(0, 60'000), 0u);
  EXPECT_NE(MakeRoom(0, 400'000), 0u);
  EXPECT_NE(MakeRoom(0, 3 * kMiB), 0u) << "a run, out of blocks that are emptied";
  EXPECT_GT(calls_, 3u) << "in steps";
}

TEST_F(CompactorTest, WhatWasFreedIsRoomForAnyLength) {
  for (const uint64_t bytes : {1'000, 4'000, 30'000, 300'000, 1'500'000}) {
    partitions_.clear();
    pieces_ = Pieces();
    Make(128 * kMiB, 4);
    std::mt19937_64 random(bytes);
    std::vector<uint64_t> pieces;
    while (true) {
      const uint64_t offset = Allocate(static_cast<int>(random() % 4), 8 + random() % 4'000);
      if (offset == 0) break;
      pieces.push_back(offset);
    }
    const uint64_t full = pieces_.used();
    for (const uint64_t offset : pieces) {
      if (random() % 10 < 3) Free(offset);
    }
    const uint64_t freed = full - pieces_.used();
    while (MakeRoom(static_cast<int>(random() % 4), bytes) != 0) {
    }
    const double again = static_cast<double>(pieces_.used() + freed - full) / static_cast<double>(freed);
    std::printf("%lu bytes: %.2f of what was freed, %lu items moved\n", bytes, again, moved_items());
    EXPECT_GE(again, 0.8) << bytes;
  }
}

TEST_F(CompactorTest, RoomThatCannotBeMadeIsRefusedAndThenWithoutWork) {
  Make(64 * kMiB, 2);
  for (int i = 0; i < 2; ++i) Fill(i, 3'000);  // the ends of blocks are holes for good
  EXPECT_EQ(MakeRoom(0, 3'000), 0u);
  const uint64_t moved = moved_bytes();
  EXPECT_LT(moved, 8 * kMiB);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(MakeRoom(0, 3'000), 0u);
  EXPECT_EQ(moved_bytes(), moved);
  EXPECT_EQ(MakeRoom(0, 20 * kMiB), 0u) << "more than could ever be free";
  EXPECT_EQ(moved_bytes(), moved);
}

TEST_F(CompactorTest, APinnedPieceStaysAndSoDoesOneWithoutASlot) {
  Make(16 * kMiB, 1);
  const std::vector<uint64_t> pieces = Fill(0, 1'000);
  std::set<uint64_t> pinned;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i % 640 == 0) {
      pinned.insert(pieces[i]);
      heap_->Pin(pieces[i]);
    } else if (i == 64 * 3 + 7) {
      partitions_[0]->without_slot.insert(pieces[i]);
    } else if (i % 2 == 0) {
      Free(pieces[i]);
    }
  }
  for (int i = 0; i < 50; ++i) MakeRoom(0, 60'000);
  EXPECT_GT(moved_items(), 100u);
  for (const uint64_t offset : pinned) EXPECT_EQ(pieces_.all().count(offset), 1u) << "it was not moved";
  EXPECT_EQ(pieces_.all().count(pieces[64 * 3 + 7]), 1u);
}

TEST_F(CompactorTest, AnotherPartitionsLockIsOnlyTried) {
  Make(64 * kMiB, 2);
  const std::vector<uint64_t> pieces = Fill(1, 1'000);
  Fill(0, 4'000);
  for (size_t i = 0; i < pieces.size(); i += 2) Free(pieces[i]);
  const uint64_t piece = SizeClassBytes(SizeClassFor(4'000));
  locks_->of(1)->Lock();
  for (int i = 0; i < 10; ++i) {
    StepBudget budget;
    EXPECT_TRUE(compactor_->Step(0, piece, Claim::kNewKey, &budget)) << "later";
    EXPECT_FALSE(budget.left()) << "not in this call";
  }
  locks_->of(1)->Unlock();
  EXPECT_EQ(moved_items(), 0u);
  EXPECT_NE(MakeRoom(0, 4'000), 0u);
  EXPECT_GT(partitions_[1]->moved_items, 0u);
  const bool free = locks_->of(1)->TryLock();
  EXPECT_TRUE(free) << "it was given back";
  if (free) locks_->of(1)->Unlock();
}

// Any sizes, partitions and frees, for a while: Pieces checks that nothing overlaps, and all of it comes back.
TEST_F(CompactorTest, RandomPiecesSurviveBeingMoved) {
  for (const uint64_t seed : {1, 2}) {
    partitions_.clear();
    pieces_ = Pieces();
    Make(32 * kMiB, 4);
    std::mt19937_64 random(seed);
    const auto any = [&] {
      auto at = pieces_.all().lower_bound(random() % (32 * kMiB));
      return at == pieces_.all().end() ? pieces_.all().begin()->first : at->first;
    };
    for (int i = 0; i < 30'000; ++i) {
      const uint64_t most = random() % 100 == 0 ? 2 * kMiB : random() % 10 == 0 ? 80'000 : 3'000;
      const int partition = static_cast<int>(random() % 4);
      if (MakeRoom(partition, 1 + random() % most, random() % 2 == 0 ? Claim::kNewKey : Claim::kOverwrite) == 0) {
        for (int n = 0; n < 300 && !pieces_.all().empty(); ++n) Free(any());
      }
      if (HasFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    EXPECT_GT(moved_items(), 1'000u);
    const HeapStats stats = heap_->stats();
    uint64_t used = 0, blocks = 0;
    for (const HeapStats::Kind& kind : stats.kinds) {
      used += kind.used_bytes;
      blocks += kind.bytes;
    }
    EXPECT_EQ(used, pieces_.used());
    EXPECT_GE(blocks, used);
    while (!pieces_.all().empty()) Free(any());
    for (const HeapStats::Kind& kind : heap_->stats().kinds) EXPECT_EQ(kind.bytes, 0u);
  }
}

}  // namespace
}  // namespace farlook::kv
