// making_room: what a put that needs much room costs the server's other clients, and how long locks are held.
//
//     making_room --server=PATH [--memory=2GiB] [--keep=4] [--put_mib=64] [--workers=1] [--json=FILE]
//
// Fills a server with small keys to the first refusal, deletes all but one in --keep, and puts a value of --put_mib,
// while another client puts small values one at a time; the same without that put is the floor. Then the server's own
// figures of time under locks, since its start.
//
// Exit codes: 0 all limits hold, 1 it cannot be measured, 3 a limit does not hold.
#include <atomic>
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
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/common/clocks.h"
#include "bench/common/figures.h"
#include "bench/common/key_name.h"
#include "bench/common/latencies.h"
#include "bench/common/random.h"
#include "bench/micro/server_process.h"
#include "farlook/client.h"

ABSL_FLAG(std::string, server, "", "the kv_server to start");
ABSL_FLAG(std::string, memory, "2GiB", "its memory");
ABSL_FLAG(int, workers, 1, "its workers");
ABSL_FLAG(int64_t, keep, 4, "of so many keys one is kept");
ABSL_FLAG(int64_t, most_keys, 37'000'000, "keys at most");
ABSL_FLAG(size_t, put_mib, 64, "MiB of the value for which room is made");
ABSL_FLAG(int64_t, idle_ms, 2000, "how long the floor is measured");
ABSL_FLAG(std::string, json, "", "file for the figures as JSON");

namespace farlook::bench {
namespace {

constexpr int64_t kBatch = 256;
constexpr size_t kValueBytes = 8;

class MakingRoom {
 public:
  absl::Status Run(Figures* figures) {
    absl::Status status = Start();
    if (status.ok()) status = Fill(figures);
    if (status.ok()) status = Thin();
    Latencies idle, busy;
    if (status.ok()) status = PutWhile([] { return Pause(); }, &idle);
    double seconds = 0;
    if (status.ok()) status = PutWhile([&] { return PutLarge(&seconds); }, &busy);
    if (!status.ok()) return status;
    figures->Add("other client's put, idle, p50", idle.Percentile(0.5), "us");
    figures->Add("other client's put, idle, p99", idle.Percentile(0.99), "us");
    figures->Add(absl::StrCat("put of ", absl::GetFlag(FLAGS_put_mib), " MiB: ", large_status_.ToString()), seconds,
                 "s");
    figures->AddAtLeast("puts of it that succeeded", large_status_.ok() ? 1 : 0, "", 1, "all");
    figures->Add("other client's puts meanwhile", static_cast<double>(busy.ns.size()), "");
    figures->Add("other client's put meanwhile, p50", busy.Percentile(0.5), "us");
    figures->Add("other client's put meanwhile, p99", busy.Percentile(0.99), "us");
    figures->AddAtMost("other client's put meanwhile, p99, to idle", busy.Percentile(0.99) / idle.Percentile(0.99), "x",
                       5, "5 x");
    figures->Add("other client's put meanwhile, longest", busy.Percentile(1), "us");
    return AddServers(figures);
  }

 private:
  absl::Status Start() {
    absl::StatusOr<std::unique_ptr<ServerProcess>> server = ServerProcess::Start(
        absl::GetFlag(FLAGS_server),
        {absl::StrCat("--memory=", absl::GetFlag(FLAGS_memory)),
         absl::StrCat("--workers=", absl::GetFlag(FLAGS_workers)), "--max_value_bytes=64MiB", "--log_level=warning"},
        /*timeout_ms=*/300'000);
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    for (std::unique_ptr<Client>& client : clients_) {
      ClientOptions options;
      options.timeout_ms = 120'000;
      absl::StatusOr<std::unique_ptr<Client>> connected = Client::Connect(server_->address(), options);
      if (!connected.ok()) return connected.status();
      client = *std::move(connected);
    }
    return absl::OkStatus();
  }

  // A batch of keys from `first` on, each `distance` from the one before.
  std::vector<std::string_view> Names(int64_t first, int64_t distance) {
    std::vector<std::string_view> names;
    names_.resize(kBatch);
    for (int64_t i = 0; i < kBatch; ++i) {
      BuildKeyName(first + i * distance, &names_[static_cast<size_t>(i)]);
      names.push_back(names_[static_cast<size_t>(i)]);
    }
    return names;
  }

  absl::Status Fill(Figures* figures) {
    const std::string value(kValueBytes, 'v');
    const std::vector<std::string_view> values(kBatch, value);
    std::vector<Result<uint64_t>> results;
    while (keys_ < absl::GetFlag(FLAGS_most_keys)) {
      if (!clients_[0]->MultiPut(Names(keys_, 1), values, &results).ok()) break;
      keys_ += kBatch;
    }
    figures->Add("small keys", static_cast<double>(keys_) / 1e6, "M");
    return keys_ > 0 ? absl::OkStatus() : absl::ResourceExhaustedError("no key fits");
  }

  absl::Status Thin() {
    const int64_t keep = absl::GetFlag(FLAGS_keep);
    std::vector<Result<uint64_t>> results;
    for (int64_t rest = 1; rest < keep; ++rest) {
      for (int64_t first = rest; first + kBatch * keep <= keys_; first += kBatch * keep) {
        if (absl::Status status = clients_[0]->MultiDelete(Names(first, keep), &results); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  // The other client's puts while `what` runs.
  template <class What>
  absl::Status PutWhile(What what, Latencies* latencies) {
    std::atomic<bool> done{false};
    absl::Status status;
    std::thread thread([&] {
      status = what();
      done.store(true, std::memory_order_relaxed);
    });
    const std::string value(kValueBytes, 'w');
    Random random(7);
    std::string key;
    absl::Status own;
    while (!done.load(std::memory_order_relaxed)) {
      const int64_t keep = absl::GetFlag(FLAGS_keep);
      BuildKeyName(static_cast<int64_t>(random.Below(static_cast<uint64_t>(keys_ / keep))) * keep, &key);
      const int64_t start_ns = NowNs();
      const auto put = clients_[1]->Put(key, value);
      latencies->ns.push_back(NowNs() - start_ns);
      if (!put.ok()) own = put.status();
    }
    thread.join();
    return status.ok() ? own : status;
  }

  static absl::Status Pause() {
    std::this_thread::sleep_for(std::chrono::milliseconds(absl::GetFlag(FLAGS_idle_ms)));
    return absl::OkStatus();
  }

  absl::Status PutLarge(double* seconds) {
    const std::string value(absl::GetFlag(FLAGS_put_mib) << 20, 'l');
    const int64_t start_ns = NowNs();
    large_status_ = clients_[0]->Put("large", value).status();
    *seconds = static_cast<double>(NowNs() - start_ns) / 1e9;
    return absl::OkStatus();
  }

  absl::Status AddServers(Figures* figures) {
    const absl::StatusOr<std::string> text = clients_[0]->ServerStats();
    if (!text.ok()) return text.status();
    for (const absl::string_view line : absl::StrSplit(absl::string_view(*text), '\n', absl::SkipEmpty())) {
      const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(line, absl::MaxSplits(' ', 1));
      double number;
      if (!absl::SimpleAtod(pair.second, &number)) continue;
      if (pair.first == "lock_p999_ns") {
        figures->AddAtMost("time under a lock, 99.9 %", number / 1000, "us", 200, "200 us");
      } else if (pair.first == "lock_longest_ns") {
        figures->AddAtMost("time under a lock, longest", number / 1000, "us", 1000, "1 ms");
      } else if (pair.first == "moved_items" || pair.first == "longest_room_wait_us" || pair.first == "room_steps" ||
                 pair.first == "lock_holds" || pair.first == "region_bytes" || pair.first == "free_bytes") {
        figures->Add(pair.first, number, "");
      }
    }
    return absl::OkStatus();
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> clients_[2];
  std::vector<std::string> names_;
  int64_t keys_ = 0;
  absl::Status large_status_;
};

absl::Status Measure(Figures* figures) { return MakingRoom().Run(figures); }

}  // namespace
}  // namespace farlook::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("measures what a put that needs much room costs other clients");
  absl::ParseCommandLine(argc, argv);
  return farlook::bench::TakeFigures("making_room", absl::GetFlag(FLAGS_json), farlook::bench::Measure);
}
