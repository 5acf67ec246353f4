#include "bench/common/figures.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
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
  const auto measure = [](Figures* figures) {
    figures->Add("gets", 1, "us");
    return absl::OkStatus();
  };
  EXPECT_EQ(TakeFigures("test", "", measure), 0);
  const std::string file = testing::TempDir() + "/figures.json";
  ASSERT_EQ(TakeFigures("test", file, measure), 0);
  std::ifstream in(file);
  const nlohmann::json found = nlohmann::json::parse(in);
  EXPECT_EQ(found["figures"][0]["name"], "gets");
  EXPECT_NE(found["built_by"], "");
  EXPECT_EQ(TakeFigures("test", file + "/none", measure), 1);
}

TEST(FiguresTest, TheExitCodeTellsALimitFromAMeasurementThatFailed) {
  EXPECT_EQ(TakeFigures("test", "",
                        [](Figures* figures) {
                          figures->AddAtMost("gets", 2, "us", 1, "1 us");
                          return absl::OkStatus();
                        }),
            3);
  testing::internal::CaptureStdout();
  EXPECT_EQ(TakeFigures("test", "",
                        [](Figures* figures) {
                          figures->Add("gets", 2, "us");
                          return absl::UnavailableError("no server");
                        }),
            1);
  // Expect: the figures measured until then are printed.
  EXPECT_THAT(testing::internal::GetCapturedStdout(), ContainsRegex("gets +2.00 us"));
}

}  // namespace
}  // namespace farlook::bench
