#include "kv/heap/heap.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kv/layout/test_region.h"
#include "kv/layout/words.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class HeapTest : public testing::Test {
 protected:
  void Make(uint64_t bytes, int partitions) {
    memory_ = std::make_unique<TestMemory>(bytes);
    header_ = RegionHeader::For(bytes, partitions);
    heap_ = std::make_unique<Heap>(memory_->span().data(), header_);
  }

  struct Piece {
    int partition;
    uint64_t bytes;
  };
  // Checks that the piece overlaps no other piece nor the header.
  void Add(uint64_t offset, Piece piece) {
    ASSERT_GE(offset, header_.ReservedBytes());
    ASSERT_LE(offset + piece.bytes, header_.region_bytes);
    ASSERT_EQ(offset % kGranuleBytes, 0u);
    const auto next = pieces_.lower_bound(offset);
    if (next != pieces_.end()) {
      ASSERT_LE(offset + piece.bytes, next->first);
    }
    if (next != pieces_.begin()) {
      const auto before = std::prev(next);
      ASSERT_LE(before->first + before->second.bytes, offset);
    }
    pieces_[offset] = piece;
    used_ += piece.bytes;
  }
  void FreeAny(uint64_t random) {
    auto at = pieces_.lower_bound(random % header_.region_bytes);
    if (at == pieces_.end()) at = pieces_.begin();
    heap_->Free(at->second.partition, at->first, at->second.bytes);
    used_ -= at->second.bytes;
    pieces_.erase(at);
  }
  // Checks that the figures agree with each other and with the page map.
  void ExpectAllAccountedFor() {
    const HeapStats stats = heap_->stats();
    uint64_t blocks = 0, used = 0;
    for (const HeapStats::Kind& kind : stats.kinds) {
      blocks += kind.bytes;
      used += kind.used_bytes;
    }
    EXPECT_EQ(used, used_);
    EXPECT_EQ(blocks + stats.free_bytes + stats.index_bytes + stats.overhead_bytes, header_.region_bytes);
    uint64_t of[16] = {};
    uint64_t index = 0;
    for (uint64_t unit = stats.overhead_bytes / kUnitBytes; unit < header_.map_entries;) {
      const MapWord word(LoadWord(memory_->span().data() + header_.MapWordOf(unit * kUnitBytes)));
      ASSERT_NE(word.use(), MapWord::Use::kRest) << "unit " << unit;
      if (word.use() == MapWord::Use::kIndex) ++index;
      if (word.use() == MapWord::Use::kItems) of[word.block()] += word.units();
      unit += word.use() == MapWord::Use::kFree ? 1 : word.units();
    }
    EXPECT_EQ(index * kUnitBytes, stats.index_bytes);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(of[i + 1] * kUnitBytes, stats.kinds[i].bytes) << "kind " << i + 1;
  }

  std::unique_ptr<TestMemory> memory_;
  RegionHeader header_;
  std::unique_ptr<Heap> heap_;
  std::map<uint64_t, Piece> pieces_;
  uint64_t used_ = 0;
};

TEST_F(HeapTest, RandomPiecesNeverOverlapAndAllMemoryComesBack) {
  for (const uint64_t seed : {1, 2, 3}) {
    Make(128 * kMiB, 4);
    const uint64_t all = heap_->stats().free_bytes;
    std::mt19937_64 random(seed);
    std::vector<uint64_t> index;
    for (int i = 0; i < 60'000; ++i) {
      if (random() % 100 < (i / 10'000 % 2 == 0 ? 60u : 40u)) {
        const double log = static_cast<double>(random() % 1000) / 1000 * (i % 50 == 0 ? 22 : i % 5 == 0 ? 17 : 12);
        const Piece piece{static_cast<int>(random() % 4),
                          SizeClassBytes(SizeClassFor(1 + static_cast<uint64_t>(std::exp2(log))))};
        const uint64_t offset = heap_->Allocate(piece.partition, piece.bytes, Claim::kOverwrite);
        if (offset != 0) Add(offset, piece);
      } else if (!pieces_.empty()) {
        FreeAny(random());
      }
      if (i % 500 == 0) {
        const uint64_t unit = heap_->AllocateIndexUnit();
        if (unit != 0) index.push_back(unit);
      } else if (i % 700 == 0 && !index.empty()) {
        heap_->FreeIndexUnit(index.back());
        index.pop_back();
      }
      if (i % 3000 == 0) ExpectAllAccountedFor();
      if (HasFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    while (!pieces_.empty()) FreeAny(random());
    for (const uint64_t unit : index) heap_->FreeIndexUnit(unit);
    ExpectAllAccountedFor();
    EXPECT_EQ(heap_->stats().free_bytes, all);
    EXPECT_GE(heap_->stats().longest_bytes, all - 2 * kUnitBytes) << "the spare is one unit";
  }
}

// The extent at hand was used up to its last cell. Then a block that becomes empty is no longer at hand, and is not
// taken for a block with a hole when it is used again.
TEST_F(HeapTest, ABlockOfWhichNothingIsLeftAtHandIsGivenBack) {
  Make(64 * kMiB, 1);
  for (int i = 0; i < 16; ++i) Add(heap_->Allocate(0, 4096, Claim::kNewKey), {0, 4096});
  while (!pieces_.empty()) FreeAny(0);
  for (int i = 0; i < 21; ++i) Add(heap_->Allocate(0, 3072, Claim::kNewKey), {0, 3072});
  Add(heap_->Allocate(0, 3072, Claim::kCompaction), {0, 3072});  // this claim looks for holes first
  ExpectAllAccountedFor();
}

// A backup with small memory sets aside as much as the reserve has otherwise.
TEST_F(HeapTest, InAGroupNewKeysLeaveMoreOfSmallMemory) {
  Make(16 * kMiB, 1);
  heap_->KeepForCopies();
  while (heap_->Allocate(0, 4096, Claim::kNewKey) != 0) {
  }
  EXPECT_EQ(heap_->stats().free_bytes, 20 * kUnitBytes);
  heap_->SetAsideForIndex(4);
  EXPECT_GT(heap_->LeftOfCopies(), 4u + 8u) << "beside compaction and the index";
}

TEST_F(HeapTest, NewKeysLeaveTheReserveAndOverwritesWhatCompactionNeeds) {
  Make(64 * kMiB, 1);
  while (heap_->Allocate(0, 4096, Claim::kNewKey) != 0) {
  }
  const HeapStats stats = heap_->stats();
  EXPECT_EQ(stats.free_bytes, 64 * kMiB * 4 / 100 / kUnitBytes * kUnitBytes);
  EXPECT_EQ(stats.reserve_bytes, stats.free_bytes);
  while (heap_->Allocate(0, 4096, Claim::kOverwrite) != 0) {
  }
  EXPECT_EQ(heap_->stats().free_bytes, 5 * kUnitBytes) << "one is the spare";
  EXPECT_EQ(heap_->AllocateIndexUnit(), 0u);
  while (heap_->Allocate(0, 4096, Claim::kCompaction) != 0) {
  }
  EXPECT_EQ(heap_->stats().free_bytes, 1 * kUnitBytes);
}

TEST_F(HeapTest, IndexUnitsComeFromTheLowEndAndBlocksFromTheHighOne) {
  Make(64 * kMiB, 1);
  const uint64_t index = heap_->AllocateIndexUnit();
  EXPECT_EQ(index, heap_->stats().overhead_bytes);
  const uint64_t small = heap_->Allocate(0, 64, Claim::kNewKey);
  const uint64_t medium = heap_->Allocate(0, SizeClassBytes(SizeClassFor(10'000)), Claim::kNewKey);
  EXPECT_LT(small, 4 * kMiB) << "the first page is the fullest";
  EXPECT_LT(medium, 4 * kMiB);
  EXPECT_GE(heap_->Allocate(0, SizeClassBytes(SizeClassFor(100'000)), Claim::kNewKey), 60 * kMiB)
      << "below the page that the spare is in";
}

// Pieces that fill their units well are not refused for lack of an aligned block.
TEST_F(HeapTest, WhereNoBlockIsLeftAPieceMayHaveUnitsOfItsOwn) {
  Make(16 * kMiB, 1);
  std::vector<uint64_t> units;
  while (const uint64_t unit = heap_->AllocateIndexUnit()) units.push_back(unit);
  for (size_t i = 0; i + 4 < units.size(); i += 8) {
    for (size_t j = 0; j < 4; ++j) heap_->FreeIndexUnit(units[i + j]);
  }
  EXPECT_EQ(heap_->Allocate(0, SizeClassBytes(SizeClassFor(40'000)), Claim::kOverwrite), 0u);
  const uint64_t bytes = SizeClassBytes(SizeClassFor(60'000));
  const uint64_t offset = heap_->Allocate(0, bytes, Claim::kOverwrite);
  ASSERT_NE(offset, 0u);
  EXPECT_EQ(heap_->stats().kinds[3].used_bytes, bytes);
  heap_->Free(0, offset, bytes);
  EXPECT_EQ(heap_->stats().kinds[3].bytes, 0u);
}

// Distributions of sizes that fill the region without moving anything; `least` is the share that must be filled at the
// first refusal.
struct Mix {
  const char* name;
  uint64_t region_bytes;
  int partitions;
  uint64_t (*bytes)(std::mt19937_64&);
  double least;
};
uint64_t Item(uint64_t value) { return 32 + 16 + value; }
uint64_t Thousand(std::mt19937_64& /*random*/) { return Item(1000); }
uint64_t Uniform4K(std::mt19937_64& random) { return Item(1 + random() % 4000); }
uint64_t Log64K(std::mt19937_64& random) {
  return Item(static_cast<uint64_t>(std::exp2(static_cast<double>(random() % 10000) / 10000 * 16)));
}
uint64_t Sizes46(std::mt19937_64& random) { return Item(8 + random() % 46 * 32); }
void PrintTo(const Mix& mix, std::ostream* out) { *out << mix.name; }

class HeapFillTest : public HeapTest, public testing::WithParamInterface<Mix> {};

TEST_P(HeapFillTest, WithoutMovingAnything) {
  const Mix& mix = GetParam();
  Make(mix.region_bytes, mix.partitions);
  std::mt19937_64 random(7);
  uint64_t items = 0;
  while (true) {
    const uint64_t bytes = mix.bytes(random);
    const int partition = static_cast<int>(random() % static_cast<uint64_t>(mix.partitions));
    if (heap_->Allocate(partition, SizeClassBytes(SizeClassFor(bytes)), Claim::kNewKey) == 0) break;
    items += bytes;
  }
  const double share = static_cast<double>(items) / static_cast<double>(mix.region_bytes);
  std::printf("%s: %.3f\n", mix.name, share);
  EXPECT_GE(share, mix.least);
}

INSTANTIATE_TEST_SUITE_P(Mixes, HeapFillTest,
                         testing::Values(Mix{"1,000 bytes, 128 MiB, 64 partitions", 128 * kMiB, 64, Thousand, 0.85},
                                         Mix{"to 4 KiB, 128 MiB, 64 partitions", 128 * kMiB, 64, Uniform4K, 0.85},
                                         Mix{"46 sizes, 64 MiB, 32 partitions", 64 * kMiB, 32, Sizes46, 0.80},
                                         Mix{"to 64 KiB, 128 MiB, 64 partitions", 128 * kMiB, 64, Log64K, 0.80},
                                         Mix{"to 64 KiB, 32 MiB, 16 partitions", 32 * kMiB, 16, Log64K, 0.70},
                                         Mix{"to 4 KiB, 4 GiB, 64 partitions", 4096 * kMiB, 64, Uniform4K, 0.90},
                                         Mix{"to 64 KiB, 4 GiB, 64 partitions", 4096 * kMiB, 64, Log64K, 0.90}));

}  // namespace
}  // namespace farlook::kv
