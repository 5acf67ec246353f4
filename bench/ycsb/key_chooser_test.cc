#include "bench/ycsb/key_chooser.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

constexpr int kDraws = 200'000;

std::map<int64_t, int> Count(KeyChooser* chooser, uint64_t seed, int draws = kDraws) {
  Random random(seed);
  std::map<int64_t, int> seen;
  for (int i = 0; i < draws; ++i) ++seen[chooser->Next(&random)];
  return seen;
}

TEST(KeyChooserTest, NamesAreYcsbsAndOthersAreRefused) {
  for (const char* name : {"uniform", "zipfian", "latest"}) {
    ASSERT_TRUE(ParseDistribution(name).ok()) << name;
    EXPECT_EQ(DistributionName(*ParseDistribution(name)), name);
  }
  EXPECT_NE(ParseDistribution("zipf").status().message().find("uniform, zipfian"), absl::string_view::npos);
}

TEST(KeyChooserTest, UniformIsUniform) {
  AcknowledgedCounter inserted(1000);
  const auto chooser = NewKeyChooser(Distribution::kUniform, {.first = 900, .count = 100}, &inserted);
  const std::map<int64_t, int> seen = Count(chooser.get(), 11);
  EXPECT_EQ(seen.begin()->first, 900);
  EXPECT_EQ(seen.rbegin()->first, 999);
  // Chi-squared with 99 degrees of freedom: beyond 160 once in ten thousand.
  double chi = 0;
  for (const auto& [key, n] : seen) chi += std::pow(n - kDraws / 100.0, 2) / (kDraws / 100.0);
  EXPECT_LT(chi, 160);
}

TEST(KeyChooserTest, ZipfianNeverAsksForWhatIsNotInsertedYet) {
  AcknowledgedCounter inserted(1000);
  const auto chooser =
      NewKeyChooser(Distribution::kZipfian, {.first = 0, .count = 1000, .expected_new_keys = 1000}, &inserted);
  std::map<int64_t, int> seen = Count(chooser.get(), 12);
  EXPECT_LE(seen.rbegin()->first, 999);

  // Expect: after inserts, new keys are asked for, and the most popular key is still the same.
  const auto most = [](const std::map<int64_t, int>& counts) {
    int64_t best = counts.begin()->first;
    for (const auto& [key, n] : counts) {
      if (n > counts.at(best)) best = key;
    }
    return best;
  };
  const int64_t popular = most(seen);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(inserted.Acknowledge(inserted.Next()));
  seen = Count(chooser.get(), 13);
  EXPECT_GT(seen.rbegin()->first, 999);
  EXPECT_LE(seen.rbegin()->first, 1999);
  // The first rank hashes to its place modulo 2001; only if that is an old key could it be seen before.
  if (most(seen) <= 999) {
    EXPECT_EQ(most(seen), popular);
  }
}

TEST(KeyChooserTest, LatestFollowsTheNewest) {
  AcknowledgedCounter inserted(1000);
  const auto chooser = NewKeyChooser(Distribution::kLatest, {.count = 1000, .record_count = 1000}, &inserted);
  const std::map<int64_t, int> before = Count(chooser.get(), 14);
  EXPECT_EQ(before.rbegin()->first, 999);
  EXPECT_GE(before.begin()->first, 0);
  // zeta over 999 items is 7.7277...: the newest gets that share.
  EXPECT_NEAR(before.at(999), kDraws / 7.7279, 1000);

  for (int i = 0; i < 50; ++i) ASSERT_TRUE(inserted.Acknowledge(inserted.Next()));
  const std::map<int64_t, int> after = Count(chooser.get(), 15);
  EXPECT_EQ(after.rbegin()->first, 1049);
  EXPECT_GT(after.at(1049), after.at(999));
}

TEST(KeyChooserTest, LatestOfOneRecordIsThatRecord) {
  AcknowledgedCounter inserted(1);
  const auto chooser = NewKeyChooser(Distribution::kLatest, {.count = 1, .record_count = 1}, &inserted);
  EXPECT_EQ(Count(chooser.get(), 16, 100).size(), 1u);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(inserted.Acknowledge(inserted.Next()));
  const std::map<int64_t, int> seen = Count(chooser.get(), 17, 10000);
  EXPECT_GE(seen.begin()->first, 0);
  EXPECT_EQ(seen.rbegin()->first, 5);
}

TEST(KeyChooserTest, ClonesDrawTheSameFromTheSameSeed) {
  for (Distribution distribution : {Distribution::kUniform, Distribution::kZipfian, Distribution::kLatest}) {
    AcknowledgedCounter inserted(1000);
    const auto chooser = NewKeyChooser(distribution, {.count = 1000, .record_count = 1000}, &inserted);
    const auto clone = chooser->Clone();
    EXPECT_EQ(Count(chooser.get(), 21, 1000), Count(clone.get(), 21, 1000));
  }
}

}  // namespace
}  // namespace farlook::bench
