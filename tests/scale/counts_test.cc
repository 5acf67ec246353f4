#include "tests/scale/counts.h"

#include <string>

#include "gtest/gtest.h"

namespace farlook::scale {
namespace {

Load Small() {
  Load load;
  load.keys = 300;
  load.operations = 4'000;
  return load;
}

TEST(CountsTest, WarmGetsAreOneReadAndNoMessage) {
  const Measured m = Measure(Small());
  EXPECT_EQ(m.failed, 0u);
  EXPECT_EQ(m.gets, 4'000u);
  EXPECT_GE(m.reads_per_get, 1);
  EXPECT_LT(m.reads_per_get, 1.01);  // two keys of a bucket may have one fingerprint
  EXPECT_EQ(m.messages_per_get, 0);
  EXPECT_GE(m.counts.item_bytes, 1'000);
}

TEST(CountsTest, APutIsOneMessageAndItsReply) {
  Load load = Small();
  load.reads = 0.5;
  const Measured m = Measure(load);
  EXPECT_EQ(m.failed, 0u);
  EXPECT_GT(m.puts, 1'500u);
  EXPECT_DOUBLE_EQ(m.messages_per_put, 1);
  EXPECT_DOUBLE_EQ(m.replies_per_request, 1);
  // Items that other clients wrote have moved, and their old places have hints.
  EXPECT_GT(m.counts.extra_reads, 0.05);
  EXPECT_GT(m.reads_per_get, 1.1);
}

// YCSB's workload A: items that are written in place stay where other clients remember them.
TEST(CountsTest, UpdatesOfSmallItemsCostReadersNothing) {
  Load load;
  load.reads = 0.5;
  load.clients = 64;
  load.value_bytes = 100;
  load.operations = 20'000;
  const Measured m = Measure(load);
  EXPECT_EQ(m.failed, 0u);
  RecordProperty("reads_per_get", std::to_string(m.reads_per_get));
  EXPECT_LE(m.reads_per_get, 1.05);
  EXPECT_EQ(m.messages_per_get, 0);
}

// A client that knows no key, and no bucket, READs one of each.
TEST(CountsTest, ColdGetsAreTwoReadsAndOneAfterWarm) {
  Load load;
  load.keys = 100'000;
  load.known = Known::kNothing;
  load.value_bytes = 100;
  load.operations = 4'000;
  const Measured cold = Measure(load);
  EXPECT_EQ(cold.failed, 0u);
  EXPECT_GE(cold.reads_per_get, 1.9);
  EXPECT_LE(cold.reads_per_get, 2.1);
  load.known = Known::kIndex;
  const Measured warmed = Measure(load);
  EXPECT_EQ(warmed.failed, 0u);
  EXPECT_EQ(warmed.gets, 4'000u);
  RecordProperty("reads_per_get", std::to_string(warmed.reads_per_get));
  EXPECT_LE(warmed.reads_per_get, 1.02);
  EXPECT_EQ(warmed.messages_per_get, 0);
}

TEST(CountsTest, SharesAddUpToTheReads) {
  Load load = Small();
  load.reads = 0.5;
  load.clients = 32;
  const Measured m = Measure(load);
  const Counts& c = m.counts;
  EXPECT_GT(c.extra_reads, 0);  // so many writers collide
  EXPECT_NEAR(c.one_read + 2 * c.two_reads + 3 * c.three_reads + c.extra_reads, m.reads_per_get, 1e-9);
}

}  // namespace
}  // namespace farlook::scale
