#include "bench/ycsb/run_config.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<RunConfig> Read(CommandLine line, WorkloadConfig workload = {}) {
  line.properties.emplace("db", "map");
  PropertyReader reader(&line.properties);
  workload.keys.count = 1000;
  if (workload.operation_count == 0) workload.operation_count = 5000;
  return ReadRunConfig(line, workload, &reader);
}

CommandLine Line(bool load, bool run, const Properties& properties = {}) {
  CommandLine line;
  line.load = load;
  line.run = run;
  line.properties = properties;
  return line;
}

std::string Error(const Properties& properties, const WorkloadConfig& workload = {}) {
  const absl::Status status = Read(Line(false, false, properties), workload).status();
  return std::string(status.message().data(), status.message().size());
}

TEST(RunConfigTest, PhasesAreThoseAskedFor) {
  const auto phases = [](const CommandLine& line) {
    const absl::StatusOr<RunConfig> config = Read(line);
    std::string names;
    for (const PhaseOptions& phase : config->phases) names += phase.load ? "load " : "run ";
    return names;
  };
  EXPECT_EQ(phases({}), "run ");
  EXPECT_EQ(phases(Line(false, true)), "run ");
  EXPECT_EQ(phases(Line(true, false)), "load ");
  EXPECT_EQ(phases(Line(true, true)), "load run ");
  EXPECT_EQ(phases(Line(false, false, {{"dotransactions", "false"}})), "load ");
}

TEST(RunConfigTest, EachPhaseHasItsOperations) {
  const absl::StatusOr<RunConfig> config = Read(Line(true, true));
  EXPECT_EQ(config->phases[0].operations, 1000);
  EXPECT_EQ(config->phases[1].operations, 5000);
}

TEST(RunConfigTest, ALoadMayHaveAnotherLimitThanARun) {
  EXPECT_EQ(Read(Line(true, true, {{"maxexecutiontime", "2"}}))->phases[0].max_seconds, 2);
  const absl::StatusOr<RunConfig> config =
      Read(Line(true, true, {{"maxexecutiontime", "2"}, {"loadmaxexecutiontime", "0"}}));
  EXPECT_EQ(config->phases[0].max_seconds, 0);
  EXPECT_EQ(config->phases[1].max_seconds, 2);
}

TEST(RunConfigTest, ATargetMeasuresIntendedLatenciesToo) {
  EXPECT_FALSE(Read({})->phases[0].with_intended);
  EXPECT_TRUE(Read(Line(false, true, {{"target", "100"}}))->phases[0].with_intended);
}

TEST(RunConfigTest, ThereAreNoMoreThreadsThanOperations) {
  const absl::StatusOr<RunConfig> config = Read(Line(true, true, {{"threadcount", "4000"}}));
  EXPECT_EQ(config->phases[0].threads, 1000);
  EXPECT_EQ(config->phases[1].threads, 4000);
  EXPECT_THAT(config->warnings, ElementsAre(HasSubstr("more threads than records")));
}

TEST(RunConfigTest, WrongValuesAreNamed) {
  EXPECT_THAT(Error({{"threadcount", "0"}}), HasSubstr("threadcount=0"));
  EXPECT_THAT(Error({{"target", "fast"}}), HasSubstr("target=fast"));
  EXPECT_THAT(Error({{"batchsize", "0"}}), HasSubstr("batchsize=0"));
  EXPECT_THAT(Error({{"batchsize", "4"}, {"inflight", "4"}}), HasSubstr("inflight=4 cannot be combined"));
  EXPECT_THAT(Error({{"status.interval", "0"}}), HasSubstr("status.interval=0"));
  EXPECT_THAT(Error({{"hdrhistogram.percentiles", "50,101"}}), HasSubstr("percentiles"));
  EXPECT_THAT(Error({{"measurementtype", "raw"}}), HasSubstr("measurementtype=raw"));
  EXPECT_THAT(Error({{"exportfile", "/tmp/x"}}), HasSubstr("exportfile=/tmp/x"));
  EXPECT_THAT(Error({{"db", ""}}), HasSubstr("name the store"));
}

TEST(RunConfigTest, ARunWithoutEndIsRefused) {
  Properties properties = {{"db", "map"}};
  PropertyReader reader(&properties);
  EXPECT_FALSE(ReadRunConfig({}, WorkloadConfig{}, &reader).ok());
  properties["maxexecutiontime"] = "2";
  PropertyReader again(&properties);
  EXPECT_TRUE(ReadRunConfig({}, WorkloadConfig{}, &again).ok());
}

}  // namespace
}  // namespace farlook::bench
