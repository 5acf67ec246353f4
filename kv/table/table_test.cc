#include "kv/table/table.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/table/table_testing.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr int64_t kSecond = 1'000'000'000;

class TableTest : public TableFixture {
 protected:
  void Make(uint64_t bytes, int partitions = 1) {
    TableFixture::Make(bytes, partitions);
    reader_ = std::make_unique<TestReader>(memory_->span());
  }

  WriteResult Put(absl::string_view key, absl::string_view value, Condition condition = Condition::kAlways,
                  uint64_t version = 0) {
    WriteResult result;
    do {
      now_ += 1000;
      result = table_->Put(table_->HashOf(key), key, value, condition, version, now_);
    } while (result.code == Code::kMakingRoom);
    return result;
  }
  WriteResult Delete(absl::string_view key, Condition condition = Condition::kAlways, uint64_t version = 0) {
    now_ += 1000;
    return table_->Delete(table_->HashOf(key), key, condition, version, now_);
  }
  std::optional<std::string> Get(absl::string_view key) { return reader_->Get(key); }

  std::unique_ptr<TestReader> reader_;
  int64_t now_ = 5 * kSecond;
};

TEST_F(TableTest, WhatIsPutIsRead) {
  Make(16 * kMiB);
  EXPECT_EQ(Get("a"), std::nullopt);
  const WriteResult put = Put("a", "one");
  EXPECT_EQ(put.code, Code::kOk);
  EXPECT_EQ(Get("a"), "one");
  EXPECT_EQ(reader_->lookup().slot(), put.slot);
  EXPECT_EQ(reader_->lookup().item().version, put.version);
  const WriteResult again = Put("a", "another one, longer than the first");
  EXPECT_GT(again.version, put.version);
  EXPECT_EQ(Get("a"), "another one, longer than the first");
  // Expect: only what fits into the old item's piece is written there.
  EXPECT_FALSE(put.in_place);
  EXPECT_FALSE(again.in_place);
  EXPECT_TRUE(Put("a", "another one, as long as the other").in_place);
  EXPECT_FALSE(Put("a", "x", Condition::kAbsent).in_place);
  EXPECT_EQ(Delete("a").code, Code::kOk);
  EXPECT_EQ(Get("a"), std::nullopt);
  EXPECT_EQ(Delete("a").code, Code::kNotFound);
}

TEST_F(TableTest, VersionsBeginWhereTheOptionsSay) {
  TestMemory memory(64 * kMiB);
  TableOptions options;
  options.incarnation = 0x1234;
  options.partitions = 4;
  options.first_version = kMaxFirstVersion - 1;
  auto table = Table::Create(memory.span(), options);
  ASSERT_TRUE(table.ok()) << table.status();
  for (const absl::string_view key : {"a", "b", "c", "d", "e"}) {
    const WriteResult put = (*table)->Put((*table)->HashOf(key), key, "v", Condition::kAlways, 0, now_);
    EXPECT_GE(put.version, kMaxFirstVersion - 1);
    EXPECT_LT(put.version, kMaxFirstVersion + 100);
  }
  options.first_version = kMaxFirstVersion;
  EXPECT_FALSE(Table::Create(memory.span(), options).ok());
}

TEST_F(TableTest, ConditionsThatDoNotHoldChangeNothing) {
  Make(16 * kMiB);
  EXPECT_EQ(Put("k", "v", Condition::kPresent).code, Code::kNotFound);
  EXPECT_EQ(Put("k", "v", Condition::kVersion, 7).code, Code::kNotFound);
  EXPECT_EQ(Get("k"), std::nullopt);
  const WriteResult first = Put("k", "v", Condition::kAbsent);
  ASSERT_EQ(first.code, Code::kOk);
  const WriteResult exists = Put("k", "w", Condition::kAbsent);
  EXPECT_EQ(exists.code, Code::kExists);
  EXPECT_EQ(exists.version, first.version);
  EXPECT_EQ(exists.slot, first.slot);
  EXPECT_EQ(Put("k", "w", Condition::kVersion, first.version + 1).code, Code::kVersionMismatch);
  EXPECT_EQ(Get("k"), "v");
  const WriteResult swapped = Put("k", "w", Condition::kVersion, first.version);
  EXPECT_EQ(swapped.code, Code::kOk);
  EXPECT_EQ(Delete("k", Condition::kVersion, first.version).code, Code::kVersionMismatch);
  EXPECT_EQ(Get("k"), "w");
  EXPECT_EQ(Delete("k", Condition::kVersion, swapped.version).code, Code::kOk);
  EXPECT_EQ(table_->stats().keys, 0u);
  EXPECT_EQ(table_->stats().value_bytes, 0u);
}

TEST_F(TableTest, KeysOfAnyBytesAndPrefixesOfOthersAreDifferentKeys) {
  Make(16 * kMiB);
  std::vector<std::string> keys = {std::string(1, '\0'),  std::string(2, '\0'), std::string("a\0", 2), "a", "ab",
                                   std::string("a\0b", 3)};
  for (size_t n : {7, 8, 9, 15, 16, 17, 240, 241, 1023, 1024}) keys.push_back(std::string(n, 'x'));
  for (size_t n : {7, 8, 9, 1023}) keys.push_back(std::string(n, 'x') + std::string(1, '\0'));
  for (const std::string& key : keys) ASSERT_EQ(Put(key, absl::StrCat("value of ", key)).code, Code::kOk);
  EXPECT_EQ(table_->stats().keys, keys.size());
  for (const std::string& key : keys) EXPECT_EQ(Get(key), absl::StrCat("value of ", key));
  for (const std::string& key : keys) {
    EXPECT_EQ(Delete(key).code, Code::kOk);
    EXPECT_EQ(Get(key), std::nullopt);
  }
}

TEST_F(TableTest, ValuesOfAllSizes) {
  Make(64 * kMiB);
  for (uint64_t size = 0; size <= 16 * kMiB; size = size < 600 ? size + 1 : size * 3 / 2) {
    std::string value(size, 'v');
    for (uint64_t i = 0; i < size; i += 61) value[i] = static_cast<char>(i * 7);
    ASSERT_EQ(Put("key", value).code, Code::kOk) << size;
    ASSERT_EQ(Get("key"), value) << size;
  }
  const std::string largest(16 * kMiB, 'z');
  EXPECT_EQ(Put("key", largest).code, Code::kOk);
  EXPECT_EQ(Get("key"), largest);
  EXPECT_EQ(Put("key", largest + "z").code, Code::kTooLarge);
  EXPECT_EQ(Get("key"), largest);
  EXPECT_EQ(Delete("key").code, Code::kOk);
  // All of it was freed: the same again fits.
  EXPECT_EQ(Put("other", largest).code, Code::kOk);
}

// Random operations compared with std::map, growing through many splits, with shrinking and reuse; several partitions.
TEST_F(TableTest, BehavesLikeAMap) {
  for (const int partitions : {1, 8}) {
    Make(512 * kMiB, partitions);
    std::mt19937_64 random(static_cast<uint64_t>(partitions));
    std::map<std::string, std::string> model;
    for (int i = 0; i < 300000; ++i) {
      const std::string key = absl::StrCat("key", random() % 60000);
      const std::string value(random() % 5 == 0 ? random() % 900 : random() % 60, static_cast<char>(random()));
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          ASSERT_EQ(Put(key, value).code, Code::kOk);
          model[key] = value;
          break;
        case 3:
          ASSERT_EQ(Put(key, value, Condition::kAbsent).code, model.count(key) ? Code::kExists : Code::kOk);
          model.emplace(key, value);
          break;
        case 4:
          ASSERT_EQ(Put(key, value, Condition::kPresent).code, model.count(key) ? Code::kOk : Code::kNotFound);
          if (model.count(key)) model[key] = value;
          break;
        case 5:
          ASSERT_EQ(Delete(key).code, model.erase(key) ? Code::kOk : Code::kNotFound);
          break;
        default: {
          const auto at = model.find(key);
          ASSERT_EQ(Get(key), at == model.end() ? std::nullopt : std::optional<std::string>(at->second));
        }
      }
      if (i % 100000 == 99999) now_ += 2 * kSecond;
    }
    EXPECT_EQ(table_->stats().keys, model.size());
    EXPECT_GT(table_->stats().splits, 4u);
    EXPECT_EQ(reader_->gave_up(), 0u);
    uint64_t key_bytes = 0, value_bytes = 0;
    for (const auto& [key, value] : model) {
      ASSERT_EQ(Get(key), value);
      key_bytes += key.size();
      value_bytes += value.size();
    }
    EXPECT_EQ(table_->stats().key_bytes, key_bytes);
    EXPECT_EQ(table_->stats().value_bytes, value_bytes);
  }
}

// The number's bytes: the search tries millions of keys.
absl::string_view KeyOf(const uint64_t& number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }

// Keys found by search whose hashes agree in the 16 bits of the fingerprint: lookups must distinguish them by their
// bytes.
TEST_F(TableTest, KeysWithEqualFingerprints) {
  Make(16 * kMiB);
  std::vector<std::string> keys;
  for (uint64_t i = 0; keys.size() < 40; ++i) {
    if (FingerprintOf(table_->HashOf(KeyOf(i))) == 0x1234) keys.push_back(std::string(KeyOf(i)));
  }
  for (const std::string& key : keys) ASSERT_EQ(Put(key, "v" + key).code, Code::kOk);
  for (const std::string& key : keys) ASSERT_EQ(Get(key), "v" + key);
  for (size_t i = 0; i < keys.size(); i += 2) ASSERT_EQ(Delete(keys[i]).code, Code::kOk);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(Get(keys[i]), i % 2 ? std::optional<std::string>("v" + keys[i]) : std::nullopt);
  }
}

// Keys found by search that agree in the ten top bits of their hashes and in their bucket, as an attacker with the seed
// could choose them. Main and overflow bucket hold 30; then a status, and nothing is lost.
TEST_F(TableTest, KeysWhoseHashesCollideEndInIndexFull) {
  Make(64 * kMiB);
  std::vector<std::string> keys;
  for (uint64_t i = 0; keys.size() < 2 * kSlotsPerBucket + 2; ++i) {
    const uint64_t hash = table_->HashOf(KeyOf(i));
    if (BucketOf(hash) == 17 && PositionOf(hash) >> 54 == 5) keys.push_back(std::string(KeyOf(i)));
  }
  const std::string one_more = keys.back();
  keys.pop_back();
  const std::string last = keys.back();
  keys.pop_back();
  for (const std::string& key : keys) ASSERT_EQ(Put(key, "v" + key).code, Code::kOk);
  EXPECT_EQ(Put(last, "v").code, Code::kIndexFull);
  EXPECT_EQ(Get(last), std::nullopt);
  for (const std::string& key : keys) ASSERT_EQ(Get(key), "v" + key);
  EXPECT_EQ(Put(keys[3], "new").code, Code::kOk);
  EXPECT_EQ(Delete(keys[5]).code, Code::kOk);
  EXPECT_EQ(Put(one_more, "v").code, Code::kOk);
  EXPECT_EQ(table_->stats().keys, keys.size());
  EXPECT_LT(table_->stats().index_bytes, 8 * kMiB) << "splitting in vain must be bounded";
}

TEST_F(TableTest, FullMemoryIsAStatusAndLosesNothing) {
  Make(24 * kMiB);
  const std::string value(1000, 'v');
  int n = 0;
  while (Put(absl::StrCat("key", n), value).code == Code::kOk) ++n;
  EXPECT_EQ(Put("one more", value).code, Code::kNoMemory);
  for (int i = 0; i < n; ++i) ASSERT_EQ(Get(absl::StrCat("key", i)), value) << i << " of " << n;
  EXPECT_EQ(table_->stats().keys, static_cast<uint64_t>(n));
  ASSERT_EQ(Delete("key0").code, Code::kOk);
  EXPECT_EQ(Put("one more", value).code, Code::kOk);
}

// Fills with 1,000-byte values; then with 100-byte values, deletes them, and fills with 1,000-byte ones.
TEST_F(TableTest, MostOfTheMemoryHoldsKeysAndValues) {
  const uint64_t bytes = 256 * kMiB;
  const auto fill = [&](const char* prefix, size_t size) {
    const std::string value(size, 'v');
    int n = 0;
    while (Put(absl::StrCat(prefix, n), value).code == Code::kOk) ++n;
    return n;
  };
  Make(bytes);
  fill("user1234567890", 1000);
  TableStats stats = table_->stats();
  const double first = static_cast<double>(stats.key_bytes + stats.value_bytes) / bytes;
  EXPECT_GE(first, 0.85);

  Make(bytes);
  const int n = fill("user1234567890", 100);
  for (int i = 0; i < n; ++i) ASSERT_EQ(Delete(absl::StrCat("user1234567890", i)).code, Code::kOk);
  fill("user0987654321", 1000);
  stats = table_->stats();
  const double second = static_cast<double>(stats.key_bytes + stats.value_bytes) / bytes;
  EXPECT_GE(second, 0.80);
  RecordProperty("fill_1000", std::to_string(first));
  RecordProperty("fill_1000_after_100", std::to_string(second));
  std::printf("filled with 1,000-byte values: %.3f; after 100-byte values: %.3f\n", first, second);
}

// Sparse blocks are emptied into others when another size needs their units.
TEST_F(TableTest, PagesMoveBetweenSizesWhileOthersStayInUse) {
  Make(64 * kMiB);
  const std::string small(100, 's');
  std::vector<std::string> keys;
  for (int n = 0; Put(absl::StrCat("small", n), small).code == Code::kOk; ++n) keys.push_back(absl::StrCat("small", n));
  std::mt19937_64 random(3);
  std::map<std::string, bool> kept;
  for (const std::string& key : keys) {
    kept[key] = random() % 4 == 0;  // holes everywhere: no block is empty
    if (!kept[key]) {
      ASSERT_EQ(Delete(key).code, Code::kOk);
    }
  }
  const std::string large(3000, 'l');
  int n = 0;
  while (Put(absl::StrCat("large", n), large).code == Code::kOk) ++n;
  const TableStats stats = table_->stats();
  EXPECT_GT(stats.moved_items, 1000u);
  EXPECT_GT(static_cast<double>(stats.key_bytes + stats.value_bytes) / (32 * kMiB), 0.7);
  for (const auto& [key, is_kept] : kept) {
    ASSERT_EQ(Get(key), is_kept ? std::optional<std::string>(small) : std::nullopt);
  }
  for (int i = 0; i < n; ++i) ASSERT_EQ(Get(absl::StrCat("large", i)), large);
}

// Index bytes for each key while growing, and bucket READs for each hit.
TEST_F(TableTest, TheIndexStaysSmallWhileItGrows) {
  Make(1024 * kMiB);
  double worst = 0, sum = 0, worst_reads = 0;
  int samples = 0;
  uint64_t next_sample = 1'000'000;
  // With a sanitizer only the beginning: too little for an average, which goes up and down as buckets split.
  const uint64_t keys = kSanitized ? 1'100'000 : 4'000'000;
  for (uint64_t n = 1; n <= keys; ++n) {
    now_ += 2000;  // half a million a second
    const std::string key = absl::StrCat("user", n);
    ASSERT_EQ(table_->Put(table_->HashOf(key), key, "12345678", Condition::kAlways, 0, now_).code, Code::kOk);
    if (n != next_sample) continue;
    next_sample = next_sample * 102 / 100;
    const TableStats stats = table_->stats();
    const double per_key = static_cast<double>(stats.index_bytes) / static_cast<double>(n);
    worst = std::max(worst, per_key);
    sum += per_key;
    ++samples;
    uint64_t reads = 0;
    constexpr int kReads = 2000;
    for (int i = 0; i < kReads; ++i) {
      ASSERT_TRUE(Get(absl::StrCat("user", 1 + (n * 7919 + static_cast<uint64_t>(i) * 104729) % n)).has_value());
      reads += reader_->lookup().bucket_reads();
    }
    if (stats.index_bytes > 0) worst_reads = std::max(worst_reads, static_cast<double>(reads) / kReads);
  }
  if (!kSanitized) {
    EXPECT_LE(sum / samples, 16.0);
  }
  EXPECT_LE(worst, 24.0);
  EXPECT_LE(worst_reads, 1.07);
  std::printf("index bytes for each key: %.2f on average, %.2f at worst; bucket READs for each hit: %.3f at worst\n",
              sum / samples, worst, worst_reads);
}

TEST_F(TableTest, ACopyHasTheVersionOfWhatItIsACopyOf) {
  Make(32 * kMiB, 4);
  const uint64_t hash = table_->HashOf("key");
  const uint64_t partition = static_cast<uint64_t>(table_->PartitionOf(hash));
  const auto copy = [&](uint64_t version, absl::string_view value) {
    Reservation reservation;
    const Code code = table_->ReserveCopy(hash, "key", value.size(), version, &reservation, now_);
    if (code != Code::kOk) return code;
    EXPECT_EQ(reservation.version, version);
    StoreBytes(reservation.value.data(), value.data(), value.size());
    return table_->Publish(reservation, PutParams(), now_).code;
  };
  const uint64_t version = uint64_t{1'000'000} << 2 | partition;
  ASSERT_EQ(copy(version, "first"), Code::kOk);
  EXPECT_EQ(Get("key"), "first");
  EXPECT_EQ(reader_->lookup().item().version, version);
  // Expect: an older one too, as when a write is undone; and the table's own versions are above all of them.
  ASSERT_EQ(copy(version - 4, "second"), Code::kOk);
  EXPECT_EQ(Get("key"), "second");
  EXPECT_EQ(reader_->lookup().item().version, version - 4);
  EXPECT_EQ(Put("key", "own").version, version + 4);
  EXPECT_EQ(Get("key"), "own");
  const uint64_t used = table_->stats().used_bytes;
  for (const uint64_t other : {version ^ 1, partition, kEndOfVersions | version, kDeadBit | version}) {
    EXPECT_EQ(copy(other, "v"), Code::kVersionMismatch) << other;
  }
  EXPECT_EQ(copy(version, std::string(17 * kMiB, 'v')), Code::kTooLarge);
  EXPECT_EQ(table_->stats().used_bytes, used);
  EXPECT_EQ(Put("key", "own").version, version + 8);
}

// While segments are split, merged and moved.
TEST_F(TableTest, AWalkShowsAllThatIsThereFromFirstToLast) {
  Make(64 * kMiB, 4);
  constexpr int kStay = 30'000, kCome = 120'000;
  for (int i = 0; i < kStay; ++i) ASSERT_EQ(Put(absl::StrCat("stays", i), absl::StrCat(i)).code, Code::kOk);
  EXPECT_GT(table_->stats().overflow_keys, 100u);
  std::vector<bool> seen(kStay);
  const auto see = [&](uint64_t hash, const ItemView& item) {
    EXPECT_EQ(hash, table_->HashOf(item.key));
    if (item.key[0] == 's') seen[std::stoul(std::string(item.value))] = true;
  };
  const uint64_t splits = table_->stats().splits, merges = table_->stats().merges;
  int come = 0, gone = 0;
  for (int partition = 0; partition < 4; ++partition) {
    WalkPlace place;
    while (table_->Walk(partition, &place, 20, see)) {
      for (int i = 0; i < 800 && come < kCome; ++i) Put(absl::StrCat("comes", come++), "v");
      for (int i = 0; i < 1600 && come == kCome && gone < kCome; ++i) Delete(absl::StrCat("comes", gone++));
    }
  }
  EXPECT_GT(table_->stats().splits, splits);
  EXPECT_GT(table_->stats().merges, merges);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
}

TEST_F(TableTest, ReservedMemoryIsPublishedOrComesBack) {
  Make(32 * kMiB);
  const std::string value(100000, 'p');
  const uint64_t hash = table_->HashOf("key");
  Reservation reservation;
  ASSERT_EQ(table_->Reserve(hash, "key", value.size(), &reservation, now_), Code::kOk);
  EXPECT_EQ(Get("key"), std::nullopt);
  ASSERT_EQ(reservation.value.size(), value.size());
  StoreBytes(reservation.value.data(), value.data(), value.size());
  EXPECT_EQ(Get("key"), std::nullopt);
  const WriteResult result = table_->Publish(reservation, Condition::kAbsent, 0, now_);
  EXPECT_EQ(result.code, Code::kOk);
  EXPECT_EQ(Get("key"), value);

  ASSERT_EQ(table_->Reserve(hash, "key", 10, &reservation, now_), Code::kOk);
  StoreBytes(reservation.value.data(), "0123456789", 10);
  EXPECT_EQ(table_->Publish(reservation, Condition::kVersion, result.version + 1, now_).code, Code::kVersionMismatch);
  EXPECT_EQ(Get("key"), value);

  const uint64_t free_bytes = table_->stats().free_bytes;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(table_->Reserve(hash, "key", 10 * kMiB, &reservation, now_), Code::kOk);
    table_->Abandon(reservation);
  }
  EXPECT_EQ(table_->stats().free_bytes, free_bytes);
}

TEST_F(TableTest, BadOptionsAreRefusedWithAReason) {
  TestMemory memory(64 * kMiB);
  TableOptions options;
  EXPECT_EQ(Table::Create(memory.span(), options).status().message(), "incarnation 0");
  options.incarnation = 1;
  EXPECT_FALSE(Table::Create(memory.span().subspan(0, kMiB), options).ok());
  options.partitions = 3;
  EXPECT_FALSE(Table::Create(memory.span(), options).ok());
  options.partitions = 64;
  EXPECT_TRUE(Table::Create(memory.span().subspan(0, kMinRegionBytes), options).ok());
}

}  // namespace
}  // namespace farlook::kv
