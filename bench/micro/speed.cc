// speed: the speed that Farlook promises on shm, each figure beside the floor of the same run.
//
//     micro speed --server=PATH/kv_server [--memory_mib=2048] [--keys=4000000] [--json=FILE]
//
// Starts a separate server. Exit codes: 0 all limits hold, 1 wrong input or the server cannot be run, 3 a limit does
// not hold. For stable figures nothing else may run on the machine.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/common/clocks.h"
#include "bench/common/figures.h"
#include "bench/micro/client_speed.h"
#include "bench/micro/floor.h"
#include "bench/micro/floor_memory.h"
#include "bench/micro/measurement.h"
#include "bench/micro/server_process.h"
#include "farlook/client.h"

ABSL_FLAG(int64_t, counters, 1'000'000, "counters to add to");
ABSL_FLAG(double, idle_s, 10, "seconds of the read-only run during which the server's CPU time is looked at");

namespace farlook::bench {
namespace {

struct Floors {
  double load_ns = 0;  // D
  double copy_1000_ns = 0;
  double round_trip_ns = 0;
  double locked_add_ns = 0;
};

constexpr size_t kBatch = 64;  // of a MultiGet
// The parts of an item besides its value: header and key.
constexpr size_t kBesideValue = 32 + 24;

constexpr int64_t kCellBytes = 64;

absl::Status MeasureFloors(const CpuPair& cpus, Floors* floors, Figures* figures) {
  const size_t bytes = static_cast<size_t>(absl::GetFlag(FLAGS_memory_mib)) << 20;
  const int64_t steps = absl::GetFlag(FLAGS_operations);
  const absl::StatusOr<FloorMemory> memory = FloorMemory::Map(bytes, PageSize::k2MiB);
  if (!memory.ok()) return memory.status();
  std::printf("floors over %zu MiB of %s\n", memory->size() >> 20, memory->pages().c_str());
  floors->load_ns = DependentLoadNs(*memory, steps);
  // The cost of a copy beyond the load that it begins with.
  floors->copy_1000_ns = std::max(0.0, ColdCopyNs(*memory, 1000, steps) - floors->load_ns);
  const absl::StatusOr<double> round_trip = CacheLineRoundTripNs(cpus.a, cpus.b, steps);
  if (!round_trip.ok()) return round_trip.status();
  floors->round_trip_ns = *round_trip;
  // Over as much memory as the counters have, with pages as small as theirs.
  const size_t cells_bytes = static_cast<size_t>(absl::GetFlag(FLAGS_counters) * kCellBytes);
  const absl::StatusOr<FloorMemory> cells = FloorMemory::Map(cells_bytes, PageSize::k4KiB);
  if (!cells.ok()) return cells.status();
  floors->locked_add_ns = ColdLockedAddNs(*cells, steps);
  figures->Add("floor: D, a dependent random load", floors->load_ns, "ns");
  figures->Add("floor: copy of 1,000 cold bytes, beyond D", floors->copy_1000_ns, "ns");
  figures->Add("floor: cache line's round trip, processes", floors->round_trip_ns, "ns");
  figures->Add("floor: lock-prefixed add, cold and uncontended", floors->locked_add_ns, "ns");
  return absl::OkStatus();
}

// Measurements with one client of one server.
class SpeedOfClient {
 public:
  SpeedOfClient(Client* client, pid_t server, const Floors& floors, Figures* figures)
      : client_(client), server_(server), floors_(floors), figures_(figures) {
    small_ = {.first = 0, .count = absl::GetFlag(FLAGS_keys), .value_bytes = 100};
    large_ = {.first = small_.count, .count = std::max<int64_t>(1, small_.count / 10), .value_bytes = 1000};
  }

  absl::Status Measure() {
    for (auto step : {&SpeedOfClient::Load, &SpeedOfClient::Read, &SpeedOfClient::ReadOnly, &SpeedOfClient::Write,
                      &SpeedOfClient::Memory, &SpeedOfClient::Count}) {
      absl::Status status = (this->*step)();
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Load() {
    const absl::StatusOr<double> rate = PutAll(client_, small_, 128);
    if (!rate.ok()) return rate.status();
    figures_->AddAtLeast("async Put of new keys, 100 bytes, 1 client, 1 worker", *rate / 1e6, "M/s", 1, "1 M/s");
    return PutAll(client_, large_, 64).status();
  }

  absl::Status Read() {
    const int64_t operations = absl::GetFlag(FLAGS_operations);
    const ClientStats before = client_->stats();
    const absl::StatusOr<Percentiles> get = TimeGets(client_, small_, operations);
    if (!get.ok()) return get.status();
    const double d = floors_.load_ns;
    figures_->AddAtMost("Get of 100 bytes, uniform, p50", get->p50_ns, "ns", 3 * d, "3 D");
    figures_->Add("Get of 100 bytes, uniform, p99", get->p99_ns, "ns");
    const ClientStats& after = client_->stats();
    figures_->AddAtMost(
        "bucket READs of a Get",
        static_cast<double>(after.bucket_reads - before.bucket_reads) / static_cast<double>(after.gets - before.gets),
        "", 1.07, "at any load");

    if (absl::Status status = ReadMany(small_, "100"); !status.ok()) return status;
    if (absl::Status status = ReadMany(large_, "1,000"); !status.ok()) return status;

    const absl::StatusOr<Percentiles> large = TimeGets(client_, large_, operations);
    if (!large.ok()) return large.status();
    figures_->AddAtMost("Get of 1,000 bytes, uniform, p50", large->p50_ns, "ns", 3 * d + 2 * floors_.copy_1000_ns,
                        "3 D + 2 copies");
    return absl::OkStatus();
  }

  // MultiGets and their floor alternate, since both depend on the machine's other work.
  absl::Status ReadMany(const KeyRange& range, const char* bytes) {
    constexpr size_t kTurns = 21;
    const absl::StatusOr<FloorMemory> memory =
        FloorMemory::Map(static_cast<size_t>(absl::GetFlag(FLAGS_memory_mib)) << 20, PageSize::k2MiB);
    if (!memory.ok()) return memory.status();
    const int64_t operations = absl::GetFlag(FLAGS_operations) / static_cast<int64_t>(kTurns) + 1;
    std::array<double, kTurns> times, lines, ratios;
    for (size_t i = 0; i < kTurns; ++i) {
      lines[i] = LookupLinesNs(*memory, kBatch, kBesideValue + range.value_bytes, operations, /*seed=*/i + 1);
      const absl::StatusOr<Percentiles> many =
          TimeMultiGets(client_, range, kBatch, operations / static_cast<int64_t>(kBatch) + 1);
      if (!many.ok()) return many.status();
      times[i] = many->p50_ns;
      ratios[i] = times[i] / lines[i];
    }
    for (auto* all : {&times, &lines, &ratios}) std::nth_element(all->begin(), all->begin() + kTurns / 2, all->end());
    const std::string what = absl::StrCat("MultiGet of 64 times ", bytes, " bytes, p50, for each");
    figures_->Add(absl::StrCat("floor: the lines of one of 64 lookups of ", bytes, " bytes"), lines[kTurns / 2], "ns");
    figures_->Add(what, times[kTurns / 2], "ns");
    figures_->AddAtMost(absl::StrCat(what, ", of its lines"), ratios[kTurns / 2], "x", 1.9, "in turns");
    return absl::OkStatus();
  }

  absl::Status ReadOnly() {
    const absl::StatusOr<int64_t> before_ns = CpuNsAtRest(server_);  // it may still be busy with the last writes
    if (!before_ns.ok()) return before_ns.status();
    const CpuTime own = OwnCpuTime();
    int64_t gets = 0;
    while ((OwnCpuTime() - own).total_s() < absl::GetFlag(FLAGS_idle_s)) {
      const absl::StatusOr<Percentiles> some = TimeGets(client_, small_, 100'000);
      if (!some.ok()) return some.status();
      gets += 100'000;
    }
    const absl::StatusOr<int64_t> after_ns = CpuNsAtRest(server_);
    if (!after_ns.ok()) return after_ns.status();
    figures_->Add("Gets while the server's CPU time is looked at", static_cast<double>(gets) / 1e6, "M");
    figures_->AddAtMost("the server's CPU time during them", static_cast<double>(*after_ns - *before_ns), "ns", 0,
                        "none");
    return absl::OkStatus();
  }

  absl::Status Write() {
    const absl::StatusOr<Percentiles> put = TimePuts(client_, small_, absl::GetFlag(FLAGS_operations) / 4 + 1);
    if (!put.ok()) return put.status();
    figures_->AddAtMost("Put of 100 bytes, acknowledged, p50", put->p50_ns, "ns", 3 * floors_.round_trip_ns,
                        "3 line round trips");
    figures_->Add("Put of 100 bytes, acknowledged, p99", put->p99_ns, "ns");
    const absl::StatusOr<double> rate = PutAll(client_, small_, 128);
    if (!rate.ok()) return rate.status();
    figures_->AddAtLeast("async Put over old keys, 100 bytes", *rate / 1e6, "M/s", 1, "1 M/s");
    return absl::OkStatus();
  }

  absl::Status Memory() {
    // On shm the location cache is off by default: its bound is 0.
    figures_->AddAtMost("the client's memory", static_cast<double>(client_->memory_bytes()) / (1 << 20), "MiB", 1,
                        "1 MiB for its connection");
    return absl::OkStatus();
  }

  // Adds to counters in random order. Their cells are known, except the few that share a cache line with two others.
  // Then adds to few counters, whose cells are all known.
  absl::Status Count() {
    const int64_t operations = absl::GetFlag(FLAGS_operations);
    const KeyRange counters = {.first = small_.count + large_.count, .count = absl::GetFlag(FLAGS_counters)};
    const KeyRange few = {.first = counters.first, .count = std::min<int64_t>(counters.count, 1000)};
    if (absl::Status status = CreateAll(client_, counters); !status.ok()) return status;
    const absl::StatusOr<Percentiles> add = TimeAdds(client_, counters, operations);
    if (!add.ok()) return add.status();
    figures_->AddAtMost("FetchAdd, cell known, uniform, p50", add->p50_ns, "ns", 3 * floors_.locked_add_ns,
                        "3 cold lock-prefixed adds");
    figures_->Add("FetchAdd, cell known, uniform, p99", add->p99_ns, "ns");
    if (auto known = TimeAdds(client_, few, 30 * few.count); !known.ok()) return known.status();
    const absl::StatusOr<int64_t> before_ns = CpuNsAtRest(server_);
    if (!before_ns.ok()) return before_ns.status();
    if (auto again = TimeAdds(client_, few, operations); !again.ok()) return again.status();
    const absl::StatusOr<int64_t> after_ns = CpuNsAtRest(server_);
    if (!after_ns.ok()) return after_ns.status();
    figures_->AddAtMost("the server's CPU time during as many adds", static_cast<double>(*after_ns - *before_ns), "ns",
                        0, "none");
    return absl::OkStatus();
  }

  Client* const client_;
  const pid_t server_;
  const Floors floors_;
  Figures* const figures_;
  KeyRange small_, large_;
};

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

absl::Status Measure(Figures* figures) {
  if (absl::GetFlag(FLAGS_keys) < 1 || absl::GetFlag(FLAGS_counters) < 1) {
    return absl::InvalidArgumentError("--keys, --counters: at least 1");
  }
  const absl::StatusOr<CpuPair> cpus = FirstTwoCpus();
  if (!cpus.ok()) return cpus.status();
  // First, so that their memory is free again for the server.
  Floors floors;
  absl::Status status = MeasureFloors(*cpus, &floors, figures);
  if (!status.ok()) return status;

  // The server inherits its CPU; then this process takes the other one. The server spins while writes are timed; while
  // there are only reads it still sleeps.
  PinTo(cpus->b);
  const absl::StatusOr<std::unique_ptr<ServerProcess>> server = StartServer(
      absl::GetFlag(FLAGS_memory_mib),
      {absl::StrCat("--counter_memory=", (absl::GetFlag(FLAGS_counters) + 1024) * kCellBytes), "--spin_us=1000"});
  PinTo(cpus->a);
  if (!server.ok()) return server.status();
  ClientOptions options;
  options.counter_cache_bytes = 128 * absl::GetFlag(FLAGS_counters);  // a quarter full
  const absl::StatusOr<std::unique_ptr<Client>> client = ConnectTo(**server, options);
  if (!client.ok()) return client.status();
  return SpeedOfClient(client->get(), (*server)->pid(), floors, figures).Measure();
}

}  // namespace

Measurement Speed() {
  return {"speed",
          "the speed that Farlook promises on shm, each figure beside the machine's floor",
          {{"server"},
           {"memory_mib", "2048"},
           {"workers"},
           {"keys", "4000000"},
           {"operations", "1000000"},
           {"counters"},
           {"idle_s"}},
          Measure};
}

}  // namespace farlook::bench
