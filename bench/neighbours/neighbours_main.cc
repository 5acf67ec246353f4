// neighbours: the cost of a server's bad clients for an honest one.
//
//     neighbours --server=PATH [--rounds=3] [--ms=2000] [--workers=1] [--only=KIND,...] [--json=FILE]
//                [--listen=ADDRESS]
//
// An honest client puts values of 100 bytes, one at a time: alone; beside each kind of bad client (bad_clients.h), a
// separate process; and beside a control. The control uses as much processor time as that client did, and does not
// connect to the server. These take turns, `rounds` times each; percentiles are of all rounds. The server has separate
// processors (processors.h). So a neighbour's cost there is caused by the server, and its cost on the clients'
// processors appears in the control as well. The server itself counts work that does not depend on the scheduler: its
// work for others between two looks at requests. After each kind has ended: the memory that the server still keeps, by
// its own figures and by the kernel's.
//
// Exit codes: 0 done, 1 it cannot be measured, 3 the server kept something for a client that is gone.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
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
#include "bench/common/clocks.h"
#include "bench/common/figures.h"
#include "bench/common/processors.h"
#include "bench/micro/server_process.h"
#include "bench/neighbours/bad_clients.h"
#include "bench/ycsb/histogram.h"
#include "farlook/client.h"

ABSL_FLAG(std::string, server, "", "the kv_server to start");
ABSL_FLAG(std::string, listen, "", "its address, such as tcp://127.0.0.1:7471; empty: one of shm://");
ABSL_FLAG(int, workers, 1, "its workers");
ABSL_FLAG(int, rounds, 3, "of each kind");
ABSL_FLAG(int64_t, ms, 2000, "of each round");
ABSL_FLAG(std::vector<std::string>, only, {}, "kinds; empty: all");
ABSL_FLAG(std::string, json, "", "file for the figures as JSON");

namespace farlook::bench {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kGoneWithinNs = 30 * kSecondNs;
constexpr int64_t kStartMs = 60'000;

int ready_fd = -1;

void PrintReady() {
  if (write(ready_fd, "r", 1) != 1) _exit(1);
}

// A bad client that runs for the lifetime of this object.
class Neighbour {
 public:
  Neighbour(const BadClient& kind, const std::string& address) : kind_(kind) {
    int fds[2];
    if (pipe(fds) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(fds[0]);
      ready_fd = fds[1];
      std::fprintf(stderr, "%s\n", kind.run(address, PrintReady).c_str());
      _exit(1);
    }
    close(fds[1]);
    char byte;
    ready_ = pid_ > 0 && read(fds[0], &byte, 1) == 1;
    close(fds[0]);
    if (ready_ && kind_.stopped) stopper_ = StartStopper();
  }
  ~Neighbour() {
    for (const pid_t pid : {stopper_, pid_}) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  bool ready() const { return ready_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t StartStopper() const {
    const pid_t stopper = fork();
    if (stopper != 0) return stopper;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) {
      kill(pid_, SIGSTOP);
      usleep(50'000);
      kill(pid_, SIGCONT);
      usleep(5'000);
    }
  }

  const BadClient& kind_;
  pid_t pid_ = 0;
  pid_t stopper_ = 0;
  bool ready_ = false;
};

// A process that uses `share` of a processor's time, or of several, for the lifetime of this object.
class Control {
 public:
  explicit Control(double share) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int threads = std::max(1, static_cast<int>(std::ceil(share)));
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) running.emplace_back([=] { Burn(share / threads); });
    while (true) pause();
  }
  ~Control() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

 private:
  [[noreturn]] static void Burn(double share) {
    constexpr int64_t kPeriodNs = 5'000'000;
    const auto busy_ns = static_cast<int64_t>(share * kPeriodNs);
    while (true) {
      const int64_t start_ns = NowNs();
      while (NowNs() - start_ns < busy_ns) {
      }
      usleep(static_cast<useconds_t>((kPeriodNs - busy_ns) / 1000));
    }
  }

  const pid_t pid_;
};

// In MiB, as counted by the kernel: without memory that clients share with the server.
double ResidentMiB(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::strtod(line.c_str() + 8, nullptr) / 1024;
  }
  return 0;
}

class Neighbours {
 public:
  absl::Status Run(Figures* figures) {
    auto server = ServerProcess::Start(absl::GetFlag(FLAGS_server),
                                       {"--memory=1GiB", absl::StrCat("--workers=", absl::GetFlag(FLAGS_workers)),
                                        "--huge_pages=none", "--log_level=error"},
                                       kStartMs, absl::GetFlag(FLAGS_listen));
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    ClientOptions options;
    options.timeout_ms = 60'000;
    auto client = Client::Connect(server_->address(), options);
    if (!client.ok()) return client.status();
    honest_ = *std::move(client);
    const cpu_set_t servers = PartProcessors(server_->pid(), absl::GetFlag(FLAGS_workers));
    figures->Add("processors that are the server's alone", CPU_COUNT(&servers), "");
    if (absl::Status status = PutFor(kSecondNs / 2, nullptr); !status.ok()) return status;  // warm up
    const double resident = ResidentMiB(server_->pid());
    figures->Add("memory of the server at first", resident, "MiB");
    const std::vector<std::string> only = absl::GetFlag(FLAGS_only);
    for (const BadClient& kind : BadClients()) {
      if (!only.empty() && std::find(only.begin(), only.end(), std::string(kind.name)) == only.end()) continue;
      if (absl::Status status = Compare(kind, resident, figures); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  bool kept_nothing() const { return kept_nothing_; }

 private:
  absl::Status PutFor(int64_t ns, Histogram* latencies) {
    const std::string value(100, 'h');
    const int64_t end_ns = NowNs() + ns;
    for (uint64_t i = 0;; ++i) {
      const std::string key = absl::StrCat("honest ", i % 1000);
      const int64_t start_ns = NowNs();
      if (start_ns >= end_ns) return absl::OkStatus();
      if (const auto put = honest_->Put(key, value); !put.ok()) return put.status();
      if (latencies != nullptr) latencies->Record(static_cast<uint64_t>(NowNs() - start_ns));
    }
  }

  absl::Status Compare(const BadClient& kind, double resident, Figures* figures) {
    const int64_t round_ns = absl::GetFlag(FLAGS_ms) * 1'000'000;
    auto alone = std::make_unique<Histogram>(), beside = std::make_unique<Histogram>();
    auto control = std::make_unique<Histogram>();
    double most_resident = 0, cpu_ns = 0;
    for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
      if (absl::Status status = PutFor(round_ns, alone.get()); !status.ok()) return status;
      {
        const Neighbour neighbour(kind, server_->address());
        if (!neighbour.ready()) return absl::UnavailableError(absl::StrCat("no client of the kind ", kind.name));
        const auto before_ns = CpuNsOf(neighbour.pid());
        if (absl::Status status = PutFor(round_ns, beside.get()); !status.ok()) return status;
        const auto after_ns = CpuNsOf(neighbour.pid());
        if (before_ns.ok() && after_ns.ok()) cpu_ns += static_cast<double>(*after_ns - *before_ns);
        most_resident = std::max(most_resident, ResidentMiB(server_->pid()));
      }
      if (absl::Status status = WaitUntilGone(kind); !status.ok()) return status;
      const Control burns(cpu_ns / static_cast<double>(round_ns * (round + 1)));
      if (absl::Status status = PutFor(round_ns, control.get()); !status.ok()) return status;
    }
    figures->Add(absl::StrCat(kind.name, ": processors that it takes"),
                 cpu_ns / static_cast<double>(round_ns * absl::GetFlag(FLAGS_rounds)), "");
    for (const double percent : {50.0, 99.0, 99.9}) {
      const double before = static_cast<double>(alone->Percentile(percent)) / 1000;
      const double burnt = static_cast<double>(control->Percentile(percent)) / 1000;
      const double with = static_cast<double>(beside->Percentile(percent)) / 1000;
      figures->Add(absl::StrCat(kind.name, ": p", percent, " alone"), before, "us");
      figures->Add(absl::StrCat(kind.name, ": p", percent, " beside the control"), burnt, "us");
      figures->Add(absl::StrCat(kind.name, ": p", percent, " beside"), with, "us");
      figures->Add(absl::StrCat(kind.name, ": p", percent, " ratio to alone"), with / before, "x");
      figures->Add(absl::StrCat(kind.name, ": p", percent, " ratio to the control"), with / burnt, "x");
    }
    if (absl::Status status = AddOwnFigures(kind, figures); !status.ok()) return status;
    figures->Add(absl::StrCat(kind.name, ": longest beside"), static_cast<double>(beside->max()) / 1000, "us");
    figures->Add(absl::StrCat(kind.name, ": memory of the server beside"), most_resident - resident, "MiB more");
    figures->Add(absl::StrCat(kind.name, ": memory of the server afterwards"), ResidentMiB(server_->pid()) - resident,
                 "MiB more");
    return absl::OkStatus();
  }

  // The figures are since the server began, so later kinds include those of earlier ones.
  absl::Status AddOwnFigures(const BadClient& kind, Figures* figures) {
    auto stat = ServerFigures(honest_.get());
    if (!stat.ok()) return stat.status();
    figures->Add(absl::StrCat(kind.name, ": longest turn of values"), (*stat)["longest_shared_turn_bytes"] / 1024,
                 "KiB");
    figures->Add(absl::StrCat(kind.name, ": longest lock"), (*stat)["lock_longest_ns"] / 1000, "us");
    figures->Add(absl::StrCat(kind.name, ": p99 in the server"), (*stat)["handling_put_p99_ns"] / 1000, "us");
    return absl::OkStatus();
  }

  // Waits until the server keeps nothing for the bad client. A timeout is a finding, not an error.
  absl::Status WaitUntilGone(const BadClient& kind) {
    const int64_t deadline_ns = NowNs() + kGoneWithinNs;
    while (true) {
      auto found = ServerFigures(honest_.get());
      if (!found.ok()) return found.status();
      std::map<std::string, double>& stat = *found;
      // The memory is returned within another second.
      if (stat["connections"] == 1 && stat["kept_bytes"] == 0 && stat["clients_within_atomics"] == 0) {
        usleep(1'200'000);
        return absl::OkStatus();
      }
      if (NowNs() > deadline_ns) {
        kept_nothing_ = false;
        std::fprintf(stderr, "%s: the server still has %g connections and keeps %g bytes\n",
                     std::string(kind.name).c_str(), stat["connections"], stat["kept_bytes"]);
        return absl::OkStatus();
      }
      usleep(10'000);
    }
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> honest_;
  bool kept_nothing_ = true;
};

int Main() {
  Neighbours neighbours;
  const int code = TakeFigures("neighbours", absl::GetFlag(FLAGS_json), [&](Figures* figures) {
    for (const BadClient& kind : BadClients()) {
      std::printf("%-9s %s\n", std::string(kind.name).c_str(), std::string(kind.does).c_str());
    }
    return neighbours.Run(figures);
  });
  return code == 0 && !neighbours.kept_nothing() ? 3 : code;
}

}  // namespace
}  // namespace farlook::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("measures what bad clients of a server cost an honest one");
  absl::ParseCommandLine(argc, argv);
  return farlook::bench::Main();
}
