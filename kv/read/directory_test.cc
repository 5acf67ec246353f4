#include "kv/read/directory.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kv/index/shared_directory.h"
#include "kv/layout/test_region.h"

namespace farlook::kv {
namespace {

using Step = Directory::Step;

constexpr uint64_t kBytes = 64 << 20;

RegionHeader Header(uint64_t incarnation, int level) {
  RegionHeader header = RegionHeader::For(kBytes, 1);
  header.incarnation = incarnation;
  header.hash_seed = 42;
  header.level = level;
  return header;
}

class DirectoryTest : public testing::Test {
 protected:
  void Make(int level, uint32_t max_read_bytes = 4096) {
    WriteRegionHeader(region(), Header(1, level));
    shared_.emplace(region(), Header(1, level));
    for (uint64_t i = 0; i < uint64_t{1} << level; ++i) Publish(i << (64 - level), level);
    directory_.emplace(kBytes, max_read_bytes);
  }

  char* region() { return memory_.span().data(); }

  DirectoryEntry Publish(uint64_t position, int depth) {
    const uint32_t id = shared_->NextSegmentId();
    const DirectoryEntry entry(id, kPageBytes + uint64_t{id} % 512 * kSegmentBytes);
    while (!shared_->MakeLevel(depth)) {
    }
    shared_->Publish(position, depth, entry);
    return entry;
  }

  // Feeds until done; reads_ holds the ranges that were READ.
  absl::Status Run(Step step) {
    reads_.clear();
    while (step == Step::kRead) {
      EXPECT_TRUE(directory_->busy());
      const Range range = directory_->wanted();
      reads_.push_back(range);
      auto next = directory_->Feed({region() + range.offset, range.bytes});
      if (!next.ok()) return next.status();
      step = *next;
    }
    EXPECT_FALSE(directory_->busy());
    return absl::OkStatus();
  }

  // A hash near the middle of the positions whose top bits are `index`.
  static uint64_t HashAt(uint64_t index, int level) {
    uint64_t low = 0, high = ~0ull;
    const uint64_t position = (2 * index + 1) << (63 - level);
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      PositionOf(middle) < position ? low = middle + 1 : high = middle;
    }
    return low;
  }

  TestMemory memory_{kBytes};
  std::optional<SharedDirectory> shared_;
  std::optional<Directory> directory_;
  std::vector<Range> reads_;
};

TEST_F(DirectoryTest, LoadsInPiecesOfTheAgreedSize) {
  Make(8, 520);
  EXPECT_FALSE(directory_->loaded());
  ASSERT_TRUE(Run(directory_->Load()).ok());
  ASSERT_TRUE(directory_->loaded());
  // The header, then 2048 bytes in pieces of 520.
  ASSERT_EQ(reads_.size(), 5u);
  EXPECT_EQ(reads_[0].offset, 0u);
  EXPECT_EQ(reads_[0].bytes, kRegionHeaderBytes);
  uint64_t at = kDirectoryOffset + 8 * 256;
  for (size_t i = 1; i < reads_.size(); ++i) {
    EXPECT_EQ(reads_[i].offset, at);
    at += reads_[i].bytes;
  }
  EXPECT_EQ(at, kDirectoryOffset + 16 * 256);
  EXPECT_EQ(directory_->memory_bytes(), 2048u);
  for (uint64_t i = 0; i < 256; ++i) {
    EXPECT_EQ(directory_->Find(HashAt(i, 8)), shared_->Find(PositionOf(HashAt(i, 8))));
    EXPECT_EQ(directory_->Find(HashAt(i, 8)).segment_id(), i + 1);
  }
}

TEST_F(DirectoryTest, ARefreshFetchesOneEntry) {
  Make(4);
  ASSERT_TRUE(Run(directory_->Load()).ok());
  const uint64_t hash = HashAt(5, 4);
  const DirectoryEntry seen = directory_->Find(hash);
  const DirectoryEntry now = Publish(5ull << 60, 4);
  ASSERT_TRUE(Run(directory_->Refresh(hash, seen)).ok());
  ASSERT_EQ(reads_.size(), 1u);
  EXPECT_EQ(reads_[0].offset, kDirectoryOffset + 8 * 16 + 8 * 5);
  EXPECT_EQ(reads_[0].bytes, 8u);
  EXPECT_EQ(directory_->Find(hash), now);
  EXPECT_EQ(directory_->Find(HashAt(4, 4)).segment_id(), 5u) << "its neighbour stays";
  // Another lookup that saw the same old entry: the new one is already known.
  EXPECT_EQ(directory_->Refresh(hash, seen), Step::kDone);
  EXPECT_FALSE(directory_->busy());
}

TEST_F(DirectoryTest, WhereTheEntryIsUnchangedTheDirectoryHasGrown) {
  Make(3);
  ASSERT_TRUE(Run(directory_->Load()).ok());
  const uint64_t hash = HashAt(6, 4);
  const DirectoryEntry seen = directory_->Find(hash);
  const DirectoryEntry low = Publish(6ull << 60, 4), high = Publish(7ull << 60, 4);
  ASSERT_TRUE(Run(directory_->Refresh(hash, seen)).ok());
  ASSERT_EQ(reads_.size(), 3u) << "entry, header, array";
  EXPECT_EQ(directory_->header().level, 4);
  EXPECT_EQ(directory_->Find(hash), low);
  EXPECT_EQ(directory_->Find(HashAt(7, 4)), high);
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(directory_->Find(HashAt(i, 4)).segment_id(), i / 2 + 1);
}

TEST_F(DirectoryTest, ARefreshBeforeTheFirstLoadLoads) {
  Make(3);
  ASSERT_TRUE(Run(directory_->Refresh(0, DirectoryEntry())).ok());
  EXPECT_TRUE(directory_->loaded());
}

TEST_F(DirectoryTest, AnotherIncarnationIsAnErrorAndWhatWasKnownStays) {
  Make(3);
  ASSERT_TRUE(Run(directory_->Load()).ok());
  const uint64_t hash = HashAt(2, 3);
  const DirectoryEntry seen = directory_->Find(hash);
  WriteRegionHeader(region(), Header(2, 3));
  const absl::Status status = Run(directory_->Refresh(hash, seen));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_FALSE(directory_->busy());
  EXPECT_EQ(directory_->header().incarnation, 1u);
  EXPECT_EQ(directory_->Find(hash), seen);
}

TEST_F(DirectoryTest, NoRegionIsAnErrorWithTheHeadersReason) {
  Make(3);
  StoreWord(region(), 0);
  EXPECT_EQ(Run(directory_->Load()).message(), "the server's memory is not a Farlook region");
  EXPECT_FALSE(directory_->loaded());
}

TEST_F(DirectoryTest, WrongLengthsAndUnwantedBytesAreErrors) {
  Make(3);
  directory_->Load();
  EXPECT_EQ(directory_->Feed("short").status().code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(directory_->busy());
  const std::string header(kRegionHeaderBytes, '\0');
  EXPECT_EQ(directory_->Feed(header).status().code(), absl::StatusCode::kInternal);
}

TEST_F(DirectoryTest, AnAbandonedRefreshCanBeginAgain) {
  Make(8, 64);
  ASSERT_TRUE(Run(directory_->Load()).ok());
  const uint64_t hash = HashAt(17, 8);
  const DirectoryEntry seen = directory_->Find(hash);
  directory_->Load();
  ASSERT_TRUE(directory_->Feed({region(), kRegionHeaderBytes}).ok());
  ASSERT_TRUE(directory_->Feed({region() + directory_->wanted().offset, 64}).ok());
  directory_->Abandon();
  EXPECT_FALSE(directory_->busy());
  EXPECT_EQ(directory_->Find(hash), seen) << "the half that came is not used";
  const DirectoryEntry now = Publish(17ull << 56, 8);
  ASSERT_TRUE(Run(directory_->Refresh(hash, seen)).ok());
  EXPECT_EQ(directory_->Find(hash), now);
}

// A directory is never copied as a whole under a partition's lock. Entries published meanwhile are in both arrays, or
// will be copied.
TEST(SharedDirectoryTest, GrowsInSteps) {
  constexpr uint64_t kLargeBytes = uint64_t{1} << 30;
  constexpr int kLevel = 14;
  constexpr uint64_t kEntries = uint64_t{1} << kLevel, kMostWords = 2048;
  TestMemory memory(kLargeBytes);
  RegionHeader header = RegionHeader::For(kLargeBytes, 1);
  header.incarnation = 1;
  header.level = kLevel;
  WriteRegionHeader(memory.span().data(), header);
  SharedDirectory directory(memory.span().data(), header);
  std::vector<DirectoryEntry> entries(kEntries);
  uint64_t offset = kPageBytes;
  const auto publish = [&](uint64_t index) {
    entries[index] = DirectoryEntry(directory.NextSegmentId(), offset += kSegmentBytes);
    directory.Publish(index << (64 - kLevel), kLevel, entries[index]);
  };
  for (uint64_t i = 0; i < kEntries; ++i) publish(i);

  const char* const next = memory.span().data() + header.DirectoryArray(kLevel + 1);
  const auto words = [&] {
    return std::vector<uint64_t>(reinterpret_cast<const uint64_t*>(next),
                                 reinterpret_cast<const uint64_t*>(next) + 2 * kEntries);
  };
  std::vector<uint64_t> before = words();
  uint64_t calls = 0;
  for (bool made = false; !made; ++calls) {
    made = directory.MakeLevel(kLevel + 1);
    const std::vector<uint64_t> after = words();
    uint64_t changed = 0;
    for (uint64_t i = 0; i < 2 * kEntries; ++i) changed += before[i] != after[i];
    ASSERT_LE(changed, kMostWords);
    ASSERT_EQ(directory.level(), made ? kLevel + 1 : kLevel);
    if (!made) {  // one that was copied, and one that was not
      publish(calls);
      publish(kEntries - 1 - calls);
    }
    before = words();
  }
  EXPECT_EQ(calls, 2 * kEntries / kMostWords);
  for (uint64_t i = 0; i < 2 * kEntries; ++i) {
    ASSERT_EQ(directory.Find(i << (63 - kLevel)), entries[i / 2]) << i;
  }
  // Copying starts again for the next level.
  ASSERT_FALSE(directory.MakeLevel(kLevel + 2));
  entries[0] = DirectoryEntry(directory.NextSegmentId(), kPageBytes);
  directory.Publish(0, kLevel, entries[0]);
  EXPECT_EQ(directory.Find(uint64_t{1} << (63 - kLevel)), entries[0]) << "two entries of this level";
  while (!directory.MakeLevel(kLevel + 2)) {
  }
  for (uint64_t i = 0; i < 4 * kEntries; ++i) {
    ASSERT_EQ(directory.Find(i << (62 - kLevel)), entries[i / 4]) << i;
  }
}

}  // namespace
}  // namespace farlook::kv
