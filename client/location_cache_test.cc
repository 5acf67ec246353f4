#include "client/location_cache.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "kv/slot.h"

namespace farlook::client {
namespace {

kv::Slot SlotFor(uint64_t hash, uint64_t offset) { return kv::Slot(kv::FingerprintOf(hash), 3, offset); }

// Hashes of the same line of a cache of few lines: the top bits pick it.
uint64_t HashOf(uint64_t fingerprint) { return uint64_t{0x1234'5678'9abc} << 16 | fingerprint; }

TEST(LocationCache, IsDisabledUntilItHasMemory) {
  LocationCache cache;
  EXPECT_FALSE(cache.enabled());
  cache.Insert(HashOf(1), SlotFor(HashOf(1), 64));
  cache.Erase(HashOf(1));
  cache.Clear();
  EXPECT_TRUE(cache.Find(HashOf(1)).empty());
  cache.Resize(63);
  EXPECT_FALSE(cache.enabled());
  EXPECT_EQ(cache.memory_bytes(), 0);
}

TEST(LocationCache, FindsWhatWasInsertedAndForgetsWhatWasErased) {
  LocationCache cache;
  cache.Resize(1 << 16);
  cache.Insert(HashOf(1), SlotFor(HashOf(1), 64));
  cache.Insert(HashOf(2), SlotFor(HashOf(2), 96));
  EXPECT_EQ(cache.Find(HashOf(1)).offset(), 64);
  EXPECT_EQ(cache.Find(HashOf(2)).offset(), 96);
  EXPECT_TRUE(cache.Find(HashOf(3)).empty());
  cache.Erase(HashOf(1));
  EXPECT_TRUE(cache.Find(HashOf(1)).empty());
  EXPECT_EQ(cache.Find(HashOf(2)).offset(), 96);
  cache.Clear();
  EXPECT_TRUE(cache.Find(HashOf(2)).empty());
}

TEST(LocationCache, KeepsTheLastLocationOfAKey) {
  LocationCache cache;
  cache.Resize(64);
  for (uint64_t i = 1; i <= 20; ++i) cache.Insert(HashOf(7), SlotFor(HashOf(7), 32 * i));
  EXPECT_EQ(cache.Find(HashOf(7)).offset(), 640);
  // Expect: it took one entry, so seven others fit beside it.
  for (uint64_t i = 1; i <= 7; ++i) cache.Insert(HashOf(100 + i), SlotFor(HashOf(100 + i), 32));
  EXPECT_EQ(cache.Find(HashOf(7)).offset(), 640);
}

TEST(LocationCache, AFullLineLosesWhatWasNotUsed) {
  LocationCache cache;
  cache.Resize(64);
  for (uint64_t i = 1; i <= 8; ++i) cache.Insert(HashOf(i), SlotFor(HashOf(i), 32 * i));
  // The oldest is used again and again, so it climbs.
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(cache.Find(HashOf(1)).empty());
  for (uint64_t i = 11; i <= 17; ++i) cache.Insert(HashOf(i), SlotFor(HashOf(i), 32 * i));
  EXPECT_FALSE(cache.Find(HashOf(1)).empty());
  for (uint64_t i = 2; i <= 8; ++i) EXPECT_TRUE(cache.Find(HashOf(i)).empty()) << i;
}

TEST(LocationCache, AFingerprintOfZeroIsAsGoodAsAnother) {
  LocationCache cache;
  cache.Resize(64);
  cache.Erase(HashOf(0));
  EXPECT_TRUE(cache.Find(HashOf(0)).empty());
  cache.Insert(HashOf(1), SlotFor(HashOf(1), 64));
  cache.Insert(HashOf(0), SlotFor(HashOf(0), 32));
  EXPECT_EQ(cache.Find(HashOf(0)).offset(), 32);
  cache.Erase(HashOf(0));
  EXPECT_TRUE(cache.Find(HashOf(0)).empty());
  EXPECT_EQ(cache.Find(HashOf(1)).offset(), 64);
}

TEST(LocationCache, NeverTakesMoreThanItsBound) {
  LocationCache cache;
  cache.Resize(1000);
  EXPECT_LE(cache.memory_bytes(), 1000);
  // Expect: hashes all over the range find a line (address sanitizer watches).
  for (uint64_t i = 0; i < 100'000; ++i) {
    const uint64_t hash = i * 0x9e3779b97f4a7c15;
    cache.Insert(hash, SlotFor(hash, 32));
    EXPECT_FALSE(cache.Find(hash).empty());
  }
  cache.Insert(~uint64_t{0}, SlotFor(~uint64_t{0}, 32));
  EXPECT_FALSE(cache.Find(~uint64_t{0}).empty());
}

}  // namespace
}  // namespace farlook::client
