// stalls: how long clients wait when a server of a group of three is ended, killed or stopped.
//
//     stalls --server=PATH [--scheme=shm|tcp] [--directory=URL] [--suspicion=300ms] [--lease=150ms] [--times=5]
//            [--json=FILE]
//
// Three servers on this host. One client puts, one gets by default lookups and one by READ, each one call after the
// other. A backup, and then the primary, is ended by SIGTERM, killed, and stopped, --times times each. Reports the
// longest wait of each client. With --directory=etcd://host:port/NAME the record is in etcd, where the end of a process
// is not reported, as between hosts; otherwise it is in files.
//
// Exit codes: 0 measured, 1 it cannot be measured.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
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
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "bench/cluster/caller.h"
#include "bench/cluster/folder.h"
#include "bench/common/figures.h"
#include "bench/common/latencies.h"
#include "bench/micro/server_process.h"
#include "farlook/admin.h"
#include "farlook/client.h"

ABSL_FLAG(std::string, server, "", "the kv_server to start");
ABSL_FLAG(std::string, scheme, "shm", "of the servers' addresses: shm or tcp");
ABSL_FLAG(int, port, 7581, "of the first server on tcp; the others have the next");
ABSL_FLAG(std::string, directory, "", "the group's record; empty: in files");
ABSL_FLAG(absl::Duration, suspicion, absl::Milliseconds(300), "the servers'");
ABSL_FLAG(absl::Duration, lease, absl::Milliseconds(150), "the group's");
ABSL_FLAG(int, times, 5, "events of each kind");
ABSL_FLAG(std::string, json, "", "file for the figures as JSON");

namespace farlook::bench {
namespace {

constexpr int64_t kTimeoutMs = 60'000;
constexpr size_t kServers = 3;
// Between two calls of a client: the servers need the processors too.
constexpr std::chrono::microseconds kPause(1'000);

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& addresses, Lookups lookups) {
  ClientOptions options;
  options.timeout_ms = kTimeoutMs;
  options.lookups = lookups;
  return Client::Connect(addresses, options);
}

class StallsRun {
 public:
  absl::Status Run(Figures* figures) {
    for (size_t i = 0; i < kServers; ++i) {
      if (absl::Status status = Start(i); !status.ok()) return status;
    }
    auto client = Connect(addresses_, Lookups::kAuto);
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
    if (auto put = client_->Put("key", "value"); !put.ok()) return put.status();
    std::vector<std::unique_ptr<Caller>> callers;
    for (const auto& [puts, lookups] :
         {std::pair{true, Lookups::kAuto}, {false, Lookups::kAuto}, {false, Lookups::kReads}}) {
      auto calling = Connect(addresses_, lookups);
      if (!calling.ok()) return calling.status();
      callers.push_back(std::make_unique<Caller>(*std::move(calling), std::vector<std::string>{"key"}, puts, kPause));
    }
    for (const bool of_primary : {false, true}) {
      for (const int signal : {SIGTERM, SIGKILL, SIGSTOP}) {
        if (absl::Status status = Measure(of_primary, signal, callers, figures); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Start(size_t i) {
    const bool is_local = absl::GetFlag(FLAGS_scheme) == "shm";
    const std::string address = is_local
                                    ? absl::StrCat("shm://", folder_.path(), "/", i)
                                    : absl::StrCat("tcp://127.0.0.1:", absl::GetFlag(FLAGS_port) + static_cast<int>(i));
    const std::string directory = absl::GetFlag(FLAGS_directory);
    const std::vector<std::string> flags = {
        "--memory=64MiB",
        "--log_level=error",
        "--replicas=3",
        absl::StrCat("--suspicion=", absl::FormatDuration(absl::GetFlag(FLAGS_suspicion))),
        absl::StrCat("--lease=", absl::FormatDuration(absl::GetFlag(FLAGS_lease))),
        absl::StrCat("--group=", directory.empty() ? "file://" + folder_.path() + "/g" : directory)};
    auto server = ServerProcess::Start(absl::GetFlag(FLAGS_server), flags, kTimeoutMs, address);
    if (!server.ok()) return server.status();
    servers_[i] = *std::move(server);
    if (addresses_.find(address) == std::string::npos) {
      absl::StrAppend(&addresses_, addresses_.empty() ? "" : ",", address);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> AwaitWhole() {
    for (;;) {
      auto status = GroupStatus(client_.get());
      if (!status.ok()) return status;
      const std::vector<std::string> lines = absl::StrSplit(*status, '\n');
      const auto backups = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
        return absl::StartsWith(line, "backup ") && !absl::StrContains(line, " disconnected");
      });
      if (backups == kServers - 1) return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  absl::Status Measure(bool of_primary, int signal, const std::vector<std::unique_ptr<Caller>>& callers,
                       Figures* figures) {
    std::array<Latencies, 3> waits;
    for (int time = 0; time < absl::GetFlag(FLAGS_times); ++time) {
      auto status = AwaitWhole();
      if (!status.ok()) return status.status();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      size_t victim = 0;
      while (absl::StrContains(*status, absl::StrCat("primary ", servers_[victim]->address(), " ")) != of_primary) {
        ++victim;
      }
      for (const auto& caller : callers) caller->TakeLongestNs();
      kill(servers_[victim]->pid(), signal);
      std::this_thread::sleep_for(std::chrono::seconds(signal == SIGSTOP ? 4 : 1));
      for (const auto& caller : callers) {
        if (!caller->Await(10)) return absl::InternalError("a call failed meanwhile");
      }
      for (size_t i = 0; i < callers.size(); ++i) waits[i].ns.push_back(callers[i]->TakeLongestNs());
      if (signal == SIGSTOP) {
        kill(servers_[victim]->pid(), SIGCONT);
        std::this_thread::sleep_for(std::chrono::milliseconds(500));  // it learns that it was removed
      } else {
        servers_[victim].reset();
        if (absl::Status started = Start(victim); !started.ok()) return started;
      }
    }
    const std::string what = absl::StrCat(of_primary ? "primary" : "backup", ", ",
                                          signal == SIGTERM   ? "SIGTERM"
                                          : signal == SIGKILL ? "killed"
                                                              : "stopped");
    constexpr const char* kCalls[] = {"a put", "a get", "a get by READ"};
    for (size_t i = 0; i < waits.size(); ++i) {
      figures->Add(absl::StrCat(what, ", ", kCalls[i], " waits, median"), waits[i].Percentile(0.5) / 1000, "ms");
      figures->Add(absl::StrCat(what, ", ", kCalls[i], " waits, longest"), waits[i].Percentile(1) / 1000, "ms");
    }
    return absl::OkStatus();
  }

  const Folder folder_;  // destroyed last
  std::string addresses_;
  std::array<std::unique_ptr<ServerProcess>, kServers> servers_;
  std::unique_ptr<Client> client_;
};

absl::Status Measure(Figures* figures) { return StallsRun().Run(figures); }

}  // namespace
}  // namespace farlook::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("measures how long clients wait when a server of a group ends, is killed or stops");
  absl::ParseCommandLine(argc, argv);
  return farlook::bench::TakeFigures("stalls", absl::GetFlag(FLAGS_json), farlook::bench::Measure);
}
