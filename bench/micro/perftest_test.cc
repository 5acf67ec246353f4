#include "bench/micro/perftest.h"

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

TEST(PerftestTest, ReadsALatency) {
  const auto result =
      ParsePerftest("ib_read_lat",
                    " GID: 00:00\n"
                    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n"
                    " 128     1000          27.70          5610.35      37.24    \t       42.96 \t179.69\n"
                    "-----\n");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_DOUBLE_EQ(result->typical_us, 37.24);
}

TEST(PerftestTest, ReadsARateAndABandwidth) {
  const auto result = ParsePerftest("ib_read_bw",
                                    " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
                                    " 128        2000             4.43               2.37   \t\t   0.019449\n");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_DOUBLE_EQ(result->messages_per_s, 19449);
  EXPECT_DOUBLE_EQ(result->bytes_per_s, 2.37 * (1 << 20));
}

TEST(PerftestTest, SaysWhatWasPrintedInstead) {
  const auto result = ParsePerftest("ib_read_bw", "Couldn't connect to 10.0.0.1:18515\n");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("Couldn't connect"), absl::string_view::npos);
  EXPECT_FALSE(ParsePerftest("ib_read_lat", " #bytes #iterations t_min\n short line\n").ok());
}

TEST(PerftestTest, ConnectsByRdmaCmWhereNoDeviceIsKnown) {
  EXPECT_EQ(PerftestConnection(""), "-R");
  EXPECT_EQ(PerftestConnection("no_such_device"), "-R");
}

TEST(PerftestTest, AProgramThatIsNotThere) {
  const auto result = RunPerftest("ib_none_lat", {}, "127.0.0.1");
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition) << result.status();
}

}  // namespace
}  // namespace farlook::bench
