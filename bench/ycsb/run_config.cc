#include "bench/ycsb/run_config.h"

#include <algorithm>
#include <random>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farlook::bench {
namespace {

constexpr int64_t kMaxThreads = 4096;
constexpr int64_t kMaxBatch = 1 << 16;
constexpr double kMaxSeconds = 1e9;

// Properties of YCSB without a meaning here.
constexpr const char* kWithoutEffect[] = {
    "table", "measurement.trackjvm", "measurement.interval", "readallfieldsbyname", "exporter", "minfieldlength",
    "label"};

std::vector<double> ReadPercentiles(PropertyReader* reader) {
  std::vector<double> percentiles;
  const std::string text = reader->String("hdrhistogram.percentiles", "50,90,95,99,99.9");
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    double percentile;
    if (!absl::SimpleAtod(part, &percentile) || !(percentile >= 0 && percentile <= 100)) {
      reader->Fail("hdrhistogram.percentiles", "is not a list of numbers from 0 to 100 with commas between");
      break;
    }
    percentiles.push_back(percentile);
  }
  return percentiles;
}

// The options that both phases have in common.
PhaseOptions ReadCommon(PropertyReader* reader) {
  PhaseOptions phase;
  phase.threads = static_cast<int>(reader->Int("threadcount", 1, 1, kMaxThreads));
  phase.target = reader->Double("target", 0, 0, 1e9);
  phase.batch = static_cast<size_t>(reader->Int("batchsize", 1, 1, kMaxBatch));
  phase.inflight = static_cast<size_t>(reader->Int("inflight", 1, 1, kMaxBatch));
  if (phase.batch > 1 && phase.inflight > 1) reader->Fail("inflight", "cannot be combined with batchsize");
  phase.max_seconds = reader->Double("maxexecutiontime", 0, 0, kMaxSeconds);
  const double interval_s = reader->Double("status.interval", 10, 0.001, kMaxSeconds);
  phase.status_interval_s = reader->Bool("status", false) ? interval_s : 0;
  phase.seed = reader->Has("seed") ? static_cast<uint64_t>(reader->Int("seed", 0)) : std::random_device()();
  phase.server_pid = static_cast<pid_t>(reader->Int("farlook.server_pid", 0, 0, 1 << 30));
  if (reader->Has("server.cpu_reporter")) {
    absl::StatusOr<StoreAddress> reporter = ParseStoreAddress(reader->String("server.cpu_reporter", ""));
    if (reporter.ok() && !reporter->host.empty()) {
      phase.cpu_reporter = *std::move(reporter);
    } else {
      reader->Fail("server.cpu_reporter", "is not tcp://HOST:PORT");
    }
  }
  phase.with_intended = phase.target > 0;
  return phase;
}

}  // namespace

absl::StatusOr<RunConfig> ReadRunConfig(const CommandLine& line, const WorkloadConfig& workload,
                                        PropertyReader* reader) {
  RunConfig config;
  config.db = reader->String("db", "");
  if (config.db.empty()) reader->Fail("db", "is missing: name the store with -db; see --help");
  config.percentiles = ReadPercentiles(reader);
  if (const std::string type = reader->String("measurementtype", "hdrhistogram"); type != "hdrhistogram") {
    reader->Fail("measurementtype", "is not supported; there is hdrhistogram");
  }
  if (reader->Has("exportfile"))
    reader->Fail("exportfile", "is not supported: give -json FILE, or redirect the output");
  for (const char* name : kWithoutEffect) {
    if (reader->Has(name)) config.warnings.push_back(absl::StrCat("property ", name, " has no effect here"));
  }

  const PhaseOptions common = ReadCommon(reader);
  const bool transactions = reader->Bool("dotransactions", true);
  const bool load = line.load || (!line.run && !transactions);
  if (load) {
    config.phases.push_back(common);
    config.phases.back().load = true;
    config.phases.back().operations = workload.keys.count;
    config.phases.back().max_seconds = reader->Double("loadmaxexecutiontime", common.max_seconds, 0, kMaxSeconds);
  }
  if (line.run || !load) {
    config.phases.push_back(common);
    config.phases.back().operations = workload.operation_count;
    if (workload.operation_count == 0 && common.max_seconds == 0) {
      reader->Fail("operationcount", "is missing or 0, which needs maxexecutiontime to end the run");
    }
  }
  for (PhaseOptions& phase : config.phases) {
    if (phase.operations == 0 || phase.threads <= phase.operations) continue;
    phase.threads = static_cast<int>(phase.operations);
    config.warnings.push_back(
        absl::StrCat("more threads than ", phase.load ? "records" : "operations", ": using ", phase.threads));
  }
  if (!reader->status().ok()) return reader->status();
  return config;
}

}  // namespace farlook::bench
