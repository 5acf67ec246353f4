#include "bench/ycsb/workload_config.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

Properties Shipped(const std::string& name) {
  Properties properties;
  EXPECT_TRUE(LoadProperties("bench/workloads/" + name, &properties).ok());
  return properties;
}

std::string Error(Properties properties) {
  properties.emplace("recordcount", "1000");
  PropertyReader reader(&properties);
  const absl::Status status = ReadWorkloadConfig(&reader).status();
  return std::string(status.message().data(), status.message().size());
}

struct Mix {
  const char* file;
  double read, update, insert, read_modify_write;
  Distribution distribution;
};

TEST(WorkloadConfigTest, ShippedFilesHaveTheStandardMixes) {
  const Mix mixes[] = {
      {"workloada", 0.5, 0.5, 0, 0, Distribution::kZipfian}, {"workloadb", 0.95, 0.05, 0, 0, Distribution::kZipfian},
      {"workloadc", 1, 0, 0, 0, Distribution::kZipfian},     {"workloadd", 0.95, 0, 0.05, 0, Distribution::kLatest},
      {"workloadf", 0.5, 0, 0, 0.5, Distribution::kZipfian},
  };
  for (const Mix& mix : mixes) {
    SCOPED_TRACE(mix.file);
    const Properties properties = Shipped(mix.file);
    PropertyReader reader(&properties);
    const absl::StatusOr<WorkloadConfig> config = ReadWorkloadConfig(&reader);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->read_proportion, mix.read);
    EXPECT_EQ(config->update_proportion, mix.update);
    EXPECT_EQ(config->insert_proportion, mix.insert);
    EXPECT_EQ(config->read_modify_write_proportion, mix.read_modify_write);
    EXPECT_EQ(config->request_distribution, mix.distribution);
    EXPECT_EQ(config->field_count, 10u);
    EXPECT_EQ(config->field_length, 100);
    // Expect: nothing in a standard file is unknown.
    EXPECT_TRUE(reader.Unread().empty());
  }
}

TEST(WorkloadConfigTest, WorkloadEIsRefusedWithASentence) {
  EXPECT_THAT(Error(Shipped("workloade")), AllOf(HasSubstr("scanproportion=0.95"), HasSubstr("workload E")));
}

TEST(WorkloadConfigTest, ExpectedInsertsAreThoseOfYcsb) {
  Properties properties = Shipped("workloadd");
  properties["operationcount"] = "1001";
  PropertyReader reader(&properties);
  EXPECT_EQ(ReadWorkloadConfig(&reader)->keys.expected_new_keys, 100);  // 1001 * 0.05 * 2, truncated
}

TEST(WorkloadConfigTest, APartOfTheRecordsIsInsertedFromItsStart) {
  const Properties properties = {{"recordcount", "1000"}, {"insertstart", "600"}};
  PropertyReader reader(&properties);
  const absl::StatusOr<WorkloadConfig> config = ReadWorkloadConfig(&reader);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->keys.first, 600);
  EXPECT_EQ(config->keys.count, 400);
}

TEST(WorkloadConfigTest, WrongValuesAreNamed) {
  EXPECT_THAT(Error({{"recordcount", "0"}}), HasSubstr("recordcount=0"));
  EXPECT_THAT(Error({{"recordcount", "many"}}), HasSubstr("recordcount=many"));
  EXPECT_THAT(Error({{"insertstart", "1000"}}), HasSubstr("insertstart=1000 is not below recordcount"));
  EXPECT_THAT(Error({{"insertstart", "500"}, {"insertcount", "501"}}),
              HasSubstr("insertcount=501 and insertstart=500 go beyond recordcount=1000"));
  EXPECT_THAT(Error({{"workload", "site.ycsb.workloads.TimeSeriesWorkload"}}), HasSubstr("is unknown"));
  EXPECT_THAT(Error({{"requestdistribution", "zipf"}}), HasSubstr("requestdistribution=zipf"));
  EXPECT_THAT(Error({{"fieldcount", "0"}}), HasSubstr("fieldcount=0"));
  EXPECT_THAT(Error({{"readproportion", "-0.5"}}), HasSubstr("readproportion=-0.5"));
  EXPECT_THAT(Error({{"readproportion", "0"}, {"updateproportion", "0"}}), HasSubstr("nothing to do"));
}

TEST(WorkloadConfigTest, KindsThatOnlyYcsbKnowsAreRefused) {
  EXPECT_THAT(Error({{"requestdistribution", "hotspot"}}), HasSubstr("uniform, zipfian, latest"));
  EXPECT_THAT(Error({{"fieldlengthdistribution", "uniform"}}),
              HasSubstr("fieldlengthdistribution=uniform is not supported; there is constant"));
  EXPECT_THAT(Error({{"insertorder", "ordered"}}), HasSubstr("insertorder=ordered"));
  EXPECT_THAT(Error({{"insertorder", "hashed"}, {"fieldlengthdistribution", "constant"}}), IsEmpty());
}

TEST(WorkloadConfigTest, RecordcountIsNeeded) {
  const Properties properties;
  PropertyReader reader(&properties);
  EXPECT_FALSE(ReadWorkloadConfig(&reader).ok());
}

}  // namespace
}  // namespace farlook::bench
