// One test for each rule of recovery (recovery.h).
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kv/layout/item.h"
#include "kv/layout/sanitized.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/layout/words.h"
#include "kv/table/recovery_testing.h"
#include "kv/table/store_order_testing.h"

namespace farlook::kv {
namespace {

class EachCrashTest : public RecoveryTest {
 protected:
  void SetUp() override {
    if (!StoreTracer::kWorksHere) GTEST_SKIP() << "no single steps here";
    Make();
  }
};

TEST_F(EachCrashTest, WithinAPutOfANewKey) {
  ExpectEachCrashKeeps("key", [&] { Put("key", "value"); });
  ExpectEachCrashKeeps("other", [&] { Put("other", "others", 2'000'000); });
}

TEST_F(EachCrashTest, WithinAPutInPlace) {
  Put("key", "the old value");
  Put("other", "others");
  ExpectEachCrashKeeps("key", [&] { Put("key", "the new value"); });
  ExpectEachCrashKeeps("key", [&] { Put("key", "with a ttl", 3'000'000); });
  ExpectEachCrashKeeps("other", [&] { Put("other", std::string(20, 'o')); });
}

TEST_F(EachCrashTest, WithinAPutElsewhere) {
  Put("key", "old", 2'000'000);
  ExpectEachCrashKeeps("key", [&] { Put("key", std::string(300, 'n')); });
  ExpectEachCrashKeeps(
      "key", [&] { Put("key", std::string(9'000, 'l')); }, /*every=*/83);
  // Pieces of each kind of block, and a run.
  for (const size_t bytes : {3'000, 9'000, 70'000, 700'000}) {
    ExpectEachCrashOfALongPutKeeps("key", std::string(bytes, 'v'));
  }
}

TEST_F(EachCrashTest, WithinATouch) {
  Put("key", "value", 2'000'000);
  ExpectEachCrashKeeps("key", [&] { Touch("key", 3'000'000); });
  ExpectEachCrashKeeps("key", [&] { Touch("key", 0); });
}

TEST_F(EachCrashTest, WithinADelete) {
  for (const size_t bytes : {10, 9'000, 70'000, 700'000}) {
    Put("key", std::string(bytes, 'd'));
    Put("other", "others");
    ExpectEachCrashKeeps("key", [&] { Delete("key"); });
  }
}

// So many keys of one bucket that its segment is split; then they leave until its parts are merged. Copies are made
// after each store to the directory, and some others.
class SplitCrashTest : public EachCrashTest {
 protected:
  // The directory is of level 5 afterwards, so that a change of a segment of three bits takes several stores.
  void SetUp() override {
    EachCrashTest::SetUp();
    if (IsSkipped()) return;
    for (const std::string& key : KeysInBucket(*table_, 0, 17, 70)) ASSERT_EQ(Put(key, key), Code::kOk);
    ASSERT_GE(IndexState(LoadWord(memory_->span().data() + kIndexStateOffset)).level(), 5);
  }
  Copies CrashesWithin(const std::function<void()>& write) {
    Copies copies;
    std::string directory = Directory();
    const StoreTracer tracer(memory_->span(), [&] {
      if (++store_ % 1'009 != 0 && Directory() == directory) return;
      copies.push_back(Copy());
      directory = Directory();
    });
    write();
    return copies;
  }
  std::string Directory() const {
    return std::string(memory_->span().data() + kIndexStateOffset, kDirectoryOffset + 2'048 - kIndexStateOffset);
  }
  void ExpectAllWhole(const Model& before, const std::string& key, Copies crashes) {
    const auto held = model_.find(key);
    const std::optional<Held> after = held == model_.end() ? std::nullopt : std::optional(held->second);
    EXPECT_GT(crashes.size(), 6u);
    for (size_t i = 0; i < crashes.size() && !HasFatalFailure(); ++i) {
      SCOPED_TRACE(i);
      ExpectReadersFindTheWay(Continue(CopyOf(crashes[i]->span())));
      const std::unique_ptr<TestMemory> again = i % 5 == 0 ? CopyOf(crashes[i]->span()) : nullptr;
      Life life = Continue(std::move(crashes[i]));
      copied_ += life.report.copies;
      retired_ += life.report.retired_segments;
      mended_ += life.report.mended_entries;
      ExpectWhole(std::move(life), before, key, after);
      if (again == nullptr) continue;
      // Recovery is interrupted as well.
      for (auto& second : InterruptRecovery(again->span(), /*every=*/83)) {
        ExpectWhole(Continue(std::move(second)), before, key, after);
        if (HasFatalFailure()) return;
      }
    }
  }

  // A reader that knows the directory of before looks again when items lie elsewhere.
  void ExpectReadersFindTheWay(Life life) {
    ASSERT_NE(life.table, nullptr);
    for (const auto& [name, held] : model_) {
      const std::string longer = name + std::string(300, 'l');
      ASSERT_EQ(PutIn(life.table.get(), name, longer).code, Code::kOk);
      ASSERT_EQ(life.reader->Get(name), longer);
    }
  }

  uint64_t copied_ = 0, retired_ = 0, mended_ = 0;
};

TEST_F(SplitCrashTest, WithinASplit) {
  std::vector<std::string> keys = KeysInBucket(*table_, 1, 17, 2 * kSlotsPerBucket + 1);
  const std::string last = keys.back();
  keys.pop_back();
  for (const std::string& key : keys) ASSERT_EQ(Put(key, key), Code::kOk);
  const Model before = model_;
  const uint64_t splits = table_->stats().splits;
  Copies crashes = CrashesWithin([&] { Put(last, last); });
  ASSERT_EQ(table_->stats().splits, splits + 1);
  ExpectAllWhole(before, last, std::move(crashes));
  EXPECT_GT(copied_, 0u);
  EXPECT_GT(retired_, 0u);
  EXPECT_GT(mended_, 0u);
}

TEST_F(SplitCrashTest, WithinAMerge) {
  std::vector<std::string> keys = KeysInBucket(*table_, 1, 17, 2 * kSlotsPerBucket + 1);
  for (const std::string& key : keys) ASSERT_EQ(Put(key, key), Code::kOk);
  now_ += 2 * kQuarantineNs;
  for (const uint64_t merges = table_->stats().merges; table_->stats().merges == merges; keys.pop_back()) {
    ASSERT_FALSE(keys.empty());
    const Model before = model_;
    Copies crashes = CrashesWithin([&] { Delete(keys.back()); });
    if (table_->stats().merges > merges) ExpectAllWhole(before, keys.back(), std::move(crashes));
  }
  EXPECT_GT(mended_, 0u);
}

// Every other item is deleted, then a long one makes the others move. The last stores of each move are traced.
TEST_F(EachCrashTest, WithinAMove) {
  Make(/*partitions=*/1, /*rewrites=*/false);
  std::vector<std::string> keys;
  for (;;) {
    const std::string key = absl::StrCat("key", keys.size());
    if (Put(key, std::string(1500, 's') + key) != Code::kOk) break;
    keys.push_back(key);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i % 5 < 2) Delete(keys[i]);
  }
  struct Move {
    uint64_t from, to;
  };
  std::vector<Move> moves;
  std::vector<std::pair<std::unique_ptr<TestMemory>, size_t>> crashes;  // with the move's number
  uint64_t alive_twice = 0;
  const Model before = model_;
  {
    std::optional<StoreTracer> tracer;
    TraceMarks(&tracer, [&] {
      const uint64_t from = Mark(kMoveFrom), to = Mark(kMoveTo);
      if (from == 0) return true;
      if (moves.empty() || moves.back().from != from) moves.push_back({from, 0});
      moves.back().to = to;
      const char* const region = memory_->span().data();
      const uint64_t version = LoadWord(region + from + kVersionOffset);
      alive_twice += to != 0 && (version & kDeadBit) == 0 && LoadWord(region + to + kVersionOffset) == version;
      crashes.emplace_back(Copy(), moves.size() - 1);
      return crashes.size() < 28;
    });
    ASSERT_EQ(Put("long", std::string(300'000, 'l')), Code::kOk);
  }
  ASSERT_EQ(crashes.size(), 28u);
  ASSERT_GE(alive_twice, 4u);
  uint64_t ended = 0;
  for (size_t i = 0; i < crashes.size() && !HasFatalFailure(); ++i) {
    SCOPED_TRACE(i);
    auto& [memory, move] = crashes[i];
    const auto [from, to] = moves[move];
    ExpectWhole(Continue(CopyOf(memory->span())), before, "long", model_["long"]);
    const Life life = Continue(std::move(memory));
    ended += life.report.ended_moves;
    const char* const item = life.memory->span().data() + from;
    const ItemLengths lengths = ItemLengths::From(LoadWord(item + kLengthsOffset));
    const std::string key(item + kItemHeaderBytes, lengths.key_bytes);
    const uint64_t hash = life.table->HashOf(key);
    const SizeClass piece = SizeClassFor(ItemBytes(key.size(), lengths.value_bytes));
    // A client that remembers one of the places, after the key was written elsewhere.
    TestReader reader(life.memory->span());
    ASSERT_EQ(PutIn(life.table.get(), key, "newer").code, Code::kOk);
    for (const uint64_t place : {from, to}) {
      EXPECT_EQ(reader.Get(key, Slot(FingerprintOf(hash), piece, place)), "newer");
    }
  }
  EXPECT_EQ(ended, alive_twice);
  ExpectWhole(Continue(Copy()), model_, "long", model_["long"]);
}

// A full table lends its spare to an overwrite; the next one makes the item move home.
TEST_F(EachCrashTest, WhileTheSpareIsLent) {
  Make(/*partitions=*/1, /*rewrites=*/false);
  int n = 0;
  while (Put(absl::StrCat("key", n), std::string(70'000, 'f')) == Code::kOk) ++n;
  for (const char c : kSanitized ? std::string("ab") : std::string("abc")) {
    ExpectEachCrashOfALongPutKeeps("key2", std::string(70'000, c));
    if (HasFatalFailure()) return;
  }
}

// The spare is as long as the longest item, before others take the memory.
TEST_F(RecoveryTest, LeavesRoomForAnOverwrite) {
  Make(/*partitions=*/1, /*rewrites=*/false);
  ASSERT_EQ(Put("long", std::string(900'000, 'l')), Code::kOk);
  const Life life = Continue(Copy());
  ASSERT_NE(life.table, nullptr);
  int n = 0;
  while (PutIn(life.table.get(), absl::StrCat("key", n), std::string(1'500, 'f')).code == Code::kOk) ++n;
  ASSERT_GT(n, 5'000);
  EXPECT_EQ(PutIn(life.table.get(), "long", std::string(900'000, 'm')).code, Code::kOk);
}

// A write is interrupted, and then the recovery after it.
TEST_F(EachCrashTest, WithinRecoveryItself) {
  Put("key", "the old value", 2'000'000);
  Put("other", "others");
  const std::vector<std::function<void()>> writes = {
      [&] { Put("key", "the new value"); }, [&] { Touch("key", 3'000'000); },
      [&] { Put("key", std::string(300, 'n')); }, [&] { Delete("key"); }};
  for (const auto& write : writes) {
    const Model before = model_;
    Copies crashes, again;
    {
      const StoreTracer tracer(memory_->span(), [&] { crashes.push_back(Copy()); });
      write();
    }
    for (const auto& crash : crashes) {
      for (auto& copy : InterruptRecovery(crash->span())) again.push_back(std::move(copy));
    }
    EXPECT_GT(again.size(), crashes.size());
    ExpectAllKeep(before, "key", std::move(again));
    if (HasFatalFailure()) return;
  }
}

TEST_F(RecoveryTest, KeepsPartitionsCachesAndExpiries) {
  Make(/*partitions=*/4, /*rewrites=*/true, /*evict=*/true);
  for (int i = 0; i < 2'000; ++i) {
    Put(absl::StrCat("key", i), std::string(i % 50 == 1 ? 20'000 : i % 900, 'v'), i % 3 == 0 ? 2'000'000 : 0);
  }
  const Life life = Continue(Copy());
  ASSERT_NE(life.table, nullptr);
  EXPECT_EQ(life.report.keys, 2'000u);
  for (const auto& [key, held] : model_) ASSERT_EQ(HeldIn(*life.table, key), held);
  // Expired items are swept.
  clock_.now_us = 2'001'000'000;
  std::vector<ExpiredItem> left;
  for (int partition = 0; partition < 4; ++partition) {
    while (life.table->Sweep(partition, 1000, now_, &left, /*to_now=*/true)) {
    }
  }
  EXPECT_EQ(life.table->stats().expired_items, 667u);
  // The others are evicted when memory is full, of each kind of block. New ones stay, as they are used.
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = absl::StrCat("new", i);
    ASSERT_EQ(PutIn(life.table.get(), key, std::string(i % 10 == 0 ? 20'000 : 2'000, 'n')).code, Code::kOk);
    ASSERT_TRUE(HeldIn(*life.table, key).has_value());
  }
  uint64_t left_over = 0;
  for (const auto& [key, held] : model_) left_over += HeldIn(*life.table, key).has_value();
  EXPECT_EQ(left_over, 0u);
}

// Segments that were retired, or that no entry led to, serve again after the quarantine.
TEST_F(RecoveryTest, UsesRetiredSegmentsAgain) {
  Make();
  for (int i = 0; i < 40'000; ++i) ASSERT_EQ(Put(absl::StrCat("key", i), ""), Code::kOk);
  ASSERT_GT(table_->stats().splits, 3u);
  const Life life = Continue(Copy());
  ASSERT_NE(life.table, nullptr);
  EXPECT_GT(life.report.retired_segments, 3u);
  const uint64_t splits = life.table->stats().splits, index_bytes = life.table->stats().index_bytes;
  for (int i = 0; i < 8; ++i) {  // a new key each, which looks for ended quarantines
    now_ += 2 * kQuarantineNs;
    ASSERT_EQ(PutIn(life.table.get(), absl::StrCat("tick", i), "").code, Code::kOk);
  }
  for (int i = 0; life.table->stats().splits < splits + 2; ++i) {
    ASSERT_EQ(PutIn(life.table.get(), absl::StrCat("new", i), "").code, Code::kOk);
  }
  EXPECT_LE(life.table->stats().index_bytes, index_bytes);
}

TEST_F(RecoveryTest, EndsCountersWhoseCellsAreDead) {
  Make();
  for (uint64_t cell = 64; cell < 64 * 9; cell += 64) {
    const std::string key = absl::StrCat("counter", cell);
    ASSERT_EQ(table_->InsertCounter(table_->HashOf(key), key, cell, now_).code, Code::kOk);
  }
  RecoveryOptions options;
  options.is_live = [](uint64_t cell) { return cell != 128 && cell != 256; };
  const Life life = Continue(Copy(), options);
  ASSERT_NE(life.table, nullptr);
  EXPECT_EQ(life.report.ended_counters, 2u);
  EXPECT_EQ(life.table->stats().keys, 6u);
  uint64_t cell = 0;
  const Table& table = *life.table;
  EXPECT_EQ(table.FindCounter(table.HashOf("counter128"), "counter128", &cell), Code::kNotFound);
  EXPECT_EQ(table.FindCounter(table.HashOf("counter192"), "counter192", &cell), Code::kOk);
  EXPECT_EQ(cell, 192u);
}

// An identifier of a segment is used once, and readers that have an old directory look again.
TEST_F(RecoveryTest, ContinuesAboveTheMarks) {
  Make();
  Put("key", "value");
  const uint64_t versions = Mark(kVersionMark), ids = Mark(kSegmentIdMark);
  const uint64_t epoch = IndexState(LoadWord(memory_->span().data() + kIndexStateOffset)).epoch();
  const Life life = Continue(Copy());
  EXPECT_GT(PutIn(life.table.get(), "key", "newer").version, versions);
  for (int i = 0; i < 30'000; ++i) ASSERT_EQ(PutIn(life.table.get(), absl::StrCat("key", i), "").code, Code::kOk);
  const char* const region = life.memory->span().data();
  EXPECT_GT(LoadWord(region + header().MarksOf(0) + kSegmentIdMark), ids);
  const IndexState state(LoadWord(region + kIndexStateOffset));
  EXPECT_GT(state.epoch(), epoch);
  uint64_t highest = 0;
  for (uint64_t i = 0; i < uint64_t{1} << state.level(); ++i) {
    const DirectoryEntry entry(LoadWord(region + header().DirectoryArray(state.level()) + 8 * i));
    highest = std::max<uint64_t>(highest, entry.segment_id());
  }
  EXPECT_GT(highest, ids);
}

// Random writes; some are interrupted at a random store, and the copy goes on.
TEST_F(RecoveryTest, LosesNothingThatWasAcknowledged) {
  if (!StoreTracer::kWorksHere) GTEST_SKIP() << "no single steps here";
  const uint64_t seeds = std::getenv("FARLOOK_FULL_LENGTH") != nullptr ? 200 : kSanitized ? 2 : 4;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    model_.clear();
    newest_ = 0;
    Make(seed % 2 == 0 ? 4 : 1);
    for (int round = 0; round < 12; ++round) {
      const auto write = [&](const std::string& key) {
        const uint64_t bytes = below(20) == 0 ? below(800'000) : below(5) == 0 ? below(12'000) : below(600);
        switch (below(8)) {
          case 0:
            Delete(key);
            break;
          case 1:
            Touch(key, below(2) * 5'000'000);
            break;
          default:
            Put(key, std::string(bytes, static_cast<char>('a' + below(26))), below(4) == 0 ? 4'000'000 : 0);
        }
      };
      for (int i = 0; i < 600; ++i) write(absl::StrCat("key", below(300)));
      const std::string key = absl::StrCat("key", below(300));
      const Model before = model_;
      const uint64_t at = 1 + below(below(2) == 0 ? 12 : 300);
      std::unique_ptr<TestMemory> copy;
      {
        uint64_t store = 0;
        std::optional<StoreTracer> tracer;
        tracer.emplace(memory_->span(), [&] {
          if (++store != at) return;
          copy = Copy();
          tracer->Watch({});
        });
        write(key);
      }
      if (copy == nullptr) copy = Copy();
      const auto held = model_.find(key);
      const std::optional<Held> after = held == model_.end() ? std::nullopt : std::optional(held->second);
      ExpectWhole(Continue(std::move(copy)), before, key, after);
      if (HasFatalFailure()) return;
      // The next round is of the next life.
      Life life = Continue(Copy());
      ASSERT_NE(life.table, nullptr);
      memory_ = std::move(life.memory);
      table_ = std::move(life.table);
    }
  }
}

}  // namespace
}  // namespace farlook::kv
