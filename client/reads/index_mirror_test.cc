#include "client/reads/index_mirror.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/layout/test_region.h"
#include "kv/layout/words.h"
#include "kv/read/directory.h"
#include "kv/table/table.h"

namespace farlook::client {
namespace {

constexpr uint64_t kRegionBytes = 32 << 20;

// A table, a reader's directory of it, and a mirror that the tests fill.
class IndexMirrorTest : public testing::Test {
 protected:
  IndexMirrorTest() : memory_(kRegionBytes), directory_(kRegionBytes, 1 << 20) {
    kv::TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.partitions = 2;
    table_ = *kv::Table::Create(memory_.span(), options);
  }

  uint64_t Hash(const std::string& key) const { return table_->HashOf(key); }
  void Put(const std::string& key, size_t bytes = 10) {
    kv::Code code = kv::Code::kMakingRoom;
    while (code == kv::Code::kMakingRoom) {
      code = table_->Put(Hash(key), key, std::string(bytes, 'v'), kv::Condition::kAlways, 0, now_ns_ += 1'000'000).code;
    }
    ASSERT_EQ(code, kv::Code::kOk);
  }
  void LoadDirectory() {
    auto step = directory_.Load();
    while (step == kv::Directory::Step::kRead) {
      const kv::Range range = directory_.wanted();
      step = *directory_.Feed(absl::string_view(memory_.span().data() + range.offset, range.bytes));
    }
  }
  void Attach(uint64_t bytes) {
    LoadDirectory();
    mirror_.Attach(MirrorMemory::Private(bytes), &directory_);
  }
  void Fill(uint64_t offset, uint64_t bytes) { mirror_.Fill(absl::string_view(memory_.span().data() + offset, bytes)); }
  void FillAll() {
    for (size_t i = 0; i < directory_.size(); ++i) Fill(directory_.At(i).offset(), kv::kSegmentBytes);
  }
  // Returns whether the mirror leads to this key's item.
  bool Leads(const std::string& key) const {
    const kv::Slot slot = mirror_.Find(Hash(key));
    if (slot.empty()) return false;
    EXPECT_TRUE(slot.ValidIn(kRegionBytes));
    const char* const item = memory_.span().data() + slot.offset();
    return absl::string_view(item + kv::kItemHeaderBytes, key.size()) == key;
  }

  kv::TestMemory memory_;
  std::unique_ptr<kv::Table> table_;
  kv::Directory directory_;
  IndexMirror mirror_;
  int64_t now_ns_ = 0;
};

TEST_F(IndexMirrorTest, WithoutMemoryItIsDisabled) {
  EXPECT_FALSE(mirror_.enabled());
  Fill(0, kv::kBucketBytes);
  mirror_.Attach(MirrorMemory(), &directory_);
  EXPECT_FALSE(mirror_.enabled());
  EXPECT_EQ(mirror_.bytes(), 0);
}

TEST_F(IndexMirrorTest, LeadsToAllItemsOfTheSegmentsThatWereRead) {
  for (int i = 0; i < 50'000; ++i) Put(absl::StrCat("key", i));
  ASSERT_GT(table_->stats().overflow_keys, 0u);
  ASSERT_GT(table_->stats().splits, 5u);
  Attach(kRegionBytes);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Leads(absl::StrCat("key", i)));
  FillAll();
  int led = 0;
  for (int i = 0; i < 50'000; ++i) led += Leads(absl::StrCat("key", i));
  EXPECT_GT(led, 49'900) << "but for those whose fingerprint another key of the bucket has too";
}

TEST_F(IndexMirrorTest, OneBucketIsEnoughForItsKeys) {
  Put("key");
  Attach(kRegionBytes);
  const uint64_t hash = Hash("key");
  Fill(directory_.Find(hash).offset() + uint64_t{kv::BucketOf(hash)} * kv::kBucketBytes, kv::kBucketBytes);
  EXPECT_TRUE(Leads("key"));
}

TEST_F(IndexMirrorTest, ASegmentThatWasSplitIsNotBelieved) {
  Put("key");
  Attach(kRegionBytes);
  FillAll();
  EXPECT_TRUE(Leads("key"));
  for (int i = 0; i < 50'000; ++i) Put(absl::StrCat("other", i));
  LoadDirectory();
  EXPECT_TRUE(mirror_.Find(Hash("key")).empty());
  FillAll();
  EXPECT_TRUE(Leads("key"));
}

TEST_F(IndexMirrorTest, WhatRepliesTellIsThere) {
  Attach(kRegionBytes);
  std::mt19937_64 random(1);
  const auto slot_of = [](uint64_t hash, uint64_t offset) { return kv::Slot(kv::FingerprintOf(hash), 3, offset); };
  const uint64_t hash = random();
  mirror_.Insert(hash, slot_of(hash, 64));
  EXPECT_EQ(mirror_.Find(hash).offset(), 64);
  mirror_.Insert(hash, slot_of(hash, 96));
  EXPECT_EQ(mirror_.Find(hash).offset(), 96);
  mirror_.Erase(hash);
  EXPECT_TRUE(mirror_.Find(hash).empty());
  mirror_.Erase(hash);
  // Expect: room for as many keys of a bucket as it has slots; one more replaces another.
  for (uint64_t i = 0; i < 20; ++i) {
    const uint64_t other = (hash & ~uint64_t{0xffff}) | i;
    mirror_.Insert(other, slot_of(other, 32 * (i + 1)));
    EXPECT_EQ(mirror_.Find(other).offset(), 32 * (i + 1));
  }
  int found = 0;
  for (uint64_t i = 0; i < 20; ++i) found += !mirror_.Find((hash & ~uint64_t{0xffff}) | i).empty();
  EXPECT_EQ(found, 15);
}

TEST_F(IndexMirrorTest, HasRoomForSegmentsThatLieAmongTheItems) {
  for (int i = 0; i < 50'000; ++i) Put(absl::StrCat("key", i), 400);
  ASSERT_GT(table_->stats().splits, 5u);
  Attach(std::bit_ceil(2 * table_->stats().segment_bytes));
  ASSERT_LT(mirror_.bytes(), kRegionBytes / 4);
  FillAll();
  int led = 0;
  for (int i = 0; i < 50'000; ++i) led += Leads(absl::StrCat("key", i));
  EXPECT_GT(led, 49'900) << "but for those whose fingerprint another key of the bucket has too";
}

// Ids grow with each split, merge and move. If only some segments merge and split again, ids are scattered.
TEST_F(IndexMirrorTest, HasRoomForSegmentsWhoseIdsAreScattered) {
  constexpr int kKeys = 100'000;
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys; ++i) keys.push_back(absl::StrCat("key", i));
  std::sort(keys.begin(), keys.end(), [this](const auto& a, const auto& b) { return Hash(a) < Hash(b); });
  for (const std::string& key : keys) Put(key);
  // A different part of the index shrinks each time, and grows again.
  for (int part = 0; part < 12; part += 2) {
    const auto first = keys.begin() + part * kKeys / 12, last = first + kKeys / 12;
    for (auto key = first; key != last; ++key) {
      table_->Delete(Hash(*key), *key, kv::Condition::kAlways, 0, now_ns_ += 1'000'000);
    }
    for (int i = 0; i < 500; ++i) table_->Tidy(i % 2, now_ns_ += 10'000'000);
    for (auto key = first; key != last; ++key) Put(*key);
  }
  ASSERT_GT(table_->stats().merges, 5u);
  Attach(std::bit_ceil(table_->stats().segment_bytes));
  FillAll();
  int led = 0;
  for (const std::string& key : keys) led += Leads(key);
  EXPECT_GT(led, kKeys * 85 / 100) << "of a mirror that has room for four thirds of the segments";
}

TEST_F(IndexMirrorTest, OneThatIsShorterThanTheIndexKeepsWhatCameLast) {
  for (int i = 0; i < 50'000; ++i) Put(absl::StrCat("key", i));
  Attach(2 * kv::kSegmentBytes);
  FillAll();
  int led = 0;
  for (int i = 0; i < 50'000; ++i) led += Leads(absl::StrCat("key", i));
  EXPECT_GT(led, 1'000);
  EXPECT_LT(led, 10'000);
}

// Whatever other processes store, a result has the fingerprint, or nothing is found. Run under the thread sanitizer.
TEST_F(IndexMirrorTest, NoiseIsAHintAsAnyOther) {
  for (int i = 0; i < 5'000; ++i) Put(absl::StrCat("key", i));
  LoadDirectory();
  MirrorMemory memory = MirrorMemory::Private(kRegionBytes);
  char* const words = memory.data();
  mirror_.Attach(std::move(memory), &directory_);
  std::atomic<bool> stop{false};
  std::thread hostile([&] {
    std::mt19937_64 random(5);
    while (!stop.load()) {
      // Valid descriptions with any link; slots with fingerprints of all keys.
      const kv::DirectoryEntry entry = directory_.At(random() % directory_.size());
      const auto number = static_cast<uint32_t>(random() % kv::kBuckets);
      const uint64_t image =
          (uint64_t{entry.segment_id()} * kv::kSegmentBytes + uint64_t{number} * kv::kBucketBytes) % kRegionBytes;
      kv::StoreWord(words + image, kv::BucketInfo(entry.segment_id(), number, random() % 32).word());
      kv::StoreWord(words + image + 8 * (1 + random() % 15), random());
      kv::StoreWord(words + image / kv::kSegmentBytes * kv::kSegmentBytes + random() % 4096 * 8, random());
    }
  });
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 5'000; ++i) {
      const uint64_t hash = Hash(absl::StrCat("key", i));
      const kv::Slot slot = mirror_.Find(hash);
      ASSERT_TRUE(slot.empty() || slot.fingerprint() == kv::FingerprintOf(hash));
      if (i % 7 == 0) mirror_.Insert(hash, kv::Slot(kv::FingerprintOf(hash), 3, 64));
      if (i % 11 == 0) mirror_.Erase(hash);
    }
  }
  stop = true;
  hostile.join();
}

}  // namespace
}  // namespace farlook::client
