// cluster: the cost of a backup, and how long clients wait while another server becomes primary.
//
//     cluster --server=PATH [--scheme=shm|tcp] [--suspicion=300ms] [--lease=150ms] [--times=20] [--directory=URL]
//             [--spin_us=N] [--json=FILE]
//
// Uses two servers on this host. Measures puts, one at a time and in batches, before and after the second server is in
// sync. Then the primary is stopped and later continued, --times times, and handed over as often, while one client puts
// and another one gets, one at a time. Reports the longest wait of either each time. With
// --directory=etcd://host:port/NAME the record is in etcd, where the end of a process is not reported; otherwise it is
// in files.
//
// Client, primary and backup poll, for which this host may have too few processors. With --spin_us=0 they sleep while
// they wait, so that a put takes the time of all its steps, one after the other. On virtual time (tests/vm/run
// --icount) that is repeatable, and shows the cost of the second round trip.
//
// Exit codes: 0 all limits hold, 1 it cannot be measured, 3 a limit does not hold.
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/cluster/caller.h"
#include "bench/cluster/folder.h"
#include "bench/common/clocks.h"
#include "bench/common/figures.h"
#include "bench/common/latencies.h"
#include "bench/micro/server_process.h"
#include "farlook/admin.h"
#include "farlook/client.h"

ABSL_FLAG(std::string, server, "", "the kv_server to start");
ABSL_FLAG(std::string, scheme, "shm", "of the servers' addresses: shm or tcp");
ABSL_FLAG(int, port, 7481, "of the first server on tcp; the second has the next");
ABSL_FLAG(std::string, directory, "", "the group's record; empty: in files");
ABSL_FLAG(absl::Duration, suspicion, absl::Milliseconds(300), "the servers'");
ABSL_FLAG(absl::Duration, lease, absl::Milliseconds(150), "the group's");
ABSL_FLAG(int, times, 20, "failovers, and handovers");
ABSL_FLAG(int, puts, 20'000, "of each measurement of puts");
ABSL_FLAG(int, spin_us, -1, "microseconds that waiting servers and the client poll; -1: their defaults");
ABSL_FLAG(std::string, json, "", "file for the figures as JSON");

namespace farlook::bench {
namespace {

constexpr int64_t kTimeoutMs = 60'000;
constexpr size_t kBatch = 64;

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& addresses) {
  ClientOptions options;
  options.timeout_ms = kTimeoutMs;
  options.lookups = Lookups::kReads;
  if (absl::GetFlag(FLAGS_spin_us) >= 0) options.spin_us = absl::GetFlag(FLAGS_spin_us);
  return Client::Connect(addresses, options);
}

class ClusterRun {
 public:
  ~ClusterRun() {
    for (auto& server : servers_) {
      if (server != nullptr) kill(server->pid(), SIGCONT);
    }
  }

  absl::Status Run(Figures* figures) {
    if (absl::Status status = Start(0); !status.ok()) return status;
    Puts alone, with_backup;
    if (absl::Status status = MeasurePuts(&alone); !status.ok()) return status;
    if (absl::Status status = Start(1); !status.ok()) return status;
    if (absl::Status status = AwaitBackup(); !status.ok()) return status;
    if (absl::Status status = MeasurePuts(&with_backup); !status.ok()) return status;
    AddPuts(&alone, &with_backup, figures);
    return absl::GetFlag(FLAGS_times) > 0 ? MeasureStalls(figures) : absl::OkStatus();
  }

 private:
  struct Puts {
    Latencies single;
    double per_second = 0;  // in batches
  };

  static void AddPuts(Puts* alone, Puts* with_backup, Figures* figures) {
    const double alone_us = alone->single.Percentile(0.5), with_us = with_backup->single.Percentile(0.5);
    figures->Add("put alone, p50", alone_us, "us");
    figures->Add("put with a backup, p50", with_us, "us");
    figures->AddAtMost("put with a backup to alone, p50", with_us / alone_us, "x", 2.2, "2.2 x");
    figures->Add("puts alone, in batches", alone->per_second, "/s");
    figures->AddAtLeast("puts with a backup to alone, in batches", with_backup->per_second / alone->per_second, "x",
                        0.6, "0.6 x");
  }

  absl::Status MeasureStalls(Figures* figures) {
    const double suspicion_ms = absl::ToDoubleMilliseconds(absl::GetFlag(FLAGS_suspicion));
    const double lease_ms = absl::ToDoubleMilliseconds(absl::GetFlag(FLAGS_lease));
    Latencies puts, gets;
    const auto stop = [this] { return StopPrimary(); };
    if (absl::Status status = Stalls(stop, &puts, &gets); !status.ok()) return status;
    const double least_ms = is_local() ? suspicion_ms + 20 : suspicion_ms + lease_ms + 150;
    const char* const is = is_local() ? "suspicion + 20 ms" : "suspicion + lease + 150 ms";
    AddStalls("primary stopped", least_ms, is, &puts, &gets, figures);
    const auto hand_over = [this] { return HandOver(client_.get()); };
    puts.ns.clear(), gets.ns.clear();
    if (absl::Status status = Stalls(hand_over, &puts, &gets); !status.ok()) return status;
    AddStalls("handover", lease_ms + 20, "lease + 20 ms", &puts, &gets, figures);
    return absl::OkStatus();
  }

  bool is_local() const { return absl::GetFlag(FLAGS_scheme) == "shm"; }

  static void AddStalls(const char* what, double most_ms, const char* is, Latencies* puts, Latencies* gets,
                        Figures* figures) {
    figures->Add(absl::StrCat(what, ", a put waits, median"), puts->Percentile(0.5) / 1000, "ms");
    figures->AddAtMost(absl::StrCat(what, ", a put waits, p99"), puts->Percentile(0.99) / 1000, "ms", most_ms, is);
    figures->Add(absl::StrCat(what, ", a get waits, median"), gets->Percentile(0.5) / 1000, "ms");
    figures->AddAtMost(absl::StrCat(what, ", a get waits, p99"), gets->Percentile(0.99) / 1000, "ms", most_ms, is);
  }

  absl::Status Start(size_t i) {
    const std::string address =
        is_local() ? "" : absl::StrCat("tcp://127.0.0.1:", absl::GetFlag(FLAGS_port) + static_cast<int>(i));
    const std::string directory = absl::GetFlag(FLAGS_directory);
    std::vector<std::string> flags = {
        "--memory=64MiB", "--log_level=error",
        absl::StrCat("--suspicion=", absl::FormatDuration(absl::GetFlag(FLAGS_suspicion))),
        absl::StrCat("--lease=", absl::FormatDuration(absl::GetFlag(FLAGS_lease))),
        absl::StrCat("--group=", directory.empty() ? "file://" + folder_.path() + "/g" : directory)};
    if (const int spin_us = absl::GetFlag(FLAGS_spin_us); spin_us >= 0) {
      flags.push_back(absl::StrCat("--spin_us=", spin_us));
    }
    auto server = ServerProcess::Start(absl::GetFlag(FLAGS_server), flags, kTimeoutMs, address);
    if (!server.ok()) return server.status();
    servers_[i] = *std::move(server);
    addresses_ = absl::StrCat(addresses_, i == 0 ? "" : ",", servers_[i]->address());
    auto client = Connect(addresses_);
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
    return absl::OkStatus();
  }

  absl::Status MeasurePuts(Puts* puts) {
    for (int i = 0; i < absl::GetFlag(FLAGS_puts); ++i) {
      const int64_t start_ns = NowNs();
      if (auto put = client_->Put(absl::StrCat("key", i), "value"); !put.ok()) return put.status();
      puts->single.ns.push_back(NowNs() - start_ns);
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < kBatch; ++i) names.push_back(absl::StrCat("batch", i));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    const std::vector<std::string_view> values(kBatch, "value");
    std::vector<Result<uint64_t>> results;
    const int64_t start_ns = NowNs();
    int64_t done = 0;
    for (; done < 10 * absl::GetFlag(FLAGS_puts); done += kBatch) {
      if (absl::Status status = client_->MultiPut(keys, values, &results); !status.ok()) return status;
    }
    puts->per_second = static_cast<double>(done) * 1e9 / static_cast<double>(NowNs() - start_ns);
    return absl::OkStatus();
  }

  absl::Status AwaitBackup() {
    for (;;) {
      const auto status = GroupStatus(client_.get());
      if (!status.ok()) return status.status();
      if (status->find("\nbackup ") != std::string::npos && status->find("disconnected") == std::string::npos) {
        return absl::OkStatus();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  // Stops the primary until the other server serves.
  absl::Status StopPrimary() {
    const auto status = GroupStatus(client_.get());
    if (!status.ok()) return status.status();
    const bool first = status->find("primary " + servers_[0]->address() + " ") != std::string::npos;
    const pid_t primary = servers_[first ? 0 : 1]->pid();
    kill(primary, SIGSTOP);
    waitpid(primary, nullptr, WUNTRACED);  // until each of its threads has stopped
    const auto put = client_->Put("another", "value");
    kill(primary, SIGCONT);
    return put.status();
  }

  template <typename Event>
  absl::Status Stalls(Event event, Latencies* puts, Latencies* gets) {
    if (auto put = client_->Put("key", "value"); !put.ok()) return put.status();
    auto putting = Connect(addresses_), getting = Connect(addresses_);
    if (!putting.ok()) return putting.status();
    if (!getting.ok()) return getting.status();
    Caller putter(*std::move(putting), {"key"}, true), getter(*std::move(getting), {"key"}, false);
    for (int i = 0; i < absl::GetFlag(FLAGS_times); ++i) {
      if (absl::Status status = AwaitBackup(); !status.ok()) return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      putter.TakeLongestNs(), getter.TakeLongestNs();
      if (absl::Status status = event(); !status.ok()) return status;
      if (!putter.Await(10) || !getter.Await(10)) return absl::InternalError("a call failed meanwhile");
      puts->ns.push_back(putter.TakeLongestNs());
      gets->ns.push_back(getter.TakeLongestNs());
    }
    return absl::OkStatus();
  }

  const Folder folder_;  // destroyed last
  std::string addresses_;
  std::unique_ptr<ServerProcess> servers_[2];
  std::unique_ptr<Client> client_;
};

absl::Status Measure(Figures* figures) { return ClusterRun().Run(figures); }

}  // namespace
}  // namespace farlook::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("measures what a backup costs, and how long clients wait for another primary");
  absl::ParseCommandLine(argc, argv);
  return farlook::bench::TakeFigures("cluster", absl::GetFlag(FLAGS_json), farlook::bench::Measure);
}
