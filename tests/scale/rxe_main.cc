// Measures the rates of tests/scale/rxe.h, and prints them beside the model's:
//
//     tests/vm/run --icount -- bazel-bin/tests/scale/rxe_rates --server=bazel-bin/server/daemon/kv_server
//         --address=rdma://10.0.0.1:7471
//
// Then, on rxe and on shm, the sources of those parameters that perftest does not show.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/micro/server_process.h"
#include "tests/scale/rxe.h"
#include "tests/scale/rxe_rate.h"

ABSL_FLAG(std::string, server, "", "path of the kv_server to start; required");
ABSL_FLAG(std::string, address, "", "where it is to listen, on an RDMA device; required");
ABSL_FLAG(int64_t, operations, 8'000, "for each rate");

namespace farlook::scale {
namespace {

absl::StatusOr<std::unique_ptr<bench::ServerProcess>> Start(const std::string& address) {
  auto server = bench::ServerProcess::Start(
      absl::GetFlag(FLAGS_server),
      {"--memory=192MiB", "--workers=1", "--spin_us=0", "--log_level=warning", "--liveness=1h"}, 120'000, address);
  if (!server.ok()) return server.status();
  if (absl::Status put = PutKeys((*server)->address()); !put.ok()) return put;
  return server;
}

// Returns how often the kernel's thread for deferred work ran and slept again.
int64_t DeferredWorkSwitches() {
  // Threads of the kernel have low numbers.
  for (int pid = 2; pid < 100; ++pid) {
    std::string name, word;
    std::ifstream(std::string("/proc/") + std::to_string(pid) + "/comm") >> name;
    if (name != "ksoftirqd/0") continue;
    std::ifstream status(std::string("/proc/") + std::to_string(pid) + "/status");
    while (status >> word) {
      if (word != "voluntary_ctxt_switches:") continue;
      int64_t count = 0;
      status >> count;
      return count;
    }
  }
  return 0;
}

absl::Status Rates(const std::string& address) {
  std::puts(
      "workload\tlookups\tclients\tin flight\tmeasured/s\trecorded/s\tmodel/s\tmodel/measured\tksoftirqd/operation");
  for (int i = 0; i < kRxeRateCount; ++i) {
    const RxeRate& rate = kRxeRates[i];
    Work work;
    work.lookups = rate.by_message ? Lookups::kMessages : Lookups::kReads;
    work.puts_percent = rate.workload == 'B' ? kRatePutsPercent : 0;
    work.clients = rate.clients;
    work.in_flight = rate.in_flight;
    int64_t switches = 0;
    const auto measured = RateOf(address, work, absl::GetFlag(FLAGS_operations), [&switches](bool begins) {
      switches = begins ? DeferredWorkSwitches() : DeferredWorkSwitches() - switches;
    });
    if (!measured.ok()) return measured.status();
    const double model = Predict(rate);
    std::printf("%c\t%s\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.3f\t%.2f\n", rate.workload, rate.by_message ? "message" : "READ",
                rate.clients, rate.in_flight, *measured, rate.measured, model, model / *measured,
                static_cast<double>(switches) / static_cast<double>(absl::GetFlag(FLAGS_operations)));
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::Status Parameters(const std::string& address) {
  for (const auto& [name, pings, lookups] :
       {std::tuple("get", false, Lookups::kReads), std::tuple("get by message", false, Lookups::kMessages),
        std::tuple("ping", true, Lookups::kReads)}) {
    for (const int in_flight : {1, 2, 4, 8, 16, 64}) {
      const auto rate = RateOf(address, {.pings = pings, .lookups = lookups, .in_flight = in_flight},
                               absl::GetFlag(FLAGS_operations), nullptr);
      if (!rate.ok()) return rate.status();
      std::printf("%.6s\t%s\t%d in flight\t%.3f us all of them\n", address.c_str(), name, in_flight,
                  1e6 / *rate * in_flight);
      std::fflush(stdout);
    }
  }
  return absl::OkStatus();
}

absl::Status Main() {
  const auto rxe = Start(absl::GetFlag(FLAGS_address));
  if (!rxe.ok()) return rxe.status();
  if (absl::Status status = Rates((*rxe)->address()); !status.ok()) return status;
  if (absl::Status status = Parameters((*rxe)->address()); !status.ok()) return status;
  const auto shm = Start("");
  if (!shm.ok()) return shm.status();
  return Parameters((*shm)->address());
}

}  // namespace
}  // namespace farlook::scale

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = farlook::scale::Main();
  if (!status.ok()) std::fprintf(stderr, "rxe: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
