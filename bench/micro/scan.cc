// scan: how fast one client walks through all keys of a server on shm, beside a memcpy of as many bytes.
//
//     micro scan --server=PATH/kv_server [--keys=10000000] [--memory_mib=4096] [--json=FILE]
//
// Starts a separate server and puts items of 100 bytes. Then scans and copies alternate, as both depend on the
// machine's other work. Exit codes: 0; 1 wrong input, or it cannot be measured.
#include "farlook/scan.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/common/clocks.h"
#include "bench/common/figures.h"
#include "bench/micro/client_speed.h"
#include "bench/micro/floor_memory.h"
#include "bench/micro/measurement.h"
#include "bench/micro/server_process.h"
#include "farlook/client.h"

namespace farlook::bench {
namespace {

constexpr size_t kTurns = 5;
constexpr size_t kValueBytes = 100;
constexpr size_t kCopyBytes = size_t{1} << 20;  // to memory that stays in the cache, as a scan's

struct Turn {
  double s = 0;      // of the clock
  double cpu_s = 0;  // of this process
  int64_t keys = 0;
  int64_t bytes = 0;  // of keys and values returned
};

absl::StatusOr<Turn> Walk(Client* client, bool values) {
  Turn turn;
  const CpuTime cpu = OwnCpuTime();
  const int64_t since_ns = NowNs();
  Scanner scanner(client, {.values = values});
  ScannedItem item;
  for (;;) {
    const absl::StatusOr<bool> found = scanner.Next(&item);
    if (!found.ok()) return found.status();
    if (!*found) break;
    ++turn.keys;
    turn.bytes += static_cast<int64_t>(item.key.size() + item.value.size());
  }
  turn.s = static_cast<double>(NowNs() - since_ns) / 1e9;
  turn.cpu_s = (OwnCpuTime() - cpu).total_s();
  return turn;
}

// Copies memory once, in order; returns bytes a second.
double CopyRate(const FloorMemory& memory, char* to) {
  const int64_t since_ns = NowNs();
  size_t copied = 0;
  for (; copied + kCopyBytes <= memory.size(); copied += kCopyBytes) {
    std::memcpy(to, memory.data() + copied, kCopyBytes);
    asm volatile("" : : "r"(to) : "memory");
  }
  return static_cast<double>(copied) * 1e9 / static_cast<double>(NowNs() - since_ns);
}

double Median(std::array<double, kTurns> all) {
  std::nth_element(all.begin(), all.begin() + kTurns / 2, all.end());
  return all[kTurns / 2];
}

absl::Status Measure(Figures* figures) {
  const int64_t keys = absl::GetFlag(FLAGS_keys);
  if (keys < 1) return absl::InvalidArgumentError("--keys: at least 1");
  const auto server = StartServer(absl::GetFlag(FLAGS_memory_mib));
  if (!server.ok()) return server.status();
  const auto client = ConnectTo(**server);
  if (!client.ok()) return client.status();
  const auto loaded = PutAll(client->get(), {.first = 0, .count = keys, .value_bytes = kValueBytes}, 128);
  if (!loaded.ok()) return loaded.status();
  const auto memory = FloorMemory::Map(static_cast<size_t>(keys) * kValueBytes, PageSize::k2MiB);
  if (!memory.ok()) return memory.status();
  const auto to = std::make_unique<char[]>(kCopyBytes);

  const absl::StatusOr<int64_t> server_ns = CpuNsAtRest((*server)->pid());
  if (!server_ns.ok()) return server_ns.status();
  std::array<double, kTurns> key_rates, value_rates, value_bytes, copies, ratios, cpus;
  for (size_t i = 0; i < kTurns; ++i) {
    const absl::StatusOr<Turn> only_keys = Walk(client->get(), /*values=*/false);
    if (!only_keys.ok()) return only_keys.status();
    const absl::StatusOr<Turn> all = Walk(client->get(), /*values=*/true);
    if (!all.ok()) return all.status();
    if (only_keys->keys != keys || all->keys != keys) {
      return absl::InternalError(absl::StrCat("scans found ", only_keys->keys, " and ", all->keys, " keys"));
    }
    copies[i] = CopyRate(*memory, to.get());
    key_rates[i] = static_cast<double>(keys) / only_keys->s;
    value_rates[i] = static_cast<double>(keys) / all->s;
    value_bytes[i] = static_cast<double>(all->bytes) / all->s;
    ratios[i] = value_bytes[i] / copies[i];
    cpus[i] = only_keys->cpu_s / only_keys->s;
  }
  const absl::StatusOr<int64_t> later_ns = CpuNsAtRest((*server)->pid());
  if (!later_ns.ok()) return later_ns.status();
  figures->Add("floor: memcpy, in order, to 1 MiB", Median(copies) / 1e9, "GB/s");
  figures->Add("keys of a scan", Median(key_rates) / 1e6, "M/s");
  figures->Add("processors of this client meanwhile", Median(cpus), "");
  figures->Add("items of a scan with values of 100 bytes", Median(value_rates) / 1e6, "M/s");
  figures->Add("the same, bytes of keys and values", Median(value_bytes) / 1e9, "GB/s");
  figures->Add("the same, of the memcpy", Median(ratios), "x");
  figures->Add("processor time of the server in all scans", static_cast<double>(*later_ns - *server_ns) / 1e6, "ms");
  return absl::OkStatus();
}

}  // namespace

Measurement Scan() {
  return {"scan",
          "how fast one client walks through all keys on shm, beside a memcpy",
          {{"server"}, {"memory_mib", "4096"}, {"workers"}, {"keys", "10000000"}},
          Measure};
}

}  // namespace farlook::bench
