#include "bench/ycsb/report.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farlook::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    environment_.cpu = "A CPU";
    environment_.cpus = 2;
    environment_.commit = "abc";
    result_.options.threads = 3;
    result_.options.seed = 77;
    result_.operations = 4;
    result_.runtime_ns = 2'000'000'000;
    result_.client = {1.5, 0.5};
    for (int i = 0; i < 3; ++i) {
      result_.totals.RecordOutcome(Metric::kRead, DbStatus::kOk, {.intended_ns = 0, .start_ns = 1000, .end_ns = 1123},
                                   true);
    }
    result_.totals.RecordOutcome(Metric::kRead, DbStatus::kNotFound, {.start_ns = 0, .end_ns = 5000000}, false);
  }

  std::string Text() const { return TextReport(run_, environment_, result_); }

  RunDescription run_{.db = "map", .command_line = {"ycsb", "-t"}};
  Environment environment_;
  PhaseResult result_;
};

TEST_F(ReportTest, LinesHaveTheFormOfYcsb) {
  const std::string text = Text();
  for (const char* line :
       {"[OVERALL], RunTime(ms), 2000\n", "[OVERALL], Throughput(ops/sec), 2.000\n", "[READ], Operations, 3\n",
        "[READ], AverageLatency(us), 0.123\n", "[READ], MinLatency(us), 0.123\n", "[READ], MaxLatency(us), 0.123\n",
        "[READ], 50thPercentileLatency(us), 0.123\n", "[READ], 90thPercentileLatency(us), 0.123\n",
        "[READ], 95thPercentileLatency(us), 0.123\n", "[READ], 99thPercentileLatency(us), 0.123\n",
        "[READ], 99.9PercentileLatency(us), 0.123\n", "[READ], Return=OK, 3\n", "[READ], Return=NOT_FOUND, 1\n",
        "[Intended-READ], MaxLatency(us), 1.123\n", "[READ-FAILED], Operations, 1\n",
        "[READ-FAILED], MaxLatency(us), 5000.000\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("UPDATE")));
  EXPECT_THAT(text, Not(HasSubstr("Intended-READ-FAILED")));
}

TEST_F(ReportTest, AFigureCanBeTraced) {
  for (const char* line :
       {"[MACHINE], CPU, A CPU (2 usable)\n", "[RUN], Commit, abc\n", "[RUN], CommandLine, ycsb -t\n",
        "[RUN], Threads, 3\n", "[RUN], DB, map\n", "[RUN], Phase, run\n", "[RUN], Seed, 77\n"}) {
    EXPECT_THAT(Text(), HasSubstr(line));
  }
}

TEST_F(ReportTest, CpuTimesStandBesideTheThroughput) {
  EXPECT_THAT(Text(), HasSubstr("[CPU], ClientUser(s), 1.500\n[CPU], ClientSystem(s), 0.500\n"
                                "[CPU], ClientPerOperation(us), 500000.000\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("Server")));
  result_.server_cpu_ns = 10;
  EXPECT_THAT(Text(), HasSubstr("[CPU], Server(ns), 10\n[CPU], ServerPerOperation(us), 0.002500\n"));
  EXPECT_EQ(JsonPhase(run_, result_)["server_cpu"]["ns"], 10);
  EXPECT_EQ(JsonPhase(run_, result_)["server_cpu"]["us_per_operation"], 0.0025);
  result_.server_cpu_ns = 0;
  EXPECT_THAT(Text(), HasSubstr("[CPU], Server(ns), 0\n"));
}

TEST_F(ReportTest, OrdinalsAreEnglish) {
  run_.percentiles = {1, 2, 3, 11, 12, 13, 21, 99.99};
  const std::string text = Text();
  for (const char* name : {"1st", "2nd", "3rd", "11th", "12th", "13th", "21st", "99.99"}) {
    EXPECT_THAT(text, HasSubstr(std::string("[READ], ") + name + "PercentileLatency(us)"));
  }
}

TEST_F(ReportTest, JsonHoldsTheSameFigures) {
  const nlohmann::json json = JsonReport(run_, environment_, {JsonPhase(run_, result_)});
  EXPECT_EQ(json["machine"]["cpu"], "A CPU");
  EXPECT_EQ(json["run"]["command_line"][1], "-t");
  const nlohmann::json& phase = json["phases"][0];
  EXPECT_EQ(phase["phase"], "run");
  EXPECT_EQ(phase["operations"], 4);
  EXPECT_EQ(phase["throughput_per_s"], 2.0);
  EXPECT_TRUE(phase["server_cpu"].is_null());
  EXPECT_EQ(phase["metrics"]["READ"]["latency_ns"]["p99.9"], 123);
  EXPECT_EQ(phase["metrics"]["READ"]["intended_latency_ns"]["max"], 1123);
  EXPECT_EQ(phase["metrics"]["READ"]["returns"]["NOT_FOUND"], 1);
}

TEST_F(ReportTest, APhaseWithoutOperationsIsReported) {
  PhaseResult empty;
  EXPECT_THAT(TextReport(run_, environment_, empty), HasSubstr("[OVERALL], Throughput(ops/sec), 0.000\n"));
  EXPECT_EQ(JsonPhase(run_, empty)["metrics"].size(), 0u);
}

}  // namespace
}  // namespace farlook::bench
