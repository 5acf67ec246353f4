#include "kv/heap/units.h"

#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

TEST(UnitsTest, ABlockComesFromTheFullestPageAndThereFromTheHighEnd) {
  Units units(1, 128);
  EXPECT_EQ(units.free(), 127u);
  EXPECT_EQ(units.TakeBlock(32), 96u);
  // Page 0 has 31 free units, pages 1 and 2 have 32.
  EXPECT_EQ(units.TakeBlock(1), 31u);
  EXPECT_EQ(units.TakeBlock(8), 16u);
  EXPECT_EQ(units.TakeBlock(32), 64u);
  EXPECT_EQ(units.TakeBlock(32), 32u);
  EXPECT_EQ(units.TakeBlock(32), 0u);
  // Free now: 1 .. 15 and 24 .. 30.
  EXPECT_EQ(units.TakeBlock(8), 8u);
  EXPECT_EQ(units.TakeBlock(8), 0u);
  EXPECT_EQ(units.TakeRun(7), 24u);
  EXPECT_EQ(units.TakeLowest(), 1u);
  EXPECT_EQ(units.TakeRun(7), 0u);
  EXPECT_EQ(units.TakeRun(6), 2u);
  EXPECT_EQ(units.free(), 0u);
  EXPECT_EQ(units.TakeLowest(), 0u);
  EXPECT_EQ(units.TakeBlock(1), 0u);
}

TEST(UnitsTest, ARunCrossesPages) {
  Units units(1, 160);
  units.Take(1, 159);
  units.Give(20, 30);
  EXPECT_EQ(units.longest_run(), 30u);
  EXPECT_EQ(units.TakeRun(31), 0u);
  EXPECT_EQ(units.TakeRun(29), 21u);
  units.Give(60, 80);
  EXPECT_EQ(units.longest_run(), 80u);
  EXPECT_EQ(units.TakeRun(80), 60u);
}

// Compared with a plain list of bits.
TEST(UnitsTest, RandomTakesAndGivesAreWhatAListOfBitsSays) {
  for (const uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 random(seed);
    const uint64_t first = 3, end = 700 + random() % 300;
    Units units(first, end);
    std::vector<bool> free(end, true);
    for (uint64_t i = 0; i < first; ++i) free[i] = false;
    std::map<uint64_t, uint64_t> taken;
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 5 < 2 && !taken.empty()) {
        auto at = taken.lower_bound(random() % end);
        if (at == taken.end()) at = taken.begin();
        units.Give(at->first, at->second);
        for (uint64_t i = 0; i < at->second; ++i) free[at->first + i] = true;
        taken.erase(at);
      } else {
        uint64_t count = 1, got = 0;
        switch (random() % 4) {
          case 0:
            got = units.TakeLowest();
            break;
          case 1:
            count = random() % 2 ? 8 : random() % 2 ? 32 : 1;
            got = units.TakeBlock(static_cast<uint32_t>(count));
            ASSERT_EQ(got % count, 0u);
            break;
          default:
            count = 1 + random() % (random() % 8 == 0 ? 200 : 30);
            got = units.TakeRun(count);
            uint64_t longest = 0, run = 0;
            for (uint64_t i = 0; i < end; ++i) longest = std::max(longest, run = free[i] ? run + 1 : 0);
            ASSERT_EQ(got != 0, longest >= count) << "seed " << seed << " step " << step;
        }
        if (got == 0) continue;
        for (uint64_t i = 0; i < count; ++i) {
          ASSERT_TRUE(free[got + i]) << "seed " << seed << " step " << step;
          free[got + i] = false;
        }
        taken[got] = count;
      }
      uint64_t n = 0;
      for (const bool is_free : free) n += is_free;
      ASSERT_EQ(units.free(), n);
    }
    for (const auto& [at, count] : taken) units.Give(at, count);
    EXPECT_EQ(units.longest_run(), end - first) << "all of it is one run again";
  }
}

}  // namespace
}  // namespace farlook::kv
