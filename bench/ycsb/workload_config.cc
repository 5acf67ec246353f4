#include "bench/ycsb/workload_config.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/stores/record.h"

namespace farlook::bench {
namespace {

constexpr int64_t kMaxFieldBytes = int64_t{1} << 30;
// Above it, sums of record numbers could leave 64 bits; realistic values are far below.
constexpr int64_t kMaxRecords = int64_t{1} << 50;

// Properties of which YCSB knows more kinds than this driver.
constexpr struct {
  const char* name;
  const char* only;
} kOnlyKinds[] = {
    {"insertorder", "hashed"},
    {"zeropadding", "1"},
    {"fieldnameprefix", "field"},
    {"fieldlengthdistribution", "constant"},
    {"core_workload_insertion_retry_limit", "0"},
    {"core_workload_insertion_keep_going_on_error", "false"},
};

void ReadClass(PropertyReader* reader) {
  const std::string name = reader->String("workload", "core");
  if (name != "core" && !absl::EndsWith(name, "ycsb.workloads.CoreWorkload")) {
    reader->Fail("workload", "is unknown; there is site.ycsb.workloads.CoreWorkload");
  }
  for (const auto& kind : kOnlyKinds) {
    if (reader->String(kind.name, kind.only) != kind.only) {
      reader->Fail(kind.name, absl::StrCat("is not supported; there is ", kind.only));
    }
  }
}

void ReadKeys(PropertyReader* reader, WorkloadConfig* config) {
  KeySpace& keys = config->keys;
  if (!reader->Has("recordcount")) reader->Fail("recordcount", "is missing: how many records there are");
  keys.record_count = reader->Int("recordcount", 1, 1, kMaxRecords);
  keys.first = reader->Int("insertstart", 0, 0, kMaxRecords);
  if (keys.first >= keys.record_count) reader->Fail("insertstart", absl::StrCat("is not below recordcount"));
  keys.count = reader->Int("insertcount", keys.record_count - keys.first, 1, kMaxRecords);
  if (keys.first + keys.count > keys.record_count) {
    reader->Fail("insertcount",
                 absl::StrCat("and insertstart=", keys.first, " go beyond recordcount=", keys.record_count));
  }

  const absl::StatusOr<Distribution> distribution = ParseDistribution(reader->String("requestdistribution", "uniform"));
  if (distribution.ok()) {
    config->request_distribution = *distribution;
  } else {
    reader->Fail("requestdistribution", absl::StrCat("is an ", distribution.status().message()));
  }
}

void ReadFields(PropertyReader* reader, WorkloadConfig* config) {
  config->field_count = static_cast<size_t>(reader->Int("fieldcount", 10, 1, kMaxFields));
  config->field_length = reader->Int("fieldlength", 100, 0, kMaxFieldBytes);
  config->read_all_fields = reader->Bool("readallfields", true);
  config->write_all_fields = reader->Bool("writeallfields", false);
  config->data_integrity = reader->Bool("dataintegrity", false);
}

void ReadOperations(PropertyReader* reader, WorkloadConfig* config) {
  constexpr double kMost = 1e6;
  config->operation_count = reader->Int("operationcount", 0, 0, kMaxRecords);
  config->read_proportion = reader->Double("readproportion", 0.95, 0, kMost);
  config->update_proportion = reader->Double("updateproportion", 0.05, 0, kMost);
  config->insert_proportion = reader->Double("insertproportion", 0, 0, kMost);
  config->read_modify_write_proportion = reader->Double("readmodifywriteproportion", 0, 0, kMost);
  if (reader->Double("scanproportion", 0, 0, kMost) > 0) {
    reader->Fail("scanproportion",
                 "asks for scans in the order of keys, which a hash table does not have: workload E cannot run here");
  }
  // For scans; without scans they have no meaning.
  for (const char* name : {"minscanlength", "maxscanlength", "scanlengthdistribution"}) reader->Has(name);
  if (config->read_proportion + config->update_proportion + config->insert_proportion +
          config->read_modify_write_proportion <=
      0) {
    reader->Fail("readproportion", "and all the other proportions are 0: nothing to do");
  }
  // YCSB's estimate, so that its scrambled zipfian has the same modulus. 2 is YCSB's own allowance.
  config->keys.expected_new_keys =
      static_cast<int64_t>(static_cast<double>(config->operation_count) * config->insert_proportion * 2.0);
  if (config->keys.expected_new_keys > kMaxRecords) reader->Fail("insertproportion", "foresees too many inserts");
}

}  // namespace

absl::StatusOr<WorkloadConfig> ReadWorkloadConfig(PropertyReader* reader) {
  WorkloadConfig config;
  ReadClass(reader);
  ReadKeys(reader, &config);
  ReadFields(reader, &config);
  ReadOperations(reader, &config);
  if (!reader->status().ok()) return reader->status();
  return config;
}

}  // namespace farlook::bench
