// moves: how long clients wait while slots move from one group to another, and how fast their items are copied.
//
//     moves --server=PATH [--scheme=shm|tcp] [--replicas=2] [--records=200000] [--value_bytes=100] [--slots=64]
//           [--times=20] [--lease=150ms] [--json=FILE]
//
// Uses two groups on this host, each with half of the slots. One client puts and another one gets, one key after the
// other of 4,096, while --slots slots move there and back, --times times in all. Reports the longest wait of either
// each time. Then all slots of the first group move.
//
// Exit codes: 0 all limits hold, 1 it cannot be measured, 3 a limit does not hold.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/cluster/caller.h"
#include "bench/cluster/folder.h"
#include "bench/cluster/load.h"
#include "bench/common/clocks.h"
#include "bench/common/figures.h"
#include "bench/common/latencies.h"
#include "bench/micro/server_process.h"
#include "farlook/admin.h"
#include "farlook/client.h"

ABSL_FLAG(std::string, server, "", "the kv_server to start");
ABSL_FLAG(std::string, scheme, "shm", "of the servers' addresses: shm or tcp");
ABSL_FLAG(int, port, 7491, "of the first server on tcp; the others have the next");
ABSL_FLAG(int, replicas, 2, "servers of each group");
ABSL_FLAG(int64_t, records, 200'000, "that are loaded");
ABSL_FLAG(int64_t, value_bytes, 100, "of each value");
ABSL_FLAG(int, slots, 64, "that move there and back");
ABSL_FLAG(int, times, 20, "that they move");
ABSL_FLAG(absl::Duration, lease, absl::Milliseconds(150), "the groups'");
ABSL_FLAG(std::string, json, "", "file for the figures as JSON");

namespace farlook::bench {
namespace {

constexpr int64_t kTimeoutMs = 60'000;
constexpr int kGroups = 2;
constexpr int64_t kCalled = 4096;  // keys that are put and got: about one of each slot

std::string NameOf(int group) { return absl::StrCat("bench.", group); }

class MovesRun {
 public:
  absl::Status Run(Figures* figures) {
    for (int replica = 0; replica < absl::GetFlag(FLAGS_replicas); ++replica) {
      for (int group = 0; group < kGroups; ++group) {
        if (absl::Status status = Start(group, replica == 0); !status.ok()) return status;
      }
      if (replica != 0) continue;
      address_ = absl::StrCat("farlook://", Seed(0), ",", Seed(1), "/bench");
      if (absl::Status status = Connect(&client_); !status.ok()) return status;
    }
    for (int group = 0; group < kGroups; ++group) {
      const std::string all = absl::StrCat("members ", absl::GetFlag(FLAGS_replicas), " of ");
      if (absl::Status status =
              AwaitStatus(group, [&](const std::string& text) { return absl::StrContains(text, all); });
          !status.ok()) {
        return status;
      }
    }
    if (absl::Status status = Load(client_.get(), absl::GetFlag(FLAGS_records), absl::GetFlag(FLAGS_value_bytes));
        !status.ok()) {
      return status;
    }
    const double lease_ms = absl::ToDoubleMilliseconds(absl::GetFlag(FLAGS_lease));
    const std::string few = absl::StrCat("0-", absl::GetFlag(FLAGS_slots) - 1);
    Latencies puts, gets, moves;
    for (int i = 0; i < absl::GetFlag(FLAGS_times); ++i) {
      if (absl::Status status = MoveBeside(i % 2, few, &puts, &gets, &moves); !status.ok()) return status;
    }
    const std::string what = absl::StrCat(absl::GetFlag(FLAGS_slots), " slots move");
    figures->Add(absl::StrCat(what, ", in all, median"), moves.Percentile(0.5) / 1000, "ms");
    AddStalls(what, lease_ms + 20, &puts, &gets, figures);
    if (absl::GetFlag(FLAGS_times) % 2 != 0) return absl::OkStatus();
    puts.ns.clear(), gets.ns.clear(), moves.ns.clear();
    if (absl::Status status = MoveBeside(0, "0-2047", &puts, &gets, &moves); !status.ok()) return status;
    const double items = static_cast<double>(absl::GetFlag(FLAGS_records)) / kGroups;
    figures->Add("2,048 slots move, in all", moves.Percentile(0.5) / 1000, "ms");
    figures->Add("their items", items / (moves.Percentile(0.5) / 1e6), "/s");
    AddStalls("2,048 slots move", lease_ms + 20, &puts, &gets, figures);
    return absl::OkStatus();
  }

  static void AddStalls(const std::string& what, double most_ms, Latencies* puts, Latencies* gets, Figures* figures) {
    figures->Add(absl::StrCat(what, ", a put waits, median"), puts->Percentile(0.5) / 1000, "ms");
    figures->AddAtMost(absl::StrCat(what, ", a put waits, longest"), puts->Percentile(1) / 1000, "ms", most_ms,
                       "lease + 20 ms");
    figures->Add(absl::StrCat(what, ", a get waits, median"), gets->Percentile(0.5) / 1000, "ms");
    figures->AddAtMost(absl::StrCat(what, ", a get waits, longest"), gets->Percentile(1) / 1000, "ms", most_ms,
                       "lease + 20 ms");
  }

  absl::Status Start(int group, bool first) {
    const std::string address =
        absl::GetFlag(FLAGS_scheme) == "shm"
            ? ""
            : absl::StrCat("tcp://127.0.0.1:", absl::GetFlag(FLAGS_port) + static_cast<int>(servers_.size()));
    const char* const half = group == 0 ? "0-2047" : "2048-4095";
    auto server = ServerProcess::Start(
        absl::GetFlag(FLAGS_server),
        {"--memory=1GiB", "--log_level=error", "--cluster=bench", absl::StrCat("--slots=", first ? half : ""),
         absl::StrCat("--lease=", absl::FormatDuration(absl::GetFlag(FLAGS_lease))),
         absl::StrCat("--group=file://", folder_.path(), "/", NameOf(group))},
        kTimeoutMs, address);
    if (!server.ok()) return server.status();
    servers_.push_back(*std::move(server));
    return absl::OkStatus();
  }

  std::string Seed(size_t server) const {
    const std::string& address = servers_[server]->address();
    return address.substr(address.find("://") + 3);
  }

  absl::Status Connect(std::unique_ptr<Client>* client) const {
    ClientOptions options;
    options.timeout_ms = kTimeoutMs;
    options.lookups = Lookups::kReads;
    auto connected = Client::Connect(address_, options);
    if (!connected.ok()) return connected.status();
    *client = *std::move(connected);
    return absl::OkStatus();
  }

  template <typename Condition>
  absl::Status AwaitStatus(int group, Condition condition) {
    for (;;) {
      const auto text = GroupStatus(client_.get(), {.timeout_ms = kTimeoutMs, .group = NameOf(group)});
      if (!text.ok()) return text.status();
      if (condition(*text)) return absl::OkStatus();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // The number of slots according to the group itself.
  absl::StatusOr<size_t> SlotsOf(int group) {
    const auto groups = ListGroups(client_.get(), {.timeout_ms = kTimeoutMs, .group = NameOf(group)});
    if (!groups.ok()) return groups.status();
    for (const ClusterGroup& one : *groups) {
      if (one.name == NameOf(group)) return one.slots;
    }
    return absl::InternalError("a group does not know itself");
  }

  // Moves the slots to the other group. Adds the longest waits meanwhile, and the time until neither group's record
  // contains the move any more.
  absl::Status MoveBeside(int giver, const std::string& slots, Latencies* puts, Latencies* gets, Latencies* moves) {
    std::unique_ptr<Client> putting, getting;
    if (absl::Status status = Connect(&putting); !status.ok()) return status;
    if (absl::Status status = Connect(&getting); !status.ok()) return status;
    std::vector<std::string> keys;
    for (int64_t i = 0; i < kCalled; ++i) keys.push_back(LoadedKey(i));
    Caller putter(std::move(putting), keys, true), getter(std::move(getting), keys, false);
    bool good = putter.Await(kCalled) && getter.Await(kCalled);
    putter.TakeLongestNs(), getter.TakeLongestNs();
    const absl::StatusOr<size_t> before = SlotsOf(1 - giver);
    if (!before.ok()) return before.status();
    const int64_t start_ns = NowNs();
    absl::Status status =
        TakeSlots(client_.get(), NameOf(giver), slots, {.timeout_ms = kTimeoutMs, .group = NameOf(1 - giver)});
    const auto over = [](const std::string& text) {
      return !absl::StrContains(text, "taking ") && !absl::StrContains(text, "taken ") &&
             !absl::StrContains(text, "giving ");
    };
    while (status.ok()) {
      const absl::StatusOr<size_t> now = SlotsOf(1 - giver);
      if (now.ok() && *now > *before) break;
      status = now.status();
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    if (status.ok()) status = AwaitStatus(1 - giver, over);
    if (status.ok()) status = AwaitStatus(giver, over);
    if (!status.ok()) return status;
    moves->ns.push_back(NowNs() - start_ns);
    good = good && putter.Await(kCalled) && getter.Await(kCalled);
    if (!good) return absl::InternalError("a call failed meanwhile");
    puts->ns.push_back(putter.TakeLongestNs());
    gets->ns.push_back(getter.TakeLongestNs());
    return absl::OkStatus();
  }

  const Folder folder_;  // destroyed last
  std::string address_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::unique_ptr<Client> client_;
};

absl::Status Measure(Figures* figures) { return MovesRun().Run(figures); }

}  // namespace
}  // namespace farlook::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("measures for how long clients wait while slots move, and how fast they are copied");
  absl::ParseCommandLine(argc, argv);
  return farlook::bench::TakeFigures("moves", absl::GetFlag(FLAGS_json), farlook::bench::Measure);
}
