// refill: how fast an empty backup is filled, and the primary's remaining rate of writes meanwhile.
//
//     refill --server=PATH [--scheme=shm|tcp] [--gigabytes=1] [--value_bytes=1000] [--rounds=3] [--json=FILE]
//
// A server is loaded, and a client puts in batches all the time, while an empty server joins. The copy goes to memory
// that was prepared before, and ends when the joiner is in sync. //bench/cluster measures the cost of a put once it is
// a member.
//
// Exit codes: 0 all limits hold, 1 it cannot be measured, 3 a limit does not hold.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
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
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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
ABSL_FLAG(int, port, 7481, "of the primary on tcp; the joiner has the next");
ABSL_FLAG(double, gigabytes, 1, "of values that are loaded");
ABSL_FLAG(int64_t, value_bytes, 1000, "of each value");
ABSL_FLAG(int, rounds, 3, "backups that are filled, one after the other");
ABSL_FLAG(std::string, json, "", "file for the figures as JSON");

namespace farlook::bench {
namespace {

constexpr int64_t kTimeoutMs = 60'000;
constexpr auto kAlone = std::chrono::seconds(2);
// A server's threads: the group's, which copies at a primary and receives copies at a joiner; and the worker.
constexpr absl::string_view kCopier = "group", kSender = "worker0";

// Gigabytes per second of memcpy, one value at a time, between memory that is in no cache.
double CopiedPerSecond() {
  constexpr size_t kBytes = 256 << 20;
  const auto value_bytes = static_cast<size_t>(absl::GetFlag(FLAGS_value_bytes));
  const std::vector<char> from(kBytes, 'v');
  std::vector<char> to(kBytes);
  const int64_t start_ns = NowNs();
  for (size_t at = 0; at + value_bytes <= kBytes; at += value_bytes) {
    std::memcpy(to.data() + at, from.data() + at, value_bytes);
  }
  return static_cast<double>(kBytes) / static_cast<double>(NowNs() - start_ns);
}

// Puts batches of the first records, on a separate thread, until it is destroyed.
class Putter {
 public:
  explicit Putter(std::unique_ptr<Client> client) : client_(std::move(client)), thread_([this] { Put(); }) {}
  ~Putter() {
    over_ = true;
    thread_.join();
  }
  uint64_t puts() const { return puts_; }
  bool failed() const { return failed_; }
  double PutsPerNs() const {
    const uint64_t before = puts_;
    const int64_t start_ns = NowNs();
    std::this_thread::sleep_for(kAlone);
    return static_cast<double>(puts_ - before) / static_cast<double>(NowNs() - start_ns);
  }

 private:
  void Put() {
    std::vector<std::string> names;
    for (size_t i = 0; i < kLoadBatch; ++i) names.push_back(LoadedKey(static_cast<int64_t>(i)));
    const std::string value(static_cast<size_t>(absl::GetFlag(FLAGS_value_bytes)), 'v');
    const std::vector<std::string_view> keys(names.begin(), names.end()), values(kLoadBatch, value);
    std::vector<Result<uint64_t>> results;
    while (!over_ && !failed_) {
      failed_ = !client_->MultiPut(keys, values, &results).ok();
      puts_ += kLoadBatch;
    }
  }

  const std::unique_ptr<Client> client_;
  std::atomic<bool> over_{false}, failed_{false};
  std::atomic<uint64_t> puts_{0};
  std::thread thread_;
};

// Processor time in nanoseconds for filling one backup.
struct Threads {
  double joiner_ns = 0, copier_ns = 0, sender_ns = 0;
};

class RefillRun {
 public:
  absl::Status Run(Figures* figures) {
    auto primary = Start(absl::GetFlag(FLAGS_port));
    if (!primary.ok()) return primary.status();
    primary_ = *std::move(primary);
    auto client = Connect();
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
    const auto records = static_cast<int64_t>(absl::GetFlag(FLAGS_gigabytes) * 1e9) / absl::GetFlag(FLAGS_value_bytes);
    if (absl::Status status = Load(client_.get(), records, absl::GetFlag(FLAGS_value_bytes)); !status.ok())
      return status;
    Latencies quiet, busy;
    double least_share = 1, least_share_of_replicated = 1;
    Threads quiet_threads;
    for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
      absl::StatusOr<int64_t> took_ns = Fill();
      if (!took_ns.ok()) return took_ns.status();
      quiet.ns.push_back(*took_ns);
      quiet_threads = threads_;
      auto putting = Connect();
      if (!putting.ok()) return putting.status();
      Putter putter(*std::move(putting));
      const double alone = putter.PutsPerNs();
      double meanwhile = 0, with_backup = 0;
      took_ns = Fill([&](bool begins, int64_t ns) {
        const auto puts = static_cast<double>(putter.puts());
        meanwhile = begins ? puts : (puts - meanwhile) / static_cast<double>(ns);
        if (!begins) with_backup = putter.PutsPerNs();
      });
      if (!took_ns.ok()) return took_ns.status();
      if (putter.failed()) return absl::InternalError("a put failed meanwhile");
      busy.ns.push_back(*took_ns);
      least_share = std::min(least_share, meanwhile / alone);
      least_share_of_replicated = std::min(least_share_of_replicated, meanwhile / with_backup);
      if (round == 0) figures->Add("puts alone, in batches", alone * 1e9, "/s");
    }
    const double gigabytes = absl::GetFlag(FLAGS_gigabytes);
    figures->Add("values", gigabytes, "GB");
    figures->Add("floor: they are copied once", CopiedPerSecond(), "GB/s");
    figures->AddAtLeast("filled without writes, median", gigabytes / (quiet.Percentile(0.5) / 1e6), "GB/s", 1,
                        "1 GB/s");
    // With a processor for each, it takes no longer than the thread that works most.
    figures->Add("of the last one: the joiner's thread runs for", quiet_threads.joiner_ns / 1e9 / gigabytes, "s/GB");
    figures->Add("the primary's that copies", quiet_threads.copier_ns / 1e9 / gigabytes, "s/GB");
    figures->Add("the primary's that sends", quiet_threads.sender_ns / 1e9 / gigabytes, "s/GB");
    figures->Add("filled while a client puts, median", gigabytes / (busy.Percentile(0.5) / 1e6), "GB/s");
    figures->AddAtLeast("of its puts, least", least_share, "x", 0.8, "0.8 x");
    // Records of writes are also sent to the joiner, as they are from then on.
    figures->Add("of its puts when that backup is in sync, least", least_share_of_replicated, "x");
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<ServerProcess>> Start(int port) const {
    const std::string address = absl::GetFlag(FLAGS_scheme) == "shm" ? "" : absl::StrCat("tcp://127.0.0.1:", port);
    const auto mebibytes = static_cast<int64_t>(absl::GetFlag(FLAGS_gigabytes) * 1500) + 256;
    return ServerProcess::Start(absl::GetFlag(FLAGS_server),
                                {absl::StrCat("--memory=", mebibytes, "MiB"), "--log_level=error",
                                 absl::StrCat("--group=file://", folder_.path(), "/g")},
                                kTimeoutMs, address);
  }

  absl::StatusOr<std::unique_ptr<Client>> Connect() const {
    ClientOptions options;
    options.timeout_ms = kTimeoutMs;
    return Client::Connect(primary_->address(), options);
  }

  // Lets another server join until it is in sync, and ends it. Calls `progress` when filling begins, and when it is
  // done.
  absl::StatusOr<int64_t> Fill(const std::function<void(bool begins, int64_t ns)>& progress = {}) {
    absl::StatusOr<std::unique_ptr<ServerProcess>> joiner = absl::UnavailableError("");
    std::thread starting([&] { joiner = Start(absl::GetFlag(FLAGS_port) + 1); });
    int64_t begun_ns = 0, took_ns = 0;
    const auto copier_before = CpuNsOfThread(primary_->pid(), kCopier),
               sender_before = CpuNsOfThread(primary_->pid(), kSender);
    absl::Status status;
    while (took_ns == 0 && status.ok()) {
      const auto text = GroupStatus(client_.get());
      status = text.status();
      if (!status.ok()) break;
      if (begun_ns == 0 && absl::StrContains(*text, "\njoining ")) {
        begun_ns = NowNs();
        if (progress) progress(true, 0);
      } else if (absl::StrContains(*text, "members 2 of")) {
        if (begun_ns == 0) status = absl::InternalError("it was filled before that was seen: give more --gigabytes");
        took_ns = NowNs() - begun_ns;
        if (progress) progress(false, took_ns);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    starting.join();
    if (!joiner.ok()) return joiner.status();
    if (!status.ok()) return status;
    // Before it filled it was idle.
    const auto joiner_ns = CpuNsOfThread((*joiner)->pid(), kCopier);
    const auto copier_ns = CpuNsOfThread(primary_->pid(), kCopier), sender_ns = CpuNsOfThread(primary_->pid(), kSender);
    if (!joiner_ns.ok() || !copier_ns.ok() || !sender_ns.ok() || !copier_before.ok() || !sender_before.ok()) {
      return absl::InternalError("a server has not the threads that are looked at");
    }
    threads_ = {static_cast<double>(*joiner_ns), static_cast<double>(*copier_ns - *copier_before),
                static_cast<double>(*sender_ns - *sender_before)};
    (*joiner)->Stop();
    // Until the group has noticed its end, the next server is not needed as a backup.
    while (true) {
      const auto text = GroupStatus(client_.get());
      if (!text.ok()) return text.status();
      if (absl::StrContains(*text, "members 1 of")) return took_ns;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  const Folder folder_;  // destroyed last
  std::unique_ptr<ServerProcess> primary_;
  std::unique_ptr<Client> client_;
  Threads threads_;  // of the last Fill()
};

absl::Status Measure(Figures* figures) { return RefillRun().Run(figures); }

}  // namespace
}  // namespace farlook::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("measures how fast a backup is filled, and what that leaves of the rate of writes");
  absl::ParseCommandLine(argc, argv);
  return farlook::bench::TakeFigures("refill", absl::GetFlag(FLAGS_json), farlook::bench::Measure);
}
