#include "kv/layout/item.h"

#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kSeed = 42;
constexpr uint64_t kVersion = 0x0102'0304'0506'0708;

// Key "user1", value "hello, farlook": the worked example of docs/layout.md.
constexpr char kGolden[] =
    "0eadd6c98050b850"  // checksum
    "00000000007fadd9"  // expires never: no time, and the tag of this version
    "0807060504030201"  // version
    "050000000e000000"  // 5 bytes of key, kind 0, flags 0, 14 bytes of value
    "7573657231000000"  // "user1", padding
    "68656c6c6f2c2066"  // "hello, f"
    "61726c6f6f6b";     // "arlook"

// Written field by field, not with the code under test.
std::string Item(absl::string_view key, absl::string_view value, uint64_t version = kVersion) {
  std::string item(32 + (key.size() + 7) / 8 * 8 + value.size(), '\0');
  StoreAs(item.data() + 8, ExpiryWord(version & ~kDeadBit, 0));
  StoreAs(item.data() + 16, version);
  StoreAs(item.data() + 24, static_cast<uint16_t>(key.size()));
  StoreAs(item.data() + 28, static_cast<uint32_t>(value.size()));
  item.replace(32, key.size(), key.data(), key.size());
  item.replace(item.size() - value.size(), value.size(), value.data(), value.size());
  StoreAs(item.data(), static_cast<uint64_t>(XXH3_64bits_withSeed(item.data() + 16, item.size() - 16, kSeed)));
  return item;
}

std::string Bytes(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string data(bytes, '\0');
  for (char& c : data) c = static_cast<char>(random());
  return data;
}

class ItemTest : public testing::Test {
 protected:
  ItemCheck Check(absl::string_view bytes, absl::string_view key) { return CheckItem(hasher_, bytes, key, &view_); }
  ItemCheck CheckSplit(absl::string_view bytes, absl::string_view key) {
    const size_t head = ValueOffset(key.size());
    if (bytes.size() < head) return ItemCheck::kTorn;
    return CheckSplitItem(hasher_, bytes.substr(0, head), bytes.substr(head), key, &view_);
  }

  const Hasher hasher_{kSeed};
  ItemView view_;
};

TEST_F(ItemTest, GoldenBytes) {
  const std::string golden = absl::HexStringToBytes(kGolden);
  ASSERT_EQ(absl::BytesToHexString(Item("user1", "hello, farlook")), kGolden);
  ASSERT_EQ(Check(golden, "user1"), ItemCheck::kValid);
  EXPECT_EQ(view_.version, kVersion);
  EXPECT_EQ(view_.expiry_ms, 0u);
  EXPECT_EQ(view_.kind, ItemKind::kValue);
  EXPECT_EQ(view_.flags, 0);
  EXPECT_EQ(view_.key, "user1");
  EXPECT_EQ(view_.value, "hello, farlook");
  EXPECT_EQ(ItemBytes(5, 14), golden.size());
  EXPECT_EQ(ItemChecksum(hasher_, golden.data(), golden.size()), 0x50b8'5080'c9d6'ad0eu);
}

TEST_F(ItemTest, TheChecksumOfAnItemThatSaysDeadIsThatOfTheLivingOne) {
  int apart = 0;
  for (size_t value_bytes = 0; value_bytes < 400; ++value_bytes) {
    std::string item = Item("user1", Bytes(value_bytes, 1));
    if (!HasChecksumApart(item.size())) continue;
    ++apart;
    const uint64_t checksum = ItemChecksum(hasher_, item.data(), item.size());
    StoreAs(item.data() + kVersionOffset, kVersion | kDeadBit);
    ASSERT_EQ(ItemChecksumApart(hasher_, kVersion, item.data(), item.size()), checksum) << value_bytes;
  }
  EXPECT_GT(apart, 200);
}

TEST_F(ItemTest, EachFlippedBitIsNoticed) {
  for (const size_t value_bytes : {0u, 1u, 14u, 250u}) {
    const std::string item = Item("user1", Bytes(value_bytes, 1));
    for (size_t bit = 0; bit < 8 * item.size(); ++bit) {
      std::string damaged = item;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
      const ItemCheck expected = bit == 8 * kVersionOffset + 63 ? ItemCheck::kDead : ItemCheck::kTorn;
      ASSERT_EQ(Check(damaged, "user1"), expected) << bit;
      ASSERT_EQ(CheckSplit(damaged, "user1"), expected) << bit;
    }
  }
}

TEST_F(ItemTest, WhatFollowsAnItemInItsMemoryMeansNothing) {
  const std::string item = Item("user1", "hello") + Bytes(64, 2);
  EXPECT_EQ(Check(item, "user1"), ItemCheck::kValid);
  EXPECT_EQ(view_.value, "hello");
  EXPECT_EQ(CheckSplit(item, "user1"), ItemCheck::kValid);
  EXPECT_EQ(view_.value, "hello");
}

TEST_F(ItemTest, ACutItemIsTorn) {
  const std::string item = Item("user1", "hello, farlook");
  for (size_t bytes = 0; bytes < item.size(); ++bytes) {
    // Exactly this size, so that asan detects each access past the end.
    const std::vector<char> cut(item.begin(), item.begin() + static_cast<int64_t>(bytes));
    EXPECT_EQ(Check({cut.data(), bytes}, "user1"), ItemCheck::kTorn) << bytes;
    EXPECT_EQ(CheckSplit({cut.data(), bytes}, "user1"), ItemCheck::kTorn) << bytes;
  }
}

TEST_F(ItemTest, ADeadItemIsDeadWhateverItsBody) {
  EXPECT_EQ(Check(Item("k", "v", kVersion | kDeadBit), "k"), ItemCheck::kDead);
  std::string body_to_come(64, '\0');
  StoreAs(body_to_come.data() + kVersionOffset, kVersion | kDeadBit);
  EXPECT_EQ(Check(body_to_come, "k"), ItemCheck::kDead);
  EXPECT_EQ(CheckSplit(body_to_come, "k"), ItemCheck::kDead);
}

TEST_F(ItemTest, AnotherKeysItemIsThatAndItsVersionIsToldToo) {
  for (const char* other : {"user2", "user", "user10", "use\0r", "zzzzzzzzzzzzzzzzzzzzzzzz", "u"}) {
    const std::string item = Item(other, "hello", 77);
    view_ = ItemView();
    EXPECT_EQ(Check(item, "user1"), ItemCheck::kOtherKey) << other;
    EXPECT_EQ(view_.version, 77u);
    view_ = ItemView();
    EXPECT_EQ(CheckSplit(item, "user1"), ItemCheck::kOtherKey) << other;
    EXPECT_EQ(view_.version, 77u);
  }
}

TEST_F(ItemTest, ImpossibleLengthsAreTornEvenWithARightChecksum) {
  std::string item = Item("user1", "hello");
  const auto with_lengths = [&](uint64_t lengths) {
    std::string changed = item;
    StoreAs(changed.data() + kLengthsOffset, lengths);
    StoreAs(changed.data(),
            static_cast<uint64_t>(XXH3_64bits_withSeed(changed.data() + 16, changed.size() - 16, kSeed)));
    return changed;
  };
  EXPECT_EQ(Check(with_lengths(ItemLengths{5, ItemKind::kValue, 0, 5}.word()), "user1"), ItemCheck::kValid);
  const ItemKind kind = ItemKind::kValue;
  for (const ItemLengths bad :
       {ItemLengths{0, kind, 0, 5}, ItemLengths{1025, kind, 0, 5}, ItemLengths{0xffff, kind, 0, 5},
        ItemLengths{5, kind, 0, 0xffff'ffff}, ItemLengths{5, kind, 0, 6}}) {
    EXPECT_EQ(Check(with_lengths(bad.word()), "user1"), ItemCheck::kTorn) << bad.word();
    EXPECT_EQ(CheckSplit(with_lengths(bad.word()), "user1"), ItemCheck::kTorn) << bad.word();
  }
}

TEST_F(ItemTest, KindAndFlagsAreBytesOfTheirOwn) {
  const ItemLengths lengths = ItemLengths::From(0x0000'0005'0301'0007);
  EXPECT_EQ(lengths.key_bytes, 7);
  EXPECT_EQ(lengths.kind, ItemKind::kCounter);
  EXPECT_EQ(lengths.flags, 3);
  EXPECT_EQ(lengths.value_bytes, 5u);
  EXPECT_EQ(lengths.word(), 0x0000'0005'0301'0007u);
}

TEST_F(ItemTest, AnExpiryIsBelievedOnlyWithTheTagOfItsVersion) {
  const std::string item = Item("user1", "hello");
  const auto with_expiry = [&](uint64_t word) {
    std::string changed = item;
    StoreAs(changed.data() + kExpiryOffset, word);
    return changed;
  };
  for (const uint64_t time : {uint64_t{0}, uint64_t{1}, uint64_t{217'000'000'000}, kExpiryTimeMask}) {
    const uint64_t word = ExpiryWord(kVersion, time);
    ASSERT_EQ(Check(with_expiry(word), "user1"), ItemCheck::kValid) << time;
    EXPECT_EQ(view_.expiry_ms, time);
    view_.expiry_ms = 99;
    ASSERT_EQ(CheckSplit(with_expiry(word), "user1"), ItemCheck::kValid) << time;
    EXPECT_EQ(view_.expiry_ms, time);
    for (const uint64_t bad :
         {uint64_t{0}, time, InvertTag(word), ExpiryWord(kVersion + 1, time), ExpiryWord(kVersion, time ^ 1) ^ 1}) {
      EXPECT_EQ(Check(with_expiry(bad), "user1"), ItemCheck::kTorn) << time;
      EXPECT_EQ(CheckSplit(with_expiry(bad), "user1"), ItemCheck::kTorn) << time;
    }
  }
}

TEST_F(ItemTest, SplitOrNotAtAllSizesTheAnswerIsTheSame) {
  for (const size_t key_bytes : {1, 7, 8, 9, 63, 64, 65, 1023, 1024}) {
    for (const size_t value_bytes : {0, 1, 7, 8, 9, 100, 215, 216, 217, 240, 241, 5000}) {
      const std::string key = Bytes(key_bytes, 3), value = Bytes(value_bytes, 4);
      const std::string item = Item(key, value) + std::string(40, 'x');
      ASSERT_EQ(CheckSplit(item, key), ItemCheck::kValid);
      EXPECT_EQ(view_.value, value);
      EXPECT_EQ(view_.key, key);
      EXPECT_EQ(view_.version, kVersion);
      std::string torn = item;
      torn[ValueOffset(key_bytes) + value_bytes - 1] ^= 1;
      EXPECT_EQ(CheckSplit(torn, key), Check(torn, key));
    }
  }
}

// The slots of two keys with equal fingerprints: another key's item may be shorter than the head of ours.
TEST_F(ItemTest, AnotherKeysItemThatEndsWithinTheHead) {
  const std::string key(1000, 'k');
  for (size_t value_bytes = 0; value_bytes < 1100; value_bytes += 13) {
    std::string item = Item("short", std::string(value_bytes, 'v'), 5);
    item.resize(2048, 'x');
    EXPECT_EQ(CheckSplit(item, key), ItemCheck::kOtherKey);
    item[48] ^= 1;
    if (value_bytes > 8) {
      EXPECT_EQ(CheckSplit(item, key), ItemCheck::kTorn);
    }
  }
  EXPECT_EQ(CheckSplitItem(hasher_, "too short a head", "rest", key, &view_), ItemCheck::kTorn);
}

}  // namespace
}  // namespace farlook::kv
