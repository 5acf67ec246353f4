// floors: prints the machine's floors (bench/micro/floor.h).
//
//     floors [--mib=4096] [--pages=2m|4k] [--bytes=1000]
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/statusor.h"
#include "bench/common/environment.h"
#include "bench/micro/floor.h"
#include "bench/micro/floor_memory.h"

ABSL_FLAG(uint32_t, mib, 4096, "MiB of memory to measure over: as large as the store's");
ABSL_FLAG(std::string, pages, "2m", "page size wanted: 2m or 4k");
ABSL_FLAG(uint32_t, bytes, 1000, "size of the copies");
ABSL_FLAG(int64_t, steps, 4'000'000, "loads, copies and adds for each figure");

namespace farlook::bench {
namespace {

int Main() {
  const std::string pages = absl::GetFlag(FLAGS_pages);
  const size_t bytes = absl::GetFlag(FLAGS_bytes);
  const int64_t steps = absl::GetFlag(FLAGS_steps);
  const size_t size = size_t{absl::GetFlag(FLAGS_mib)} << 20;
  if ((pages != "2m" && pages != "4k") || size == 0 || bytes == 0 || bytes > size || steps < 2) {
    std::fprintf(stderr, "floors: --pages is 2m or 4k, --mib and --bytes above 0, --steps above 1\n");
    return 1;
  }
  const absl::StatusOr<FloorMemory> memory = FloorMemory::Map(size, pages == "2m" ? PageSize::k2MiB : PageSize::k4KiB);
  if (!memory.ok()) {
    std::fprintf(stderr, "floors: %s\n", memory.status().ToString().c_str());
    return 1;
  }
  const Environment environment = DescribeEnvironment();
  std::printf("machine                        %s, %d CPUs, %s\n", environment.cpu.c_str(), environment.cpus,
              environment.kernel.c_str());
  std::printf("built by                       %s; commit %s\n", environment.compiler.c_str(),
              environment.commit.c_str());
  std::printf("memory                         %zu MiB, %s\n", memory->size() >> 20, memory->pages().c_str());
  std::printf("D, dependent random load       %8.1f ns\n", DependentLoadNs(*memory, steps));
  std::printf("copy of %5zu bytes, cold      %8.1f ns\n", bytes, ColdCopyNs(*memory, bytes, steps));
  std::printf("copy of %5zu bytes, hot       %8.1f ns\n", bytes, HotCopyNs(*memory, bytes, steps));
  std::printf("locked add, cold               %8.1f ns\n", ColdLockedAddNs(*memory, steps));
  const absl::StatusOr<CpuPair> cpus = FirstTwoCpus();
  for (Peer peer : {Peer::kThread, Peer::kProcess}) {
    const absl::StatusOr<double> ns =
        cpus.ok() ? CacheLineRoundTripNs(cpus->a, cpus->b, peer, steps / 4 + 2) : cpus.status();
    const char* name = peer == Peer::kThread ? "threads" : "processes";
    if (ns.ok()) {
      std::printf("line round trip, %-9s     %8.1f ns (CPUs %d and %d)\n", name, *ns, cpus->a, cpus->b);
    } else {
      std::printf("line round trip, %-9s     none: %s\n", name, ns.status().ToString().c_str());
    }
  }
  return 0;
}

}  // namespace
}  // namespace farlook::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("prints the machine's floors: loads, copies, adds and cache-line round trips");
  absl::ParseCommandLine(argc, argv);
  return farlook::bench::Main();
}
