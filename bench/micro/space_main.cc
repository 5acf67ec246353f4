// space: the memory that Farlook promises to need at most, measured.
//
//     space [--keys=20000000] [--memory_mib=3072] [--fill_mib=1024] [--json=FILE]
//
// Exit codes: 0 all limits hold, 1 it cannot be measured, 3 a limit does not hold.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/common/environment.h"
#include "bench/common/figures.h"
#include "bench/micro/table_space.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(int64_t, keys, 20'000'000, "keys that the index grows to");
ABSL_FLAG(uint32_t, memory_mib, 3072, "MiB of memory for them");
ABSL_FLAG(uint32_t, fill_mib, 1024, "MiB of the region that is filled");
ABSL_FLAG(std::string, json, "", "file for the figures as JSON");

namespace farlook::bench {
namespace {

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "space: %s\n", status.ToString().c_str());
  return 1;
}

int Main() {
  const Environment environment = DescribeEnvironment();
  std::printf("machine: %s; built by: %s; commit %s\n", environment.cpu.c_str(), environment.compiler.c_str(),
              environment.commit.c_str());
  const absl::StatusOr<IndexCost> index =
      MeasureIndex(size_t{absl::GetFlag(FLAGS_memory_mib)} << 20, absl::GetFlag(FLAGS_keys));
  if (!index.ok()) return Complain(index.status());
  const absl::StatusOr<FillCost> fill = MeasureFill(size_t{absl::GetFlag(FLAGS_fill_mib)} << 20);
  if (!fill.ok()) return Complain(fill.status());

  Figures figures;
  figures.AddAtMost("index per key, average over 200 sizes", index->average_bytes_per_key, "bytes", 16, "16 bytes");
  figures.AddAtMost("index per key, worst size from 1 M keys on", index->worst_bytes_per_key, "bytes", 24, "24 bytes");
  figures.Add("index per key, worst size below", index->worst_bytes_per_key_small, "bytes");
  figures.AddAtMost("bucket READs of a hit, worst size", index->worst_bucket_reads, "", 1.07, "1.07");
  figures.Add("keys per slot there", 100 * index->worst_reads_load, "%");
  figures.Add("keys per slot, highest", 100 * index->highest_load, "%");
  figures.AddAtLeast("keys and values of 1,000 bytes, region full", 100 * fill->fresh, "%", 85, "85 %");
  figures.AddAtLeast("the same after 100-byte values came and went", 100 * fill->reused, "%", 80, "80 %");
  std::fputs(figures.Text().c_str(), stdout);
  const std::string json = absl::GetFlag(FLAGS_json);
  if (!json.empty() && !(std::ofstream(json) << figures.Json().dump(2) << std::endl)) {
    return Complain(absl::UnknownError("cannot write " + json));
  }
  return figures.hold() ? 0 : 3;
}

}  // namespace
}  // namespace farlook::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("measures how much memory Farlook needs for its index and wastes");
  absl::ParseCommandLine(argc, argv);
  return farlook::bench::Main();
}
