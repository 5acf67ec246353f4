// The reader of memory whose owner is broken or malicious.
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/read/lookup_testing.h"

namespace farlook::kv {
namespace {

using Step = Lookup::Step;

class NoiseTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 16 * kMiB;

  NoiseTest() : memory_(kBytes), hasher_(42), directory_(kBytes, 4096) {
    RegionHeader header = RegionHeader::For(kBytes, 1);
    header.incarnation = 7;
    header.hash_seed = 42;
    header.level = 6;
    WriteRegionHeader(region(), header);
  }
  char* region() { return memory_.span().data(); }

  void LoadDirectory() {
    Directory::Step step = directory_.Load();
    while (step == Directory::Step::kRead) step = *directory_.Feed(Fetch(directory_.wanted()));
  }

  absl::string_view Fetch(const Range& range) {
    EXPECT_GT(range.bytes, 0u);
    EXPECT_LE(range.bytes, kBytes);
    EXPECT_LE(range.offset, kBytes - range.bytes);
    return {region() + range.offset, range.bytes};
  }

  // Runs one lookup to its end; its fetches must stay inside and be few.
  Step Run(absl::string_view key, Slot cached = Slot()) {
    const ReaderContext context{&hasher_, &directory_, kBytes};
    Step step = lookup_.Start(context, key, hasher_(key), cached);
    int refreshes = 0;
    fetches_ = 0;
    while (true) {
      switch (step) {
        case Step::kRead:
          ++fetches_;
          step = lookup_.Feed(Fetch(lookup_.wanted()), false);
          break;
        case Step::kRefresh: {
          ++refreshes;
          Directory::Step next = directory_.Refresh(lookup_.hash(), lookup_.stale_entry());
          for (int i = 0; next == Directory::Step::kRead && i < 100; ++i) {
            next = *directory_.Feed(Fetch(directory_.wanted()));
          }
          EXPECT_EQ(next, Directory::Step::kDone);
          step = lookup_.Resume();
          break;
        }
        default:
          EXPECT_LE(refreshes, Lookup::kMaxRounds);
          EXPECT_LE(fetches_, 1 + Lookup::kMaxRounds * 2 * static_cast<int>(kWordsPerBucket));
          return step;
      }
    }
  }

  TestMemory memory_;
  const Hasher hasher_;
  Directory directory_;
  Lookup lookup_;
  int fetches_ = 0;
};

TEST_F(NoiseTest, RandomBytesAreNeverAnAnswerAndNeverEndless) {
  std::mt19937_64 random(1);
  for (uint64_t at = kDirectoryOffset; at < kBytes; at += 8) StoreWord(region() + at, random());
  LoadDirectory();
  for (int i = 0; i < 10'000 * kRounds; ++i) {
    const Step step = Run(absl::StrCat("key", i), Slot(random()));
    ASSERT_EQ(step, Step::kAskServer);
    ASSERT_FALSE(HasFailure()) << i;
  }
}

// Noise that gets further: descriptions and directory entries that look right, slots that match.
TEST_F(NoiseTest, NoiseBehindRightDescriptions) {
  std::mt19937_64 random(2);
  for (uint64_t at = kDirectoryOffset; at < kBytes; at += 8) StoreWord(region() + at, random());
  const uint64_t segments = kBytes / kSegmentBytes;
  std::vector<uint32_t> ids(segments);
  for (uint64_t s = 1; s < segments; ++s) {
    for (uint32_t b = 0; b < kBuckets; ++b) {
      char* bucket = region() + s * kSegmentBytes + b * kBucketBytes;
      StoreWord(bucket, BucketInfo(static_cast<uint32_t>(s), b, random() % 2 ? random() % 32 : 0).word());
    }
  }
  RegionHeader header;
  for (uint64_t i = 0; i < 64; ++i) {
    const uint64_t s = 1 + random() % (segments - 1);
    const DirectoryEntry entry(static_cast<uint32_t>(s), s * kSegmentBytes);
    StoreWord(region() + header.DirectoryArray(6) + 8 * i, i % 8 == 0 ? random() : entry.word());
  }
  LoadDirectory();
  std::map<Step, int> count;
  for (int i = 0; i < 50'000 * kRounds; ++i) {
    // A fingerprint that matches, in some slots, with or without an offset inside the region.
    const std::string key = absl::StrCat("key", i);
    const uint64_t hash = hasher_(key);
    const DirectoryEntry entry = directory_.Find(hash);
    if (entry.ValidIn(kBytes) && i % 4 != 0) {
      char* slots = region() + entry.offset() + BucketOf(hash) * kBucketBytes;
      for (uint64_t n = random() % 16; n > 0; --n) {
        const uint64_t place = random() % 8 == 0 ? random() : (random() % 380) << 39 | random() % (kBytes / 32);
        StoreWord(slots + 8 * n, uint64_t{FingerprintOf(hash)} << 48 | (place & ~0ull >> 16));
      }
    }
    ++count[Run(key, Slot(random() % 4 == 0 ? random() : 0))];
    ASSERT_FALSE(HasFailure()) << i;
  }
  EXPECT_EQ(count[Step::kFound], 0);
  EXPECT_GT(count[Step::kNotFound], 50 * kRounds) << "no slot matched";
  EXPECT_GT(count[Step::kAskServer], 50 * kRounds);
}

TEST_F(NoiseTest, AnEmptyRegionIsAskedAboutAndNotBelieved) {
  LoadDirectory();
  EXPECT_EQ(Run("key"), Step::kAskServer) << "zeros are no directory entry";
}

TEST_F(NoiseTest, HostileEntriesLinksAndSlots) {
  const uint64_t hash = hasher_("key");
  const uint64_t last = kBytes - kSegmentBytes;
  RegionHeader header;
  const auto entry = [&](uint64_t word) {
    for (uint64_t i = 0; i < 64; ++i) StoreWord(region() + header.DirectoryArray(6) + 8 * i, word);
    LoadDirectory();
  };
  for (const uint64_t word : {uint64_t{0}, ~uint64_t{0}, DirectoryEntry(1, kBytes).word(),
                              DirectoryEntry(1, last + kBucketBytes).word(), DirectoryEntry(0, last).word()}) {
    entry(word);
    EXPECT_EQ(Run("key"), Step::kAskServer) << word;
    EXPECT_EQ(fetches_, 0);
  }
  // A segment at the region's end, so that a bucket beyond it is outside.
  entry(DirectoryEntry(1, last).word());
  char* bucket = region() + last + BucketOf(hash) * kBucketBytes;
  for (uint32_t link = 0; link < 32; ++link) {
    StoreWord(bucket, BucketInfo(1, BucketOf(hash), link).word());
    EXPECT_EQ(Run("key"), link == 0 ? Step::kNotFound : Step::kAskServer) << link;
  }
  // A bucket with the description of another, or none.
  for (const uint64_t word : {BucketInfo(1, BucketOf(hash) ^ 1, 0).word(), BucketInfo(2, BucketOf(hash), 0).word(),
                              uint64_t{0}, BucketInfo(1, BucketOf(hash), 0).word() | uint64_t{1} << 32}) {
    StoreWord(bucket, word);
    EXPECT_EQ(Run("key"), Step::kAskServer) << word;
  }
  // An overflow bucket with a link: the reader does not follow it.
  StoreWord(bucket, BucketInfo(1, BucketOf(hash), 1).word());
  StoreWord(region() + last + LinkedBucket(1) * kBucketBytes, BucketInfo(1, LinkedBucket(1), 31).word());
  EXPECT_EQ(Run("key"), Step::kNotFound);
  EXPECT_EQ(fetches_, 2);
  // Slots that match and lead outside, or use the reserved bits.
  StoreWord(bucket, BucketInfo(1, BucketOf(hash), 0).word());
  const uint16_t fingerprint = FingerprintOf(hash);
  for (const Slot slot : {Slot(fingerprint, 0, kBytes), Slot(fingerprint, 1, kBytes - 32),
                          Slot(fingerprint, kSizeClasses - 1, kMiB), Slot(fingerprint, kSizeClasses, kMiB),
                          Slot(fingerprint, 0, 0), Slot(Slot(fingerprint, 0, kMiB).word() | 1ull << 36)}) {
    StoreWord(bucket + 8, slot.word());
    EXPECT_EQ(Run("key"), Step::kAskServer) << slot.word();
  }
}

TEST_F(NoiseTest, BytesOfAnotherLengthThanWantedAreNotLookedAt) {
  RegionHeader header;
  for (uint64_t i = 0; i < 64; ++i) {
    StoreWord(region() + header.DirectoryArray(6) + 8 * i, DirectoryEntry(1, kMiB).word());
  }
  LoadDirectory();
  const ReaderContext context{&hasher_, &directory_, kBytes};
  ASSERT_EQ(lookup_.Start(context, "key", hasher_("key"), Slot(1, 0, 32)), Step::kRead);
  EXPECT_EQ(lookup_.Feed("short", false), Step::kRead);
  // A bucket that would be accepted if it were complete.
  std::string bucket(kBucketBytes, '\0');
  StoreAs(bucket.data(), BucketInfo(1, BucketOf(hasher_("key")), 0).word());
  EXPECT_EQ(lookup_.Feed(absl::string_view(bucket).substr(0, kBucketBytes - 8), false), Step::kRead);
  EXPECT_EQ(lookup_.Feed(bucket + "12345678", false), Step::kRead);
  EXPECT_EQ(lookup_.Feed(bucket, false), Step::kNotFound);
  ASSERT_EQ(lookup_.Start(context, "key", hasher_("key")), Step::kRead);
  int steps = 0;
  while (lookup_.Feed("short", false) == Step::kRead) ASSERT_LT(++steps, 100);
}

}  // namespace
}  // namespace farlook::kv
