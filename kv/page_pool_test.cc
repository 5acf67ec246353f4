#include "kv/page_pool.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

TEST(PagePool, SinglePagesComeFromTheLowEndAndRunsFromTheHighEnd) {
  PagePool pool(2, 12);
  EXPECT_EQ(pool.free_pages(), 10u);
  EXPECT_EQ(pool.Allocate(1), 2u);
  EXPECT_EQ(pool.Allocate(1), 3u);
  EXPECT_EQ(pool.Allocate(3), 9u);
  EXPECT_EQ(pool.Allocate(5), 4u);
  EXPECT_EQ(pool.free_pages(), 0u);
  EXPECT_EQ(pool.Allocate(1), 0u);
  pool.Free(3, 1);
  EXPECT_EQ(pool.Allocate(2), 0u);
  EXPECT_EQ(pool.Allocate(1), 3u);
}

TEST(PagePool, NothingIsGivenForNothing) {
  PagePool pool(1, 4);
  EXPECT_EQ(pool.Allocate(0), 0u);
  EXPECT_EQ(pool.Allocate(4), 0u);
  EXPECT_EQ(pool.free_pages(), 3u);
}

TEST(PagePool, RandomRunsNeverOverlapAndNoneIsLost) {
  constexpr uint64_t kFirst = 3, kEnd = 200;
  PagePool pool(kFirst, kEnd);
  std::vector<bool> used(kEnd);
  std::vector<std::pair<uint64_t, uint64_t>> runs;
  std::mt19937_64 random(1);
  uint64_t free_pages = kEnd - kFirst;
  for (int i = 0; i < 200'000; ++i) {
    if (random() % 2 == 0) {
      const uint64_t count = random() % 3 == 0 ? 1 + random() % 20 : 1;
      const uint64_t first = pool.Allocate(count);
      if (first == 0) {
        // Expect: there really is no such run.
        uint64_t run = 0, longest = 0;
        for (uint64_t page = kFirst; page < kEnd; ++page) longest = std::max(longest, run = used[page] ? 0 : run + 1);
        ASSERT_LT(longest, count);
        continue;
      }
      ASSERT_GE(first, kFirst);
      ASSERT_LE(first + count, kEnd);
      for (uint64_t page = first; page < first + count; ++page) {
        ASSERT_FALSE(used[page]);
        used[page] = true;
      }
      runs.emplace_back(first, count);
      free_pages -= count;
    } else if (!runs.empty()) {
      std::swap(runs[random() % runs.size()], runs.back());
      const auto [first, count] = runs.back();
      runs.pop_back();
      pool.Free(first, count);
      for (uint64_t page = first; page < first + count; ++page) used[page] = false;
      free_pages += count;
    }
    ASSERT_EQ(pool.free_pages(), free_pages);
  }
}

}  // namespace
}  // namespace farlook::kv
