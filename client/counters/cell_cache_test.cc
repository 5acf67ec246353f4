#include "client/counters/cell_cache.h"

#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farlook::client {
namespace {

TEST(CellCacheTest, FindsWhatWasInsertedLastAndTakesNoMemoryBefore) {
  CellCache cache(4096);
  EXPECT_EQ(cache.Find({1, 2}), 0u);
  EXPECT_EQ(cache.memory_bytes(), 0u);
  cache.Insert({1, 2}, 64);
  EXPECT_EQ(cache.memory_bytes(), 4096u);
  EXPECT_EQ(cache.Find({1, 2}), 64u);
  cache.Insert({1, 2}, 128);
  EXPECT_EQ(cache.Find({1, 2}), 128u);
  cache.Insert({2, 2}, 192);
  EXPECT_EQ(cache.Find({1, 2}), 128u);
  EXPECT_EQ(cache.Find({2, 2}), 192u);
}

TEST(CellCacheTest, AKeyWithTheSameFirstHashIsAnother) {
  CellCache cache(4096);
  cache.Insert({1, 2}, 64);
  EXPECT_EQ(cache.Find({1, 3}), 0u);
  cache.Insert({1, 3}, 128);
  EXPECT_EQ(cache.Find({1, 2}), 64u);
  // Expect: a deletion names only the first hash, so both are dropped.
  cache.Erase(1);
  EXPECT_EQ(cache.Find({1, 2}), 0u);
  EXPECT_EQ(cache.Find({1, 3}), 0u);
}

TEST(CellCacheTest, AfterEraseOrClearNoOlderEntryComesBack) {
  CellCache cache(64);  // everything in one bucket
  cache.Insert({1, 1}, 64);
  cache.Insert({2, 2}, 128);
  cache.Insert({1, 1}, 192);
  cache.Insert({1, 1}, 256);
  cache.Erase(1);
  EXPECT_EQ(cache.Find({1, 1}), 0u);
  cache.Insert({3, 3}, 320);
  cache.Clear();
  EXPECT_EQ(cache.Find({3, 3}), 0u);
}

TEST(CellCacheTest, WithoutMemoryItFindsNothing) {
  CellCache cache(63);
  cache.Insert({1, 1}, 64);
  EXPECT_EQ(cache.Find({1, 1}), 0u);
}

TEST(CellCacheTest, IdsDependOnAllOfTheKey) {
  const kv::Hasher hasher(99);
  const CellCache::Id a = CellCache::IdOf(hasher, "a"), b = CellCache::IdOf(hasher, "b");
  EXPECT_NE(a.hash, b.hash);
  EXPECT_NE(a.check, b.check);
  EXPECT_NE(a.hash, a.check);
  EXPECT_EQ(a.hash, hasher("a")) << "the server names deleted counters by the table's hash";
}

TEST(CellCacheTest, RandomUseNeverFindsWhatIsNotTheLatest) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  CellCache cache(1024);
  std::map<uint64_t, uint64_t> latest;
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t key = random() % 100;
    const CellCache::Id id{key * 0x9e3779b97f4a7c15u, key};
    switch (random() % 3) {
      case 0:
        cache.Insert(id, latest[key] = 64 * (1 + random() % 1000));
        break;
      case 1:
        cache.Erase(id.hash);
        latest.erase(key);
        break;
      case 2: {
        const uint64_t found = cache.Find(id);
        if (found != 0) {
          ASSERT_EQ(latest.count(key), 1u);
          ASSERT_EQ(found, latest[key]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace farlook::client
