// Readers and writers on separate threads. Every value identifies its key and its write and verifies itself. A reader
// checks that a value is not older than a write acknowledged before the lookup, nor than the reader's last value, nor
// newer than the last write begun.
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "kv/heap/partition_locks.h"
#include "kv/layout/limits.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMostFiller = 9'000;  // bytes of a value after its numbers

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string ValueOf(uint64_t key, uint64_t sequence, uint64_t filler_bytes) {
  // The alphabet, repeated. Copied, since making values would take most of this test's time.
  static const std::string* const kFiller = [] {
    auto* filler = new std::string;
    for (uint64_t i = 0; i < kMostFiller + 26; ++i) filler->push_back(static_cast<char>('a' + i % 26));
    return filler;
  }();
  return absl::StrCat(key, " ", sequence, " ",
                      absl::string_view(*kFiller).substr((key + sequence * 7) % 26, filler_bytes));
}

// Returns the number of this key's write, or 0 if the value is invalid.
uint64_t SequenceOf(uint64_t key, const std::string& value) {
  const std::vector<std::string> words = absl::StrSplit(value, ' ');
  uint64_t k = 0, sequence = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &k) || !absl::SimpleAtoi(words[1], &sequence)) return 0;
  return k == key && value == ValueOf(key, sequence, words[2].size()) ? sequence : 0;
}

struct Shape {
  const char* name;
  uint64_t region_bytes;
  int partitions;
  int writers;
  int readers;
  uint64_t keys;
  int writes;           // of each writer
  uint64_t most_bytes;  // of a value, mostly
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

class ConcurrencyTest : public testing::TestWithParam<Shape> {
 protected:
  ConcurrencyTest() : memory_(GetParam().region_bytes), keys_(GetParam().keys) {
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.partitions = GetParam().partitions;
    table_ = *Table::Create(memory_.span(), options);
  }

  struct Key {
    std::atomic<uint64_t> floor{0};  // a lookup that begins now must not see an older write
    std::atomic<uint64_t> begun{0};  // a lookup that ended before now must not have seen a newer write
  };
  // Never deleted after the first put.
  static bool Permanent(uint64_t key) { return key % 4 != 0; }
  static std::string Name(uint64_t key) { return absl::StrCat("key", key); }

  // Writes the keys of this writer. In the first half of the writes the range of keys grows to all of them.
  void Write(uint64_t writer) {
    const Shape& shape = GetParam();
    std::mt19937_64 random(writer);
    std::vector<uint64_t> sequences(shape.keys);
    for (int i = 0; i < shape.writes; ++i) {
      const uint64_t range =
          std::min(shape.keys, 1 + shape.keys * static_cast<uint64_t>(i) * 2 / static_cast<uint64_t>(shape.writes));
      const uint64_t key =
          random() % range / static_cast<uint64_t>(shape.writers) * static_cast<uint64_t>(shape.writers) + writer;
      if (key >= shape.keys) continue;
      const std::string name = Name(key);
      const uint64_t hash = table_->HashOf(name);
      PartitionLock* mutex = table_->locks()->of(table_->PartitionOf(hash));
      if (!Permanent(key) && random() % 2 == 0) {
        LockedPartition lock(mutex);
        const Code code = table_->Delete(hash, name, Condition::kAlways, 0, NowNs()).code;
        if (code == Code::kOk) keys_[key].floor.store(sequences[key] + 1, std::memory_order_release);
        continue;
      }
      const uint64_t sequence = ++sequences[key];
      // Few sizes; one of them at a time is preferred.
      const uint64_t favourite = static_cast<uint64_t>(i) * 9 / static_cast<uint64_t>(shape.writes);
      uint64_t bytes = shape.most_bytes >> (random() % 8 == 0 ? random() : favourite) % 3 * 2;
      if (random() % 500 == 0) bytes = kMostFiller;  // assembled in place
      const std::string value = ValueOf(key, sequence, bytes);
      keys_[key].begun.store(sequence, std::memory_order_release);
      Code code;
      do {
        LockedPartition lock(mutex);
        code = table_->Put(hash, name, value, Condition::kAlways, 0, NowNs()).code;
        if (code == Code::kOk) keys_[key].floor.store(sequence, std::memory_order_release);
      } while (code == Code::kMakingRoom);
      if (code == Code::kOk) continue;
      if (code == Code::kNoMemory) {
        no_memory_.fetch_add(1);
      } else {
        ADD_FAILURE() << CodeName(code);
      }
    }
  }

  void Read(uint64_t reader_number) {
    const Shape& shape = GetParam();
    std::mt19937_64 random(100 + reader_number);
    TestReader reader(memory_.span());
    int64_t began = 0;
    reader.before_fetch = [&](const Range&) { began = NowNs(); };
    reader.is_late = [&](const Range&) { return NowNs() - began > kMaxBucketReadNs; };
    reader.backwards = reader_number % 2 == 1;
    reader.split_items = reader_number % 3 == 1;
    std::vector<uint64_t> seen(shape.keys);
    std::vector<Slot> cached(shape.keys);
    while (!done_.load(std::memory_order_acquire)) {
      for (int i = 0; i < 100; ++i) {
        const uint64_t key = random() % shape.keys;
        const uint64_t floor = keys_[key].floor.load(std::memory_order_acquire);
        const uint64_t gave_up = reader.gave_up();
        const auto value = reader.Get(Name(key), reader_number % 2 == 0 ? cached[key] : Slot());
        const uint64_t begun = keys_[key].begun.load(std::memory_order_acquire);
        lookups_.fetch_add(1, std::memory_order_relaxed);
        if (reader.gave_up() != gave_up) {  // the writer was stopped at the wrong moment
          asked_.fetch_add(1, std::memory_order_relaxed);
          continue;
        }
        if (!value) {
          if (Permanent(key) && floor != 0) {
            ADD_FAILURE() << "reader " << reader_number << ": " << Name(key) << " is not found, but was " << floor;
            return;
          }
          continue;
        }
        found_.fetch_add(1, std::memory_order_relaxed);
        cached[key] = reader.lookup().slot();
        const uint64_t sequence = SequenceOf(key, *value);
        if (sequence == 0 || sequence < floor || sequence < seen[key] || sequence > begun) {
          ADD_FAILURE() << "reader " << reader_number << ": " << Name(key) << " is " << sequence << " of " << floor
                        << " to " << begun << ", before it was " << seen[key] << ": " << value->substr(0, 50);
          return;
        }
        seen[key] = sequence;
      }
    }
  }

  TestMemory memory_;
  std::unique_ptr<Table> table_;
  std::vector<Key> keys_;
  std::atomic<bool> done_{false};
  std::atomic<uint64_t> lookups_{0}, found_{0}, asked_{0}, no_memory_{0};
};

TEST_P(ConcurrencyTest, ReadersSeeOnlyWhatWasWrittenInItsOrder) {
  const Shape& shape = GetParam();
  std::vector<std::thread> writers, readers;
  for (int i = 0; i < shape.readers; ++i) readers.emplace_back([this, i] { Read(static_cast<uint64_t>(i)); });
  for (int i = 0; i < shape.writers; ++i) writers.emplace_back([this, i] { Write(static_cast<uint64_t>(i)); });
  for (std::thread& writer : writers) writer.join();
  done_.store(true, std::memory_order_release);
  for (std::thread& reader : readers) reader.join();
  // Once more, without concurrent writes.
  TestReader reader(memory_.span());
  for (uint64_t key = 0; key < shape.keys; ++key) {
    const auto value = reader.Get(Name(key));
    const uint64_t floor = keys_[key].floor.load();
    if (Permanent(key)) {
      ASSERT_EQ(value.has_value(), floor != 0) << key;
    }
    if (value) {
      ASSERT_GE(SequenceOf(key, *value), std::max<uint64_t>(floor, 1)) << key;
    }
  }
  EXPECT_EQ(reader.gave_up(), 0u);
  const TableStats stats = table_->stats();
  std::printf(
      "writers seeded 0.., readers 100..: %lu lookups, %lu found, %lu asked; %lu puts, %lu deletes, %lu without "
      "memory, %lu splits, %lu moved\n",
      lookups_.load(), found_.load(), asked_.load(), stats.puts, stats.deletes, no_memory_.load(), stats.splits,
      stats.moved_items);
  EXPECT_GT(stats.splits, 0u);
  if (shape.region_bytes <= 24 * kMiB) {
    EXPECT_GT(no_memory_.load(), 0u);
    EXPECT_GT(stats.moved_items, 0u);
  } else {
    EXPECT_EQ(no_memory_.load(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConcurrencyTest,
                         testing::Values(Shape{"OneWriter", 128 * kMiB, 1, 1, 2, 60'000, 150'000, 100},
                                         Shape{"PartitionsInParallel", 256 * kMiB, 8, 3, 2, 80'000, 50'000, 100},
                                         Shape{"FewKeysManyWrites", 128 * kMiB, 2, 2, 2, 30'000, 60'000, 60},
                                         Shape{"FullMemory", 16 * kMiB, 1, 1, 2, 40'000, 100'000, 1'200}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace farlook::kv
