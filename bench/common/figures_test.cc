#include "bench/common/figures.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farlook::bench {
namespace {

using testing::ContainsRegex;

TEST(FiguresTest, LimitsHoldOrFail) {
  Figures figures;
  figures.Add("D", 140, "ns");
  figures.AddAtMost("Get", 400, "ns", 420, "3 D");
  figures.AddAtLeast("Put", 2, "M/s", 1, "1 M/s");
  EXPECT_TRUE(figures.hold());
  figures.AddAtMost("MultiGet", 100, "ns", 84, "0.6 D");
  EXPECT_FALSE(figures.hold());
  EXPECT_THAT(figures.Text(), ContainsRegex("D +140.00 ns\nGet +400.00 ns +at most 420.00 \\(3 D\\): holds\n"));
  EXPECT_THAT(figures.Text(), ContainsRegex("MultiGet +100.00 ns +at most 84.00 \\(0.6 D\\): FAILS\n"));
  const nlohmann::json json = figures.Json();
  EXPECT_EQ(json[0].count("holds"), 0u);
  EXPECT_EQ(json[3]["at_most"], 84);
  EXPECT_EQ(json[3]["holds"], false);
}

TEST(FiguresTest, AtTheLimitIsWithinIt) {
  Figures figures;
  figures.AddAtMost("a", 1, "", 1, "");
  figures.AddAtLeast("b", 1, "", 1, "");
  EXPECT_TRUE(figures.hold());
}

TEST(FiguresTest, AreWrittenToAFileUnlessThatCannotBe) {
  Figures figures;
  figures.Add("gets", 1, "us");
  EXPECT_TRUE(figures.Print(""));
  const std::string file = testing::TempDir() + "/figures.json";
  ASSERT_TRUE(figures.Print(file));
  std::ifstream in(file);
  EXPECT_EQ(nlohmann::json::parse(in), figures.Json());
  EXPECT_FALSE(figures.Print(file + "/none"));
}

}  // namespace
}  // namespace farlook::bench
