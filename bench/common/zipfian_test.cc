// The expected numbers were computed in Java, with YCSB's formulas in YCSB's order of operations.
#include "bench/common/zipfian.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

const std::vector<double> kUniform = {0.0, 0.01, 0.0378, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999999};

struct GoldenDraws {
  int64_t items;
  double zetan;
  double eta;
  std::vector<int64_t> draws;  // for each of kUniform
};

TEST(ZipfianTest, DrawsEqualThoseOfJava) {
  const std::vector<GoldenDraws> golden = {
      {10, 2.9561075165103636, 0.03248997361874519, {0, 0, 0, 0, 0, 0, 1, 4, 7, 9, 9}},
      {1000, 7.728953217284729, 0.07480608670689805, {0, 0, 0, 0, 0, 3, 22, 151, 471, 927, 999}},
      {1000000, 15.391849746037371, 0.1362913333941101, {0, 0, 0, 0, 2, 20, 860, 31220, 253526, 872507, 999986}},
  };
  for (const GoldenDraws& expected : golden) {
    SCOPED_TRACE(expected.items);
    const ZipfianGenerator zipfian(0, expected.items - 1);
    EXPECT_NEAR(zipfian.zetan(), expected.zetan, 1e-12 * expected.zetan);
    EXPECT_NEAR(zipfian.eta(), expected.eta, 1e-12);
    for (size_t i = 0; i < kUniform.size(); ++i) EXPECT_EQ(zipfian.Draw(kUniform[i]), expected.draws[i]) << kUniform[i];
  }
}

TEST(ZipfianTest, TheLowerBoundIsAdded) {
  const ZipfianGenerator zipfian(500, 1499);
  EXPECT_EQ(zipfian.Draw(0), 500);
  EXPECT_EQ(zipfian.Draw(0.5), 522);
}

TEST(ZipfianTest, GrowingExtendsZetaAndKeepsTheFirstItemsInEta) {
  Random random(1);
  ZipfianGenerator zipfian(0, 999);
  zipfian.Next(&random, 1200);
  zipfian.Next(&random, 1500);
  EXPECT_NEAR(zipfian.zetan(), 8.164121812765377, 1e-12);
  EXPECT_NEAR(zipfian.eta(), 0.07385536241151996, 1e-12);
  // Expect: fewer items change nothing.
  zipfian.Next(&random, 100);
  EXPECT_NEAR(zipfian.zetan(), 8.164121812765377, 1e-12);
}

TEST(ZipfianTest, OneItemIsAlwaysThatItem) {
  Random random(1);
  ZipfianGenerator zipfian(7, 7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(zipfian.Next(&random), 7);
}

// Rank k has probability 1 / (k^theta * zetan); Gray's method is exact for the first two and close for the others.
TEST(ZipfianTest, FrequenciesFollowTheLaw) {
  constexpr int kDraws = 1'000'000;
  Random random(42);
  ZipfianGenerator zipfian(0, 999);
  std::vector<int> seen(1000);
  for (int i = 0; i < kDraws; ++i) ++seen.at(static_cast<size_t>(zipfian.Next(&random)));
  for (int rank : {1, 2}) {
    const double expected = kDraws / (std::pow(rank, kZipfianConstant) * zipfian.zetan());
    EXPECT_NEAR(seen[static_cast<size_t>(rank - 1)], expected, 5 * std::sqrt(expected)) << rank;
  }
  // Expect: the 100 most frequent have their share, within the error of the method's approximation (0.0108).
  double top_law = 0, top_seen = 0;
  for (size_t rank = 1; rank <= 100; ++rank) {
    top_law += 1 / (std::pow(static_cast<double>(rank), kZipfianConstant) * zipfian.zetan());
    top_seen += seen[rank - 1];
  }
  EXPECT_NEAR(top_seen / kDraws, top_law, 0.015);
}

TEST(ScrambledZipfianTest, DrawsEqualThoseOfJava) {
  const ScrambledZipfianGenerator of_1001(0, 1000), of_1000001(0, 1000000);
  const std::vector<int64_t> expected_1001 = {144, 144, 610, 610, 942, 809, 367, 767, 991, 745, 383};
  const std::vector<int64_t> expected_1000001 = {801320, 801320, 216074, 216074, 293804, 84930,
                                                 686676, 874340, 736200, 153002, 634191};
  for (size_t i = 0; i < kUniform.size(); ++i) {
    EXPECT_EQ(of_1001.Draw(kUniform[i]), expected_1001[i]) << kUniform[i];
    EXPECT_EQ(of_1000001.Draw(kUniform[i]), expected_1000001[i]) << kUniform[i];
  }
}

TEST(ScrambledZipfianTest, EveryDrawLiesWithinTheBounds) {
  Random random(3);
  ScrambledZipfianGenerator zipfian(100, 110);
  std::vector<int> seen(11);
  for (int i = 0; i < 10000; ++i) ++seen.at(static_cast<size_t>(zipfian.Next(&random) - 100));
  for (int n : seen) EXPECT_GT(n, 0);
}

}  // namespace
}  // namespace farlook::bench
