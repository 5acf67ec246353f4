// Regions that recovery refuses, or believes in part.
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kv/layout/item.h"
#include "kv/layout/segment.h"
#include "kv/table/recovery_testing.h"

namespace farlook::kv {
namespace {

class RefusalTest : public RecoveryTest {
 protected:
  void SetUp() override {
    Make();
    for (int i = 0; i < 500; ++i) Put(absl::StrCat("key", i), absl::StrCat("value", i));
  }
  // Continues a copy after `damage`. Expects that a refusal leaves all bytes as they are.
  template <typename F>
  absl::Status After(F damage) {
    const std::unique_ptr<TestMemory> copy = Copy();
    damage(copy->span());
    const std::string before(copy->span().data(), copy->span().size());
    RecoveryReport report;
    const auto table = Recovery::Run(copy->span(), options_, {}, now_, &report);
    if (!table.ok()) {
      EXPECT_EQ(before, absl::string_view(copy->span().data(), copy->span().size()));
    }
    return table.status();
  }
  // The offset of a slot in the index.
  uint64_t PlaceOf(Slot slot) const {
    uint64_t at = kUnitBytes;
    while (LoadWord(memory_->span().data() + at) != slot.word()) at += 8;
    return at;
  }
  static void Flip(absl::Span<char> region, uint64_t offset, int bit) {
    region[offset] = static_cast<char>(region[offset] ^ 1 << bit);
  }
};

TEST_F(RefusalTest, AnotherLayoutOrSize) {
  const auto expect = [](const absl::Status& status, absl::StatusCode code, const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status;
  };
  const auto store = [](uint64_t offset, uint64_t word) {
    return [=](absl::Span<char> region) { StoreWord(region.data() + offset, word); };
  };
  expect(After(store(0, 0)), absl::StatusCode::kFailedPrecondition, "no Farlook region");
  expect(After(store(8, 3)), absl::StatusCode::kFailedPrecondition, "layout version 3");
  expect(After(store(16, 9)), absl::StatusCode::kDataLoss, "checksum");
  expect(After(store(kEpochWordOffset, 3)), absl::StatusCode::kFailedPrecondition, "group's member");
  expect(After(store(header().MarksOf(0), ~uint64_t{0})), absl::StatusCode::kDataLoss, "marks");
  options_.max_value_bytes /= 2;
  expect(After([](absl::Span<char>) {}), absl::StatusCode::kFailedPrecondition, "--max_value_bytes");
  options_.max_value_bytes *= 2;
  TestMemory larger(2 * kMinRegionBytes);
  std::memcpy(larger.span().data(), memory_->span().data(), kMinRegionBytes);
  RecoveryReport report;
  expect(Recovery::Run(larger.span(), options_, {}, now_, &report).status(), absl::StatusCode::kFailedPrecondition,
         "the same memory");
  expect(Recovery::Run(memory_->span().subspan(0, kMinRegionBytes / 2), options_, {}, now_, &report).status(),
         absl::StatusCode::kFailedPrecondition, "no Farlook region");
}

// A directory's entry that leads elsewhere is refused, with the entry's number.
TEST_F(RefusalTest, ADamagedDirectory) {
  const IndexState state(LoadWord(memory_->span().data() + kIndexStateOffset));
  for (uint64_t i = 0; i < uint64_t{1} << state.level(); ++i) {
    for (int bit = static_cast<int>(i % 3); bit < 64; bit += 3) {
      const absl::Status status = After([&](absl::Span<char> region) {
        Flip(region, header().DirectoryArray(state.level()) + 8 * i + static_cast<uint64_t>(bit) / 8, bit % 8);
      });
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      ASSERT_NE(status.message().find(absl::StrCat("entry ", i, " ")), absl::string_view::npos) << status;
    }
  }
}

TEST_F(RefusalTest, ADamagedPageMap) {
  Put("medium", std::string(9'000, 'm'));  // a block of several units
  Put("run", std::string(700'000, 'r'));
  const uint64_t first_unit = (header().ReservedBytes() + kUnitBytes - 1) / kUnitBytes;
  for (uint64_t unit = first_unit; unit < kMinRegionBytes / kUnitBytes; ++unit) {
    const uint64_t at = header().MapWordOf(unit * kUnitBytes);
    const uint64_t word = LoadWord(memory_->span().data() + at);
    if (word == 0 && unit % 16 != 0) continue;
    const absl::Status status =
        After([&](absl::Span<char> region) { StoreWord(region.data() + at, word | uint64_t{1} << 20); });
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << unit;
    ASSERT_NE(status.message().find(absl::StrCat("unit ", unit, " ")), absl::string_view::npos) << status;
    if (MapWord(word).use() != MapWord::Use::kIndex) continue;
    const absl::Status without = After([&](absl::Span<char> region) { StoreWord(region.data() + at, 0); });
    ASSERT_EQ(without.code(), absl::StatusCode::kDataLoss) << unit;
  }
}

// Flipped bits of slots and items cost at most these items, and no value is another one. A client that remembers where
// a lost item was finds it no more.
TEST_F(RefusalTest, DropsWhatCannotBeBelieved) {
  std::mt19937_64 random(1);
  uint64_t dropped = 0;
  std::map<std::string, Slot> places;
  for (const auto& [key, held] : model_) {
    ItemView item;
    places[key] = table_->Get(table_->HashOf(key), key, &item).slot;
  }
  const auto flip_and_check = [&](uint64_t offset, int bit) {
    std::unique_ptr<TestMemory> copy = Copy();
    Flip(copy->span(), offset, bit);
    RecoveryOptions options;
    options.verify = true;
    const Life life = Continue(std::move(copy), options);
    ASSERT_NE(life.table, nullptr);
    TestReader reader(life.memory->span());
    uint64_t lost = 0;
    for (const auto& [key, held] : model_) {
      const std::optional<Held> now = HeldIn(*life.table, key);
      ASSERT_EQ(now.value_or(held), held) << key << " after bit " << bit << " of " << offset;
      if (now.has_value()) continue;
      ++lost;
      ASSERT_EQ(reader.Get(key, places[key]), std::nullopt) << key << " after bit " << bit << " of " << offset;
    }
    // A slot with a wrong length takes pieces that follow.
    ASSERT_LE(lost, life.report.dropped);
    ASSERT_LE(life.report.dropped, 20u);
    dropped += life.report.dropped;
  };
  for (int i = 0; i < 300; ++i) {
    const std::string key = absl::StrCat("key", random() % 500);
    ItemView item;
    const Slot slot = table_->Get(table_->HashOf(key), key, &item).slot;
    const uint64_t bytes = ItemBytes(item.key.size(), item.value.size());
    uint64_t offset = slot.offset() + random() % bytes;
    if (i % 2 == 0) {  // the slot
      offset = PlaceOf(slot) + random() % 8;
    }
    flip_and_check(offset, static_cast<int>(random() % 8));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(dropped, 200u);
}

// A slot whose length is too great, and whose piece has those of others. These are dropped, but lie behind its item.
TEST_F(RefusalTest, EndsItemsInAPieceThatIsTooLong) {
  uint64_t dropped = 0;
  for (int i = 0; i < 500; i += 7) {
    const std::string key = absl::StrCat("key", i);
    ItemView item;
    const Slot slot = table_->Get(table_->HashOf(key), key, &item).slot;
    const Slot longer(slot.fingerprint(), static_cast<SizeClass>(slot.size_class() + 6), slot.offset());
    const std::unique_ptr<TestMemory> copy = Copy();
    StoreWord(copy->span().data() + PlaceOf(slot), longer.word());
    const Life life = Continue(CopyOf(copy->span()));
    ASSERT_NE(life.table, nullptr);
    dropped += life.report.dropped;
    TestReader reader(life.memory->span());
    for (const auto& [other, its] : model_) {
      if (HeldIn(*life.table, other).has_value()) continue;
      const Slot place = table_->Get(table_->HashOf(other), other, &item).slot;
      ASSERT_EQ(reader.Get(other, place), std::nullopt) << other << " behind " << key;
    }
  }
  EXPECT_GT(dropped, 70u);
}

// Recovery is interrupted after it has dropped a slot.
TEST_F(RefusalTest, EndsWhatAnInterruptedRecoveryDropped) {
  if (!StoreTracer::kWorksHere) GTEST_SKIP() << "no single steps here";
  ItemView item;
  const Slot slot = table_->Get(table_->HashOf("key7"), "key7", &item).slot;
  const std::unique_ptr<TestMemory> copy = Copy();
  Flip(copy->span(), PlaceOf(slot) + 7, 3);  // of the fingerprint
  Copies copies = InterruptRecovery(copy->span());
  EXPECT_GT(copies.size(), 3u);
  for (auto& crash : copies) {
    const Life life = Continue(std::move(crash));
    ASSERT_NE(life.table, nullptr);
    EXPECT_EQ(life.table->stats().keys, 499u);
    TestReader reader(life.memory->span());
    EXPECT_EQ(reader.Get("key7", slot), std::nullopt);
  }
}

// An item that is DEAD may be half written. The damage is one that only the checksum shows.
TEST_F(RefusalTest, RevivesNoDamagedItem) {
  ItemView item;
  const Slot slot = table_->Get(table_->HashOf("key7"), "key7", &item).slot;
  std::unique_ptr<TestMemory> copy = Copy();
  char* const version = copy->span().data() + slot.offset() + kVersionOffset;
  StoreWord(version, LoadWord(version) | kDeadBit);
  Flip(copy->span(), slot.offset() + ValueOffset(4), 1);
  const Life life = Continue(std::move(copy));
  ASSERT_NE(life.table, nullptr);
  EXPECT_EQ(life.report.dropped, 1u);
  EXPECT_EQ(HeldIn(*life.table, "key7"), std::nullopt);
}

// The redo piece completes the item of its target, of its version, and no other.
TEST_F(RefusalTest, RepeatsOnlyTheUpdateThatTheTargetNames) {
  Put("key7", "other7");  // in place
  ItemView item;
  const Slot slot = table_->Get(table_->HashOf("key7"), "key7", &item).slot;
  ASSERT_EQ(Mark(kRedoTarget), slot.word());
  const auto continued = [&](uint64_t flipped) {
    std::unique_ptr<TestMemory> copy = Copy();
    char* const version = copy->span().data() + slot.offset() + kVersionOffset;
    StoreWord(version, LoadWord(version) | kDeadBit);
    Flip(copy->span(), slot.offset() + ValueOffset(4), 1);
    if (flipped != 0) Flip(copy->span(), flipped, 1);
    const Life life = Continue(std::move(copy));
    return HeldIn(*life.table, "key7").value_or(Held{"dropped"}).value;
  };
  EXPECT_EQ(continued(0), "other7");
  EXPECT_EQ(continued(header().MarksOf(0) + kRedoTarget), "dropped");
  EXPECT_EQ(continued(slot.offset() + kVersionOffset), "dropped");
}

// A slot in a bucket where its key is not looked for.
TEST_F(RefusalTest, DropsASlotInAnotherBucket) {
  ItemView item;
  const Slot slot = table_->Get(table_->HashOf("key7"), "key7", &item).slot;
  std::unique_ptr<TestMemory> copy = Copy();
  char* const region = copy->span().data();
  StoreWord(region + PlaceOf(slot), 0);
  char* at = region + (PlaceOf(slot) / kBucketBytes ^ 1) * kBucketBytes;
  while (LoadWord(at) != 0) at += 8;
  StoreWord(at, slot.word());
  const Life life = Continue(std::move(copy));
  ASSERT_NE(life.table, nullptr);
  EXPECT_EQ(life.report.dropped, 1u);
  EXPECT_EQ(life.table->stats().keys, 499u);
}

// Two slots that name one piece.
TEST_F(RefusalTest, DropsASlotOfAnUsedPiece) {
  std::unique_ptr<TestMemory> copy = Copy();
  ItemView item;
  const Slot slot = table_->Get(table_->HashOf("key1"), "key1", &item).slot;
  char* const region = copy->span().data();
  char* at = region + PlaceOf(slot) / kBucketBytes * kBucketBytes;
  while (LoadWord(at) != 0) at += 8;
  StoreWord(at, slot.word());
  const Life life = Continue(std::move(copy));
  ASSERT_NE(life.table, nullptr);
  EXPECT_EQ(life.report.dropped, 1u);
  EXPECT_EQ(life.table->stats().keys, 500u);
}

// Entries as a split, a merge or a move leaves them, in a directory of hand-made segments.
class DirectoryTest : public testing::Test {
 protected:
  static constexpr int kLevel = 6;
  void SetUp() override {
    header_ = RegionHeader::For(kMinRegionBytes, 1);
    header_.level = kLevel;
    for (uint32_t id = 1; id <= 8; ++id) {
      for (uint32_t b = 0; b < kBuckets; ++b) {
        StoreWord(region() + OffsetOf(id) + b * kBucketBytes, BucketInfo(id, b, 0).word());
      }
    }
    // Seven segments serve the parts after the first.
    for (uint64_t i = 8; i < 64; ++i) Set(i, i < 16 ? 8 : 0);
    for (uint64_t i = 16; i < 64; ++i) Set(i, 7, i / 8);
  }
  char* region() { return memory_.span().data(); }
  static uint64_t OffsetOf(uint32_t id) { return (uint64_t{8} << 20) + id * kSegmentBytes; }
  void Set(uint64_t i, uint32_t id, uint64_t copy = 0) {
    // Further parts have segments of their own, each described as it must be.
    const uint32_t its = copy == 0 ? id : static_cast<uint32_t>(100 + copy);
    if (copy != 0) {
      for (uint32_t b = 0; b < kBuckets; ++b) {
        StoreWord(region() + OffsetOf(its) + b * kBucketBytes, BucketInfo(its, b, 0).word());
      }
    }
    StoreWord(region() + header_.DirectoryArray(kLevel) + 8 * i, DirectoryEntry(its, OffsetOf(its)).word());
  }
  // The segments of the first eight entries, after they were mended: "id" for each entry.
  std::string Mended(const std::string& ids) {
    for (uint64_t i = 0; i < 8; ++i) Set(i, static_cast<uint32_t>(ids[i] - '0'));
    RecoveryDirectory directory(region(), header_, 0);
    const absl::Status status = directory.Read();
    if (!status.ok()) return std::string(status.message());
    directory.Mend();
    std::string now;
    uint64_t served = 0;
    for (const auto& segment : directory.segments()) {
      const uint64_t first = segment.position >> (64 - kLevel), count = uint64_t{1} << (kLevel - segment.depth);
      EXPECT_EQ(first, served);
      EXPECT_EQ(first % count, 0u);
      served += count;
    }
    EXPECT_EQ(served, 64u);
    for (uint64_t i = 0; i < 8; ++i) {
      const DirectoryEntry entry(LoadWord(region() + header_.DirectoryArray(kLevel) + 8 * i));
      now += static_cast<char>('0' + entry.segment_id());
    }
    return now;
  }

  TestMemory memory_{kMinRegionBytes};
  RegionHeader header_;
};

TEST_F(DirectoryTest, MendsHalfDoneChanges) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"11111111", "11111111"},                            // whole
      {"21111111", "11111111"}, {"22111111", "11111111"},  // a split's first half
      {"22211111", "11111111"}, {"22221111", "22221111"}, {"22223111", "22221111"},
      {"22223311", "22223311"},                                                      // its second half
      {"22223331", "22223333"}, {"31112222", "11112222"}, {"33112222", "33112222"},  // a merge of 1 and 2
      {"33312222", "33332222"}, {"33333222", "33333333"}, {"12111111", "11111111"},  // this itself was interrupted
  };
  for (const auto& [entries, mended] : cases) EXPECT_EQ(Mended(entries), mended) << entries;
  EXPECT_NE(Mended("12341111").find("are those of no split"), std::string::npos);
}

}  // namespace
}  // namespace farlook::kv
