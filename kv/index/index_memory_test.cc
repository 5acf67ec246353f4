// The index returns memory: segments merge, whole units leave, and readers that know old places are not misled.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/heap/heap.h"
#include "kv/index/segment_pool.h"
#include "kv/index/shared_directory.h"
#include "kv/layout/limits.h"
#include "kv/layout/region.h"
#include "kv/layout/segment.h"
#include "kv/layout/words.h"
#include "kv/table/table.h"
#include "kv/table/table_testing.h"
#include "kv/wire/message.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMillisecond;

class IndexMemoryTest : public TableFixture {
 protected:
  Code Put(absl::string_view key, absl::string_view value = "") {
    now_ += 1'000;
    return table_->Put(table_->HashOf(key), key, value, Condition::kAlways, 0, now_).code;
  }
  Code Delete(absl::string_view key) {
    now_ += 1'000;
    return table_->Delete(table_->HashOf(key), key, Condition::kAlways, 0, now_).code;
  }
  // Does what a server does without writes. Expect: it has an end.
  void Settle() {
    for (int step = 0; step < 20'000; ++step) {
      now_ += kMillisecond;
      bool more = false;
      for (int i = 0; i < table_->partitions(); ++i) more |= table_->Tidy(i, now_) != TidyResult::kNothing;
      if (!more) return;
    }
    ADD_FAILURE() << "there is always more to tidy";
  }
  std::string Name(uint64_t i) const { return absl::StrCat("key", i); }

  int64_t now_ = kSecond;
};

TEST_F(IndexMemoryTest, WhatGrowthTookComesBackWhenKeysAreDeleted) {
  for (const int partitions : {1, 8}) {
    Make(64 * kMiB, partitions);
    const TableStats empty = table_->stats();
    std::mt19937_64 random(3);
    for (int round = 0; round < (kSanitized ? 1 : 3); ++round) {
      std::vector<uint64_t> keys(150'000);
      for (uint64_t i = 0; i < keys.size(); ++i) keys[i] = i;
      std::shuffle(keys.begin(), keys.end(), random);
      for (const uint64_t key : keys) ASSERT_EQ(Put(Name(key)), Code::kOk);
      EXPECT_GT(table_->stats().segments, 60u);
      std::shuffle(keys.begin(), keys.end(), random);
      for (uint64_t i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(Delete(Name(keys[i])), Code::kOk);
        // Expect: it follows the keys all the time: some 100 bytes a key at worst.
        if (i % 10'000 == 0) {
          const TableStats stats = table_->stats();
          EXPECT_LT(stats.segments * kSegmentBytes, stats.keys * 100 + (4 + empty.segments) * kSegmentBytes);
        }
      }
      Settle();
      const TableStats stats = table_->stats();
      EXPECT_EQ(stats.segments, empty.segments);
      EXPECT_LE(stats.index_bytes, empty.index_bytes + kIndexUnitBytes + (8u << stats.level));
      EXPECT_GE(stats.free_bytes + kIndexUnitBytes, empty.free_bytes);
    }
    std::printf("%d partitions: %lu splits, %lu merges, %lu moves\n", partitions, table_->stats().splits,
                table_->stats().merges, table_->stats().segment_moves);
  }
}

// Thousands of keys are put and deleted while their number stays the same: the index neither grows nor shrinks.
TEST_F(IndexMemoryTest, ChurnNeitherSplitsNorMerges) {
  Make(64 * kMiB);
  std::mt19937_64 random(4);
  for (const uint64_t keys : {20'000, 40'000, 60'000}) {
    for (uint64_t i = 0; i < keys; ++i) Put(Name(i));
    for (uint64_t i = keys; i-- > keys * 3 / 4;) Delete(Name(i));
    Settle();
    const TableStats before = table_->stats();
    uint64_t next = keys, deletes = 0;
    for (int i = 0; i < (kSanitized ? 50'000 : 200'000); ++i) {
      if (deletes < 500 && random() % 2 == 0) {
        Put(Name(next++));
        ++deletes;
      } else if (deletes > 0) {
        Delete(Name(next - deletes--));
      }
    }
    const TableStats after = table_->stats();
    EXPECT_LE(after.splits - before.splits + after.merges - before.merges, 10u);
  }
}

// Random operations compared with std::map through many splits and merges, with readers whose directories are as old as
// possible.
TEST_F(IndexMemoryTest, NothingIsLostThroughMergesAndMoves) {
  for (const int partitions : {1, 4}) {
    Make(64 * kMiB, partitions);
    std::mt19937_64 random(static_cast<uint64_t>(partitions));
    std::map<std::string, std::string> model;
    std::vector<std::unique_ptr<TestReader>> readers;
    const auto check = [&](const std::string& key) {
      const auto at = model.find(key);
      for (const auto& reader : readers) {
        ASSERT_EQ(reader->Get(key), at == model.end() ? std::nullopt : std::optional<std::string>(at->second)) << key;
      }
    };
    for (int wave = 0; wave < (kSanitized ? 2 : 6); ++wave) {
      readers.push_back(std::make_unique<TestReader>(memory_->span()));
      readers.back()->now_ns = [this] { return now_; };
      for (int i = 0; i < (kSanitized ? 45'000 : 60'000); ++i) {
        const std::string key = Name(random() % 40'000);
        if (random() % 8 < (wave % 2 == 0 ? 7 : 1)) {
          const std::string value = absl::StrCat(i);
          ASSERT_EQ(Put(key, value), Code::kOk);
          model[key] = value;
        } else {
          ASSERT_EQ(Delete(key), model.erase(key) ? Code::kOk : Code::kNotFound);
        }
        now_ += 20'000;
        if (i % 50 == 0) check(Name(random() % 40'000));
      }
      if (wave % 2 == 1) {
        for (auto at = model.begin(); at != model.end();) {
          if (random() % 16 != 0) {
            ASSERT_EQ(Delete(at->first), Code::kOk);
            at = model.erase(at);
          } else {
            ++at;
          }
        }
        Settle();
      }
      for (int i = 0; i < 40'000; i += 7) check(Name(static_cast<uint64_t>(i)));
    }
    const TableStats stats = table_->stats();
    EXPECT_EQ(stats.keys, model.size());
    EXPECT_GT(stats.merges, kSanitized ? 1u : 10u);
    EXPECT_GT(readers[0]->confirmations(), 0u);
    for (const auto& reader : readers) EXPECT_EQ(reader->gave_up(), 0u);
  }
}

// The halves that a segment has recorded belong to the keys that are there now, even if it had more and other keys
// before.
TEST_F(IndexMemoryTest, WhatIsPreparedForASplitIsOfTheKeysThatAreThere) {
  Make(64 * kMiB);
  for (uint64_t i = 0; i < 15'000; ++i) ASSERT_EQ(Put(Name(i)), Code::kOk);
  ASSERT_EQ(table_->stats().splits, 0u);
  for (uint64_t i = 0; i < 9'000; ++i) ASSERT_EQ(Delete(Name(i)), Code::kOk);
  for (uint64_t i = 15'000; i < 60'000; ++i) ASSERT_EQ(Put(Name(i)), Code::kOk);
  EXPECT_GT(table_->stats().splits, 8u);
  TestReader reader(memory_->span());
  for (uint64_t i = 9'000; i < 60'000; ++i) {
    ItemView item;
    ASSERT_EQ(table_->Get(table_->HashOf(Name(i)), Name(i), &item).code, Code::kOk) << i;
    ASSERT_EQ(reader.Get(Name(i)), "") << i;
  }
}

// The same with readers on other threads, and their clock.
TEST_F(IndexMemoryTest, ReadersGoOnWhileTheIndexGrowsAndShrinks) {
  Make(64 * kMiB);
  const auto clock = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  constexpr uint64_t kKeys = kSanitized ? 30'000 : 60'000, kStep = 61;  // every kStep-th key stays
  for (uint64_t i = 0; i < kKeys; i += kStep) ASSERT_EQ(Put(Name(i), Name(i)), Code::kOk);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> lookups{0}, wrong{0};
  std::vector<std::thread> readers;
  for (uint64_t n = 0; n < 2; ++n) {
    readers.emplace_back([&, n] {
      std::mt19937_64 random(n);
      TestReader reader(memory_->span());
      reader.now_ns = clock;
      reader.backwards = n == 1;
      int64_t began = 0;
      reader.before_fetch = [&](const Range&) { began = clock(); };
      reader.is_late = [&](const Range&) { return clock() - began > kMaxBucketReadNs; };
      while (!done.load(std::memory_order_acquire)) {
        const std::string key = Name(random() % (kKeys / kStep) * kStep);
        const uint64_t gave_up = reader.gave_up();
        const std::optional<std::string> value = reader.Get(key);
        wrong.fetch_add(reader.gave_up() == gave_up && value != key, std::memory_order_relaxed);
        lookups.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (int wave = 0; wave < 3; ++wave) {
    for (const bool grows : {true, false}) {
      for (uint64_t i = 0; i < kKeys; ++i) {
        const std::string key = Name(i);
        const uint64_t hash = table_->HashOf(key);
        const Code code = grows || i % kStep == 0 ? table_->Put(hash, key, key, Condition::kAlways, 0, clock()).code
                                                  : table_->Delete(hash, key, Condition::kAlways, 0, clock()).code;
        ASSERT_EQ(code, Code::kOk);
      }
      const int64_t until = clock() + 150 * kMillisecond;
      while (clock() < until) table_->Tidy(0, clock());
    }
  }
  done.store(true, std::memory_order_release);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0u) << "of " << lookups.load();
  EXPECT_GT(table_->stats().merges, 10u);
}

// ---- Hashes that were chosen ----

// The number's bytes: the search tries millions of keys.
absl::string_view KeyOf(const uint64_t& number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }

TEST_F(IndexMemoryTest, ChosenHashesTakeLittleAndGiveItBack) {
  for (const int partitions : {1, 16}) {
    Make(256 * kMiB, partitions);
    const TableStats empty = table_->stats();
    // An attacker with the seed targets few buckets: of four million keys, 60,360 that fall into one of the first
    // four.
    std::vector<uint64_t> keys;
    uint64_t refused = 0;
    for (uint64_t i = 0; keys.size() < 60'360 && i < 4'000'000; ++i) {
      if (BucketOf(table_->HashOf(KeyOf(i))) >= 4) continue;
      const Code code = Put(KeyOf(i));
      if (code == Code::kOk) {
        keys.push_back(i);
      } else {
        ASSERT_EQ(code, Code::kIndexFull);
        ++refused;
      }
    }
    Settle();
    const TableStats full = table_->stats();
    std::printf("%d partitions: %zu keys, %lu refused, %lu segments, index %.1f %%\n", partitions, keys.size(), refused,
                full.segments, 100.0 * static_cast<double>(full.index_bytes) / static_cast<double>(full.region_bytes));
    EXPECT_GT(refused, 0u);
    EXPECT_LT(full.index_bytes, full.region_bytes / 10);
    // Expect: other keys are stored beside them, and the index grows for them.
    for (uint64_t i = 0; i < 100'000; ++i) {
      const std::string name = Name(i);
      if (BucketOf(table_->HashOf(name)) < 4) continue;
      ASSERT_EQ(Put(name), Code::kOk) << i;
    }
    for (uint64_t i = 0; i < 100'000; ++i) Delete(Name(i));
    for (const uint64_t key : keys) ASSERT_EQ(Delete(KeyOf(key)), Code::kOk);
    Settle();
    const TableStats stats = table_->stats();
    EXPECT_EQ(stats.segments, empty.segments);
    EXPECT_LE(stats.index_bytes, empty.index_bytes + kIndexUnitBytes + (8u << stats.level));
  }
}

// ---- Readers that know memory which has left ----

class LeftMemoryTest : public IndexMemoryTest {
 protected:
  // A table whose index had grown, and a reader of that time that knows `key_`'s segment. The segment's memory has left
  // the index and belongs to an item that imitates the bucket, empty.
  void SetUp() override {
    Make(64 * kMiB);
    for (uint64_t i = 0; i < 400'000; ++i) ASSERT_EQ(Put(Name(i)), Code::kOk);
    reader_ = std::make_unique<TestReader>(memory_->span());
    reader_->now_ns = [this] { return now_; };
    const DirectoryEntry top = FindTop();
    for (uint64_t i = 0; i < 400'000; ++i) {
      if (Name(i) != key_) {
        ASSERT_EQ(Delete(Name(i)), Code::kOk);
      }
    }
    WhenGone(top);
  }
  // Chooses the key whose segment is highest.
  DirectoryEntry FindTop() {
    DirectoryEntry top;
    for (uint64_t i = 0; i < 400'000; i += 97) {
      const DirectoryEntry entry = reader_->directory().Find(table_->HashOf(Name(i)));
      if (entry.offset() > top.offset()) {
        top = entry;
        key_ = Name(i);
      }
    }
    return top;
  }
  virtual void WhenGone(DirectoryEntry entry) {
    Settle();
    Imitate(entry);
  }
  void Imitate(DirectoryEntry entry) {
    const uint32_t bucket = BucketOf(table_->HashOf(key_));
    char* at = memory_->span().data() + entry.offset() + bucket * kBucketBytes;
    StoreWord(at, BucketInfo(entry.segment_id(), bucket, 0).word());
    for (size_t i = 1; i < kWordsPerBucket; ++i) StoreWord(at + 8 * i, 0);
  }

  std::unique_ptr<TestReader> reader_;
  std::string key_;
};

TEST_F(LeftMemoryTest, WhatImitatesABucketIsNotBelieved) {
  EXPECT_EQ(reader_->Get(key_), "");
  EXPECT_EQ(reader_->confirmations(), 1u);
  // Expect: absent keys are absent, and that costs no further check for a while.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(reader_->Get(absl::StrCat("absent", i)), std::nullopt);
  EXPECT_EQ(reader_->confirmations(), 1u);
  now_ += kIndexTrustNs + 1;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(reader_->Get(absl::StrCat("absent", i)), std::nullopt);
  EXPECT_EQ(reader_->confirmations(), 2u);
}

TEST_F(LeftMemoryTest, WithoutTheLookAtTheEpochItWouldBe) {
  reader_->believe_any_bucket = true;
  EXPECT_EQ(reader_->Get(key_), std::nullopt) << "else the test above shows nothing";
}

// Memory leaves long enough after the epoch changed: readers that relied on the epoch have checked it again by then.
class LeavingMemoryTest : public LeftMemoryTest {
 protected:
  void WhenGone(DirectoryEntry entry) override {
    // The reader looks all the time; free memory is given to an item at once.
    uint64_t free_bytes = table_->stats().free_bytes;
    for (int step = 0; step < 5'000; ++step) {
      now_ += kMillisecond;
      table_->Tidy(0, now_);
      if (step % 40 == 0) {
        ASSERT_EQ(reader_->Get(absl::StrCat("absent", step)), std::nullopt);
      }
      if (table_->stats().free_bytes > free_bytes) Imitate(entry);
      free_bytes = table_->stats().free_bytes;
      ASSERT_EQ(reader_->Get(key_), "") << step;
    }
  }
};
TEST_F(LeavingMemoryTest, IsFoundWhoeverLookedWhenever) {}

// ---- The pool ----

class SegmentPoolTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 64 * kMiB;
  SegmentPoolTest() {
    RegionHeader header = RegionHeader::For(kBytes, 1);
    header.incarnation = 1;
    header.level = 3;
    WriteRegionHeader(memory_.span().data(), header);
    directory_.emplace(memory_.span().data(), header);
    heap_.emplace(memory_.span().data(), header);
    pool_.emplace(kBytes, &*heap_, &*directory_);
  }
  uint64_t free_units() const { return heap_->stats().free_bytes / kUnitBytes; }
  uint64_t epoch() { return IndexState(LoadWord(memory_.span().data() + kIndexStateOffset)).epoch(); }
  void Advance(int64_t ns) {
    now_ += ns;
    seen_ = pool_->Advance(now_, seen_);
  }
  std::vector<uint64_t> Take(size_t units) {
    std::vector<uint64_t> offsets;
    for (size_t i = 0; i < units * kSegmentsPerUnit; ++i) offsets.push_back(pool_->Allocate(0));
    return offsets;
  }

  TestMemory memory_{kBytes};
  std::optional<SharedDirectory> directory_;
  std::optional<Heap> heap_;
  std::optional<SegmentPool> pool_;
  int64_t now_ = 10 * kSecond;
  uint64_t seen_ = 0;
};

TEST_F(SegmentPoolTest, TheLowestFreeSegmentIsTakenFirst) {
  std::vector<uint64_t> offsets = Take(3);
  EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
  pool_->Cancel(offsets[3]);
  pool_->Cancel(offsets[1]);
  pool_->Cancel(offsets.back());
  EXPECT_EQ(pool_->Allocate(0), offsets[1]);
  EXPECT_EQ(pool_->Allocate(0), offsets[3]);
  EXPECT_EQ(pool_->Allocate(0), offsets.back());
}

TEST_F(SegmentPoolTest, ARetiredSegmentIsUsedAgainAQuarantineLater) {
  std::vector<uint64_t> offsets = Take(1);
  seen_ = pool_->Retire(offsets[0], now_);
  Advance(0);  // an earlier time
  Advance(kMillisecond);
  Advance(kQuarantineNs - 1);
  EXPECT_NE(pool_->Allocate(0), offsets[0]);
  Advance(1);
  EXPECT_EQ(pool_->Allocate(0), offsets[0]);
}

// The time was read before another partition retired the segment, though it is passed afterwards.
TEST_F(SegmentPoolTest, ATimeThatMayHaveBeenReadBeforeBeginsNoQuarantine) {
  std::vector<uint64_t> offsets = Take(1);
  pool_->Retire(offsets[0], now_);  // by another partition
  const uint64_t seen = pool_->Advance(now_ + kSecond, /*seen=*/0);
  pool_->Advance(now_ + 3 * kSecond, /*seen=*/0);
  EXPECT_NE(pool_->Allocate(0), offsets[0]);
  // A time read after an earlier lock that saw the retirement does.
  pool_->Advance(now_ + 3 * kSecond, seen);
  pool_->Advance(now_ + 3 * kSecond + kQuarantineNs, seen);
  EXPECT_EQ(pool_->Allocate(0), offsets[0]);
}

TEST_F(SegmentPoolTest, UnitsLeaveAQuarantineAfterTheEpochWasIncreased) {
  const uint64_t free = free_units();
  std::vector<uint64_t> offsets = Take(8);
  for (const uint64_t offset : offsets) seen_ = pool_->Retire(offset, now_);
  int64_t increased_ns = 0;
  for (int i = 0; i < 2'000 && free_units() + 1 < free; ++i) {
    const uint64_t before = epoch();
    const uint64_t units = free_units();
    Advance(kMillisecond / 2);
    if (epoch() != before) increased_ns = now_;
    if (free_units() != units) {
      EXPECT_GE(now_ - increased_ns, kQuarantineNs);
    }
  }
  EXPECT_EQ(free_units(), free - 1) << "one is kept";
  EXPECT_LE(epoch(), 2u);
  EXPECT_EQ(pool_->unit_bytes(), kIndexUnitBytes);
  EXPECT_EQ(pool_->segment_bytes(), 0u);
  EXPECT_FALSE(pool_->waiting());
}

TEST_F(SegmentPoolTest, AUnitThatIsWantedAgainStays) {
  std::vector<uint64_t> offsets = Take(6);
  const uint64_t all = free_units() + 6;
  for (const uint64_t offset : offsets) pool_->Cancel(offset);
  Advance(kMillisecond);
  EXPECT_EQ(epoch(), 1u);
  EXPECT_EQ(Take(6), offsets);
  for (int i = 0; i < 300; ++i) Advance(kMillisecond);
  EXPECT_EQ(free_units(), all - 6);
}

TEST_F(SegmentPoolTest, MisplacedAreThoseAboveManyHoles) {
  std::vector<uint64_t> offsets = Take(4);
  EXPECT_EQ(pool_->Misplaced(0), 0u);
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (i % kSegmentsPerUnit != 1 % kSegmentsPerUnit) pool_->Cancel(offsets[i]);
  }
  EXPECT_EQ(pool_->Misplaced(1), 0u) << "of another partition";
  EXPECT_EQ(pool_->Misplaced(0), offsets[3 * kSegmentsPerUnit + 1 % kSegmentsPerUnit]);
}

}  // namespace
}  // namespace farlook::kv
