// The walk with writers that run between its READs, and within them: overwrites, splits, merges, growth, reused memory.
#include "kv/read/scan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/words.h"
#include "kv/read/lookup_testing.h"

namespace farlook::kv {
namespace {

using Found = std::multimap<std::string, std::string>;

class ScanTest : public LookupTest {
 protected:
  ScanTest() { Fill(); }

  // Keys that stay: some hundred everywhere, and so many in one bucket that it has an overflow bucket.
  void Fill() {
    Make(16 * kMiB);
    stay_.clear();
    for (const std::string& key : KeysInBucketOf("key", kSlotsPerBucket + 2, "full")) stay_.push_back(key);
    for (int i = 0; i < 300; ++i) stay_.push_back(absl::StrCat("stay", i));
    for (const std::string& key : stay_) ASSERT_EQ(Put(key, "one").code, Code::kOk);
    directory_ = std::make_unique<Directory>(memory_->span().size(), 4096);
    Pump(directory_->Load());
    reads_ = 0;
  }

  void Pump(Directory::Step step) {
    while (step == Directory::Step::kRead) {
      directory_->Posting(0);
      auto next = directory_->Feed(Fetch({directory_->wanted()}));
      ASSERT_TRUE(next.ok());
      step = *next;
    }
  }

  // Fetches the words in order; `before_read` runs before some word.
  absl::string_view Fetch(absl::Span<const Range> ranges) {
    const int read = reads_++;
    size_t words = 0;
    for (const Range& range : ranges) words += range.bytes / 8;
    const size_t at = at_word ? at_word(words) : 0;
    buffer_.resize(words);
    size_t n = 0;
    for (const Range& range : ranges) {
      for (size_t i = 0; i < range.bytes / 8; ++i, ++n) {
        if (n == at && before_read) before_read(read);
        buffer_[n] = LoadWord(memory_->span().data() + range.offset + 8 * i);
      }
    }
    return {reinterpret_cast<const char*>(buffer_.data()), 8 * words};
  }

  // Takes one step. Returns false if writers were too fast.
  bool TakeStep(const ScanPart& part, uint64_t most_bytes = 1 << 20) {
    const Hasher hasher(directory_->header().hash_seed);
    const ReaderContext context{&hasher, directory_.get(), memory_->span().size(), clock};
    Scan::Step step = scan_.Start(context, part, most_bytes, filter_);
    for (;;) {
      switch (step) {
        case Scan::Step::kRead:
          step = scan_.Feed(Fetch(scan_.wanted()).data(), is_late && is_late());
          break;
        case Scan::Step::kRefresh:
          Pump(directory_->RefreshAt(scan_.position(), scan_.stale_entry()));
          step = scan_.Resume();
          break;
        case Scan::Step::kDone:
          if (scan_.SameEntries()) return true;
          step = scan_.Resume();
          break;
        case Scan::Step::kOvertaken:
          return false;
      }
    }
  }

  // Sets `*part` to what follows the step.
  bool Advance(ScanPart* part) const {
    const ScanPart whole = *part;
    return whole.After(scan_.covered(), part) || whole.Following(part);
  }

  // Walks from `part` to the end, while `steps` run before the READs of these numbers.
  Found Walk(std::map<int, std::function<void()>> steps = {}, uint64_t most_bytes = 1 << 20, ScanPart part = {}) {
    before_read = [steps](int read) {
      if (const auto at = steps.find(read); at != steps.end()) at->second();
    };
    Found found;
    for (bool more = true; more;) {
      EXPECT_TRUE(TakeStep(part, most_bytes));
      for (const ScanItem& item : scan_.found().items) {
        found.emplace(scan_.found().KeyOf(item), filter_.values ? scan_.found().ValueOf(item) : "");
      }
      more = Advance(&part);
    }
    before_read = nullptr;
    return found;
  }

  // Returns how many of the keys that stay are missing, or have a value that they never had.
  size_t Wrong(const Found& found) {
    size_t wrong = 0;
    for (const std::string& key : stay_) {
      const auto [first, last] = found.equal_range(key);
      wrong += first == last;
      for (auto it = first; it != last; ++it) wrong += it->second != "one" && it->second != "two";
    }
    return wrong;
  }

  void Overwrite() {
    for (const std::string& key : stay_) ASSERT_EQ(Put(key, "two").code, Code::kOk);
    for (int i = 0; i < 50; ++i) Put(absl::StrCat("other", i), "x");  // in the memory of old items
  }
  void Split() { SplitSegmentOf("key", "s"); }
  // Undoes Split(), and many others that Grow() made.
  void Merge() {
    for (const std::string& key : KeysInBucketOf("key", 2 * kSlotsPerBucket + 1, "s")) {
      table_->Delete(table_->HashOf(key), key, Condition::kAlways, 0, now_);
    }
    for (int i = 0; i < kMany; ++i) {
      const std::string key = absl::StrCat("many", i);
      table_->Delete(table_->HashOf(key), key, Condition::kAlways, 0, now_);
    }
    for (int i = 0; i < 100; ++i) {
      PassQuarantine();
      table_->Tidy(0, now_);
    }
  }
  void Grow() {
    for (int i = 0; i < kMany; ++i) ASSERT_EQ(Put(absl::StrCat("many", i), "m").code, Code::kOk);
  }
  // Another segment's split takes the memory of those that were split before.
  void Reuse() {
    PassQuarantine();
    std::string far = "far0";
    for (int i = 1; PositionOf(table_->HashOf(far)) >> 61 == PositionOf(table_->HashOf("key")) >> 61; ++i) {
      far = absl::StrCat("far", i);
    }
    for (const std::string& key : KeysInBucketOf(far, 2 * kSlotsPerBucket + 1, "t")) Put(key, "filler");
  }

  static constexpr int kMany = 40'000;  // more than eight segments hold
  std::vector<std::string> stay_;
  std::unique_ptr<Directory> directory_;
  Scan scan_;
  ScanFilter filter_ = {.prefix = "", .values = true};
  ReaderClock* clock = nullptr;
  std::function<void(int)> before_read;
  std::function<size_t(size_t)> at_word;
  std::function<bool()> is_late;
  int reads_ = 0;
  std::vector<uint64_t> buffer_;
};

TEST_F(ScanTest, EachKeyIsFoundOnce) {
  const Found found = Walk();
  EXPECT_EQ(found.size(), stay_.size());
  EXPECT_EQ(Wrong(found), 0u);
  EXPECT_EQ(reads_, 8 * 3) << "each segment, its items, and the segment again";
}

TEST_F(ScanTest, SmallPartsFindTheSame) {
  Grow();
  EXPECT_EQ(Walk({}, 1).size(), stay_.size() + kMany);
  EXPECT_EQ(Walk({}, 4096), Walk());
}

TEST_F(ScanTest, PrefixAndKeysOnly) {
  filter_ = {.prefix = "stay1", .values = false};
  const Found found = Walk();
  EXPECT_EQ(found.size(), 1u + 10u + 100u);
  EXPECT_EQ(found.begin()->second, "");
  EXPECT_EQ(scan_.found().items.empty() ? 3u : scan_.found().items[0].value_bytes, 3u);
}

TEST_F(ScanTest, APartThatWasStoredGoesOnAfterSplitsAndMerges) {
  for (const bool grows : {true, false}) {
    Fill();
    if (!grows) {
      Grow();
      Pump(directory_->Load());
    }
    ScanPart part;
    Found found;
    for (int i = 0; i < 5 || part.bucket == 0; ++i) {
      ASSERT_TRUE(TakeStep(part, 512));
      for (const ScanItem& item : scan_.found().items) found.emplace(scan_.found().KeyOf(item), "one");
      ASSERT_TRUE(Advance(&part));
    }
    const uint64_t before = grows ? table_->stats().splits : table_->stats().merges;
    grows ? Grow() : Merge();
    EXPECT_GT(grows ? table_->stats().splits : table_->stats().merges, before);
    Pump(directory_->Load());
    found.merge(Walk({}, 4096, part));
    EXPECT_EQ(Wrong(found), 0u);
  }
}

// Each of these before each READ.
TEST_F(ScanTest, ChangesBeforeEachReadLoseNoKey) {
  const std::vector<std::vector<std::function<void()>>> changes = {
      {[this] { Overwrite(); }},
      {[this] { Split(); }},
      {[this] { Split(); }, [this] { Overwrite(); }},
      {[this] { Split(); }, [this] { Reuse(); }, [this] { Overwrite(); }},
      {[this] { Grow(); }, [this] { Overwrite(); }},
      {[this] { Grow(); }, [this] { Merge(); }, [this] { Overwrite(); }},
  };
  for (const bool grown : {false, true}) {
    for (size_t i = 0; i < changes.size(); ++i) {
      bool any = true;
      for (int read = 0; any; ++read) {
        Fill();
        if (grown) {
          if (i > 0 && i < 5) break;
          Grow();
          Pump(directory_->Load());
          reads_ = 0;
          if (i == 5) Merge();
        }
        any = false;
        const auto change = [&] {
          any = true;
          for (const auto& what : changes[i]) what();
        };
        EXPECT_EQ(Wrong(Walk({{read, change}}, 16 << 10)), 0u) << "change " << i << " before READ " << read;
        if (i >= 4 || grown) read += kSanitized ? 19 : 6;  // with growth there are many READs, and each run takes long
        if (kSanitized) read += 4;
      }
    }
  }
}

// A split before one READ, and a merge or an overwrite before a later one.
TEST_F(ScanTest, TwoChangesBeforeEachPairOfReadsLoseNoKey) {
  uint64_t merges = 0;
  for (int first = 0; first < 24; first += kSanitized ? 11 : 5) {
    for (int second = first + 1; second < first + 8; second += kSanitized ? 3 : 2) {
      for (const bool overwrite : {false, true}) {
        Fill();
        const auto split = [&] {
          Grow();
          Overwrite();
        };
        const auto then = [&] { overwrite ? Overwrite() : Merge(); };
        EXPECT_EQ(Wrong(Walk({{first, split}, {second, then}})), 0u) << first << ", " << second << ", " << overwrite;
        merges += table_->stats().merges;
      }
    }
  }
  EXPECT_GT(merges, 10u);
}

// Writers within READs, at random words.
TEST_F(ScanTest, ChangesWithinReadsLoseNoKey) {
  std::mt19937 random;
  for (uint32_t seed = 1; seed <= (kSanitized ? 2u : 8u); ++seed) {
    at_word = nullptr;
    Fill();
    random.seed(seed);
    at_word = [&random](size_t words) { return random() % words; };
    std::map<int, std::function<void()>> steps;
    for (int read = 0; read < 60; ++read) {
      const uint32_t what = random() % 12;
      if (what == 0) steps[read] = [this] { Grow(); };
      if (what == 1) steps[read] = [this] { Merge(); };
      if (what == 2) steps[read] = [this] { Overwrite(); };
      if (what == 3) steps[read] = [this] { Reuse(); };
    }
    EXPECT_EQ(Wrong(Walk(steps, 8 << 10)), 0u) << "seed " << seed;
  }
  at_word = nullptr;
}

// The key's slot leads to an item of another key with its fingerprint and bucket, which took the old item's memory.
TEST_F(ScanTest, AnItemOfAnotherKeyIsNotTakenForTheSlotsKey) {
  Make(16 * kMiB);
  const std::string other = KeysWithFingerprintOfKey(1)[0];
  const Slot slot = Put("key", "one").slot;
  stay_ = {"key"};
  Pump(directory_->Load());
  const auto replace = [&] {
    Put("key", "two");
    ASSERT_EQ(Put(other, "x").slot.offset(), slot.offset());
  };
  ScanPart part;  // the segment of both keys
  part.first = PositionOf(table_->HashOf("key")) >> 61 << 61;
  reads_ = 0;
  before_read = [&](int read) {
    if (read == 1) replace();
  };
  ASSERT_TRUE(TakeStep(part));
  before_read = nullptr;
  bool found = false;
  for (const ScanItem& item : scan_.found().items) found |= scan_.found().KeyOf(item) == "key";
  EXPECT_TRUE(found);
}

// Another user of the directory refreshed it, and the segment's old memory looks as if the segment were empty.
TEST_F(ScanTest, ASegmentIsNotBelievedIfItsEntryHasChanged) {
  const std::string key = stay_[0];
  ScanPart part;
  part.first = PositionOf(table_->HashOf(key));
  const DirectoryEntry old = directory_->At(directory_->IndexOf(part.first));
  const Hasher hasher(directory_->header().hash_seed);
  const ReaderContext context{&hasher, directory_.get(), memory_->span().size(), clock};
  Scan::Step step = scan_.Start(context, part, 1 << 20, filter_);
  Split();
  Pump(directory_->Load());
  for (uint32_t number = 0; number < kBuckets; ++number) {
    char* const bucket = memory_->span().data() + old.offset() + number * kBucketBytes;
    for (size_t i = 1; i < kWordsPerBucket; ++i) StoreWord(bucket + 8 * i, 0);
    StoreWord(bucket, BucketInfo(old.segment_id(), number, 0).word());
  }
  ASSERT_EQ(step, Scan::Step::kRead);
  step = scan_.Feed(Fetch(scan_.wanted()).data(), /*late=*/false);
  EXPECT_EQ(step, Scan::Step::kDone);
  EXPECT_TRUE(scan_.found().items.empty());
  EXPECT_FALSE(scan_.SameEntries());
  for (step = scan_.Resume(); step == Scan::Step::kRead;) step = scan_.Feed(Fetch(scan_.wanted()).data(), false);
  ASSERT_EQ(step, Scan::Step::kDone);
  EXPECT_TRUE(scan_.SameEntries());
  std::set<std::string> found;
  for (const ScanItem& item : scan_.found().items) found.emplace(scan_.found().KeyOf(item));
  EXPECT_EQ(found.count(key), 1u);
}

TEST_F(ScanTest, DeletedKeysAreNotFound) {
  Delete("stay7");
  EXPECT_EQ(Walk().count("stay7"), 0u);
  EXPECT_EQ(Walk({{reads_ + 1,
                   [this] {
                     for (int i = 0; i < 300; ++i) {
                       if (i != 7) Delete(absl::StrCat("stay", i));
                     }
                   }}})
                .size(),
            kSlotsPerBucket + 2);
}

TEST_F(ScanTest, AKeyThatIsStoredAllTheTimeIsFound) {
  std::map<int, std::function<void()>> steps;
  for (int read = 0; read < 500; read += 3) {
    steps[read] = [this] {
      for (const std::string& key : stay_) Put(key, "two");
    };
  }
  EXPECT_EQ(Wrong(Walk(steps)), 0u);
  EXPECT_LT(reads_, 500);
}

TEST_F(ScanTest, AWriterThatStoppedHalfwayIsReported) {
  const WriteResult put = Put("stay3", "two");
  char* version = At(put.slot.offset() + kVersionOffset);
  StoreWord(version, put.version | kDeadBit);
  ScanPart part;
  part.first = part.last = PositionOf(table_->HashOf("stay3"));
  EXPECT_FALSE(TakeStep(part));
  EXPECT_EQ(scan_.looks(), Scan::kMaxLooks + 1);
  StoreWord(version, put.version);
  EXPECT_TRUE(TakeStep(part));
}

TEST_F(ScanTest, ALateReadIsNotBelieved) {
  int late = 3;
  is_late = [&late] { return late-- > 0; };
  EXPECT_EQ(Wrong(Walk()), 0u);
  is_late = [] { return true; };
  EXPECT_FALSE(TakeStep({}));
}

TEST_F(ScanTest, ExpiredItemsAreLeftOutUnlessTheyWereTouched) {
  clock = &clock_;
  const uint64_t soon_ms = clock_.now_us / 1000 + 10;
  const uint64_t hash = table_->HashOf("brief");
  PutParams params;
  params.expiry_ms = soon_ms;
  ASSERT_EQ(table_->Put(hash, "brief", "one", params, now_).code, Code::kOk);
  EXPECT_EQ(Walk().count("brief"), 1u);
  ScanPart part;
  part.first = part.last = PositionOf(hash);
  clock_.now_us = soon_ms * 1000 + 1;
  ASSERT_TRUE(TakeStep(part));
  EXPECT_EQ(scan_.found().items.size(), 0u);
  // Not certain: it may exist.
  clock_.error_us = 100;
  ASSERT_TRUE(TakeStep(part));
  EXPECT_EQ(scan_.found().items.size(), 1u);
  // Touched between the READ and the look at the clock.
  clock_.error_us = 0;
  clock_.now_us = soon_ms * 1000 - 500;
  reads_ = 0;
  before_read = [&](int read) {
    if (read != 2) return;
    EXPECT_EQ(table_->Touch(hash, "brief", soon_ms + 1000, now_).code, Code::kOk);
  };
  ASSERT_TRUE(TakeStep(part));
  before_read = nullptr;
  EXPECT_EQ(scan_.found().items.size(), 1u);
}

// Bytes of any kind end the step, and are never followed out of the region.
TEST_F(ScanTest, NoiseIsNotFollowed) {
  std::mt19937_64 random(5);
  for (int round = 0; round < (kSanitized ? 10 : 50); ++round) {
    Fill();
    const DirectoryEntry entry = EntryOf("key");
    for (int i = 0; i < 400; ++i) {
      const uint64_t place = random() % kSegmentWords;
      if (place % kWordsPerBucket != 0) StoreWord(At(entry.offset() + 8 * place), random());
    }
    ScanPart part;
    part.first = part.last = PositionOf(table_->HashOf("key"));
    TakeStep(part);
  }
}

}  // namespace
}  // namespace farlook::kv
