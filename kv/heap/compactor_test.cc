#include "kv/heap/compactor.h"

#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"
#include "kv/heap/partition_locks.h"
#include "kv/layout/region.h"
#include "kv/layout/size_class.h"
#include "kv/layout/test_region.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// All pieces of a heap; checks that they do not overlap.
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

// A partition whose items are the pieces, except those that have no slot yet.
class FakePartition : public ItemMover {
 public:
  FakePartition(Pieces* pieces, int number, PartitionLock* lock) : pieces_(pieces), number_(number), lock_(lock) {}

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
  void MoveCopied(char* slot, uint64_t from, uint64_t to) override {
    const bool locked = !TryLock();
    EXPECT_TRUE(locked) << "an item was moved without its partition's lock";
    EXPECT_NE(slot, nullptr) << "nothing leads to it yet";
    EXPECT_EQ(pinned.count(from), 0u) << "its memory is somebody's";
    const Pieces::Piece piece = pieces_->Remove(from);
    pieces_->Add(to, piece);
    ++moved_items;
    moved_bytes += piece.bytes;
  }
  uint64_t EvictOldest(int64_t /*now_ns*/) override { return 0; }
  uint64_t SweptUs() const override { return 0; }

  std::set<uint64_t> without_slot, pinned;
  uint64_t moved_items = 0, moved_bytes = 0;

 private:
  bool TryLock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const bool free = lock_->TryLock();
    if (free) lock_->Unlock();
    return free;
  }

  Pieces* const pieces_;
  const int number_;
  PartitionLock* const lock_;
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
      partitions_.push_back(std::make_unique<FakePartition>(&pieces_, i, locks_->of(i)));
      compactor_->Add(partitions_.back().get());
    }
  }

  // Returns 0 if there is no room without moving.
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

  // Makes room as a partition does, call by call, to the end. Checks that no call exceeds its budget.
  uint64_t MakeRoom(int partition, uint64_t bytes, Claim claim = Claim::kNewKey) {
    LockedPartition lock(locks_->of(partition));
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

// Searching for a hole among many shorter ones is work too.
TEST_F(CompactorTest, HolesThatAreLookedAtAreOfTheBudget) {
  Make(16 * kMiB, 1);
  std::vector<uint64_t> sparse;  // a separate block, of which three of four pieces are freed
  for (int i = 0; i < 1024; ++i) sparse.push_back(Allocate(0, 64));
  const std::vector<uint64_t> cells = Fill(0, 32);
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (i % 4 != 0) Free(sparse[i]);
  }
  for (const uint64_t offset : cells) {  // each block has a thousand holes that are too short, before those that
                                         // suffice
    const uint64_t cell = offset % kUnitBytes / 32;
    if (cell < 1984 ? cell % 2 == 0 : cell % 4 < 2) Free(offset);
  }
  LockedPartition lock(locks_->of(0));
  for (int step = 0; step < 10; ++step) {
    const uint64_t before = moved_items();
    StepBudget budget;
    ASSERT_TRUE(compactor_->Step(0, SizeClassBytes(SizeClassFor(60'000)), Claim::kNewKey, &budget));
    ASSERT_FALSE(budget.left());
    EXPECT_GT(moved_items(), before);
    EXPECT_LT(moved_items() - before, 40u) << "of " << StepBudget().items << ", did it not look for them";
  }
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
  for (int i = 0; i < 2; ++i) Fill(i, 3'000);  // the ends of blocks are permanent holes
  EXPECT_EQ(MakeRoom(0, 3'000), 0u);
  const uint64_t moved = moved_bytes();
  EXPECT_LT(moved, 8 * kMiB);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(MakeRoom(0, 3'000), 0u);
  EXPECT_EQ(moved_bytes(), moved);
  EXPECT_EQ(MakeRoom(0, 20 * kMiB), 0u) << "more than could ever be free";
  EXPECT_EQ(moved_bytes(), moved);
}

// The holes add up to less than a block: they are joined as far as a piece needs it.
TEST_F(CompactorTest, FewHolesGiveRoomForAPiece) {
  Make(16 * kMiB, 1);
  const std::vector<uint64_t> pieces = Fill(0, 2'000);  // 32 in a block
  for (size_t i = 0; i < 10; ++i) {
    Free(pieces[2 * i]);            // of one block
    Free(pieces[64 + 32 * i + 5]);  // of others
  }
  EXPECT_FALSE(compactor_->Hopeless(0, 4'096, Claim::kNewKey));
  EXPECT_NE(MakeRoom(0, 4'000), 0u);
}

// A long piece may cost many moves, as long as block after block becomes free.
TEST_F(CompactorTest, MovingThatDoesGoodGoesOn) {
  Make(64 * kMiB, 1);
  const std::vector<uint64_t> pieces = Fill(0, 1'000);
  for (size_t i = 0; i < pieces.size(); i += 2) Free(pieces[i]);
  EXPECT_NE(MakeRoom(0, 20 * kMiB), 0u);
  EXPECT_GT(moved_bytes(), 8 * kMiB);
}

TEST_F(CompactorTest, HopelessSaysWhatStepsWouldFind) {
  Make(16 * kMiB, 1);
  const std::vector<uint64_t> pieces = Fill(0, 64);
  for (const uint64_t bytes : {4'096, 65'536, 524'288, 1 << 20}) {
    EXPECT_TRUE(compactor_->Hopeless(0, bytes, Claim::kNewKey)) << bytes;
  }
  for (size_t i = 0; i < pieces.size(); i += 2) Free(pieces[i]);
  for (const uint64_t bytes : {4'096, 65'536, 524'288, 1 << 20}) {
    EXPECT_FALSE(compactor_->Hopeless(0, bytes, Claim::kNewKey)) << bytes;
    EXPECT_NE(MakeRoom(0, bytes), 0u) << bytes;
  }
}

// The small or medium pieces of two partitions fill the region; those of one are pinned or not published yet.
TEST_F(CompactorTest, WhatMayNotBeMovedStaysWhateverIsWanted) {
  for (const uint64_t bytes : {1'000, 20'000}) {
    for (const bool pins : {false, true}) {
      partitions_.clear();
      pieces_ = Pieces();
      Make(32 * kMiB, 2);
      std::vector<uint64_t> pieces;
      while (true) {
        const uint64_t offset = Allocate(static_cast<int>(pieces.size() % 2), bytes);
        if (offset == 0) break;
        pieces.push_back(offset);
      }
      for (size_t i = 0; i < pieces.size(); ++i) {
        if (i % 100 == 7) {
          const int owner = pieces_.all().at(pieces[i]).partition;
          if (pins) {
            heap_->Pin(pieces[i]);
            partitions_[static_cast<size_t>(owner)]->pinned.insert(pieces[i]);
          } else {
            partitions_[static_cast<size_t>(owner)]->without_slot.insert(pieces[i]);
          }
        } else if (i % 3 != 0) {
          Free(pieces[i]);
        }
      }
      for (const uint64_t wanted : {3'000, 40'000, 300'000, 1'200'000, 2'500'000}) {
        for (int i = 0; i < 4; ++i) MakeRoom(i % 2, wanted);
      }
      EXPECT_GT(moved_items(), 10u);
    }
  }
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

// The same for medium pieces, whose blocks hold pieces of both partitions; and if units must be contiguous.
TEST_F(CompactorTest, AnotherPartitionsLockIsOnlyTriedForSharedBlocks) {
  Make(64 * kMiB, 2);
  std::vector<uint64_t> pieces = Fill(1, 20'000);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i % 4 != 0) Free(pieces[i]);
  }
  locks_->of(1)->Lock();
  for (const uint64_t wanted : {uint64_t{60'000}, uint64_t{400'000}, 50 * kMiB}) {
    const uint64_t piece = SizeClassBytes(SizeClassFor(wanted));
    for (int i = 0; i < 100; ++i) {
      StepBudget budget;
      compactor_->Step(0, piece, Claim::kNewKey, &budget);
    }
  }
  EXPECT_EQ(moved_items(), 0u);
  locks_->of(1)->Unlock();
}

// Pieces that another partition's lock keeps from being moved are given up after a while.
TEST_F(CompactorTest, WhoHoldsALockForEverKeepsNobodyWaiting) {
  Make(64 * kMiB, 2);
  const std::vector<uint64_t> sparse = Fill(1, 20'000);
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (i % 8 != 0) Free(sparse[i]);
  }
  locks_->of(1)->Lock();
  for (const uint64_t wanted : {uint64_t{2'000}, uint64_t{400'000}, 40 * kMiB}) {
    MakeRoom(0, wanted);
    EXPECT_LT(calls_, 2'000u) << wanted;
  }
  EXPECT_EQ(moved_items(), 0u);
  locks_->of(1)->Unlock();
}

// Every other unit is free, and another partition's pieces lie between them.
TEST_F(CompactorTest, AWindowIsNotEmptiedWithoutTheLocksOfItsItems) {
  Make(32 * kMiB, 2);
  for (const uint64_t offset : Fill(1, 1'000)) {
    if (offset / kUnitBytes % 2 == 0 || offset / 1024 % 3 != 0) Free(offset);
  }
  locks_->of(1)->Lock();
  EXPECT_EQ(MakeRoom(0, 2 * kMiB), 0u);
  EXPECT_LT(calls_, 5'000u);
  EXPECT_EQ(moved_items(), 0u);
  locks_->of(1)->Unlock();
}

// The window with the least in use is emptied; if something in it may not be moved, another one is.
TEST_F(CompactorTest, ARunIsMadeWhereLeastIsInUse) {
  for (const bool pins : {false, true}) {
    partitions_.clear();
    pieces_ = Pieces();
    Make(32 * kMiB, 1);
    const std::vector<uint64_t> pieces = Fill(0, 1'000);  // from the high end down, so the first lie together
    for (size_t i = 0; i < pieces.size(); ++i) {
      const bool sparse = i >= pieces.size() / 2 && i < pieces.size() / 2 + 128 * 64;
      if (i % (sparse ? 60 : 3) != 0) {
        if (sparse || i % 3 == 1) Free(pieces[i]);
      } else if (pins && sparse && i % 3'000 == 0) {
        heap_->Pin(pieces[i]);
        partitions_[0]->pinned.insert(pieces[i]);
      }
    }
    // Take all free units except those that compaction needs, so that a window must be emptied.
    while (Allocate(0, 100'000, Claim::kOverwrite) != 0) {
    }
    const uint64_t before = moved_items();
    EXPECT_NE(MakeRoom(0, 4 * kMiB), 0u) << (pins ? "elsewhere" : "there");
    if (!pins) {
      EXPECT_LT(moved_items() - before, 600u);
    }
  }
}

// Joining a few cells is not worth moving a block's items.
TEST_F(CompactorTest, BlocksThatAreNearlyFullAreLeftAlone) {
  Make(16 * kMiB, 1);
  const std::vector<uint64_t> pieces = Fill(0, 64);
  for (size_t i = 300; i < pieces.size(); i += 700) Free(pieces[i]);
  EXPECT_EQ(MakeRoom(0, 200), 0u);
  EXPECT_EQ(moved_items(), 0u);
}

// If each hole is shorter than each piece, a block is emptied into a new one. That needs a unit that is reserved for
// compaction: neither new keys nor overwrites take the last.
TEST_F(CompactorTest, TheLastUnitsAreForEmptyingBlocks) {
  Make(32 * kMiB, 1);
  std::vector<uint64_t> small;
  for (const Claim claim : {Claim::kNewKey, Claim::kOverwrite}) {
    while (Allocate(0, 3'000, claim) != 0) {
      const uint64_t offset = Allocate(0, 250, claim);
      if (offset == 0) break;
      small.push_back(offset);
    }
  }
  while (const uint64_t offset = Allocate(0, 64, Claim::kOverwrite)) small.push_back(offset);
  for (const uint64_t offset : small) Free(offset);
  EXPECT_NE(MakeRoom(0, 3'000, Claim::kOverwrite), 0u);
  EXPECT_GT(moved_items(), 0u);
}

TEST_F(CompactorTest, HolesAreFewWhereLessThanAPartIsFree) {
  Make(16 * kMiB, 1);
  const std::vector<uint64_t> pieces = Fill(0, 64);
  EXPECT_TRUE(compactor_->HolesAreFew(0, 64));
  EXPECT_TRUE(compactor_->HolesAreFew(0, 20'000)) << "there are none";
  EXPECT_FALSE(compactor_->HolesAreFew(0, 2 * kMiB)) << "a run is not made of holes";
  for (size_t i = 0; i < pieces.size(); i += 4) Free(pieces[i]);
  EXPECT_FALSE(compactor_->HolesAreFew(0, 64));
}

// The item in the spare is moved home only under its partition's lock.
TEST_F(CompactorTest, TheSpareIsEmptiedUnderItsOwnersLock) {
  Make(32 * kMiB, 2);
  const std::vector<uint64_t> pieces = Fill(1, 66'000);
  const uint64_t home = pieces[5], bytes = pieces_.all().at(home).bytes;
  const uint64_t spare = heap_->Lend(1, bytes);
  ASSERT_NE(spare, 0u);
  pieces_.Remove(home);
  pieces_.Add(spare, {bytes, 1});
  StepBudget budget;
  locks_->of(1)->Lock();
  EXPECT_TRUE(compactor_->StepForSpare(1, &budget)) << "nobody knows its home yet";
  locks_->of(1)->Unlock();
  partitions_[1]->without_slot.insert(spare);
  EXPECT_FALSE(budget.left());
  heap_->KeepHome(home);
  locks_->of(1)->Lock();
  budget = StepBudget();
  EXPECT_TRUE(compactor_->StepForSpare(1, &budget));
  EXPECT_FALSE(budget.left());
  partitions_[1]->without_slot.clear();
  budget = StepBudget();
  EXPECT_TRUE(compactor_->StepForSpare(0, &budget)) << "later";
  EXPECT_FALSE(budget.left());
  EXPECT_EQ(moved_items(), 0u);
  locks_->of(1)->Unlock();
  LockedPartition lock(locks_->of(0));
  for (int i = 0; i < 3; ++i) {
    budget = StepBudget();
    if (!compactor_->StepForSpare(0, &budget)) break;
  }
  EXPECT_EQ(pieces_.all().count(home), 1u);
  EXPECT_FALSE(compactor_->StepForSpare(0, &budget)) << "it can be lent again";
}

// Random sizes, partitions and frees: Pieces checks that nothing overlaps and that all memory is returned.
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
