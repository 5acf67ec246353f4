// making_room: the cost of a put that needs much room for the server's other clients, and how long locks are held.
//
//     micro making_room --server=PATH [--memory_mib=2048] [--keys=37000000] [--keep=4] [--put_mib=64] [--workers=1]
//           [--json=FILE]
//
// Fills a server with small keys, to --keys or the first refusal, and deletes all but one in --keep. Then puts a value
// of
// --put_mib, while another client puts small values one at a time. The same without that put is the floor. The control
// is the same beside a thread that does the work of the put's own client (memory, a copy, sums) and then waits. The
// server has separate processors (processors.h). Then prints the server's own figures of time under locks, since its
// start, beside those of a bare loop that ran as long in total. Time for which a processor is taken away counts as a
// thread's time, and no server can avoid it.
//
// Exit codes: 0 all limits hold, 1 it cannot be measured, 3 a limit does not hold.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/common/clocks.h"
#include "bench/common/figures.h"
#include "bench/common/key_name.h"
#include "bench/common/latencies.h"
#include "bench/common/processors.h"
#include "bench/common/random.h"
#include "bench/micro/measurement.h"
#include "bench/micro/server_process.h"
#include "farlook/client.h"

ABSL_FLAG(int64_t, keep, 4, "of so many keys one is kept");
ABSL_FLAG(size_t, put_mib, 64, "MiB of the value for which room is made");
ABSL_FLAG(int64_t, idle_ms, 2000, "how long the floor is measured");

namespace farlook::bench {
namespace {

constexpr int64_t kBatch = 256;
constexpr size_t kValueBytes = 8;
constexpr int64_t kMostLoopMs = 20'000;

class RoomMakingServer {
 public:
  absl::Status Run(Figures* figures) {
    absl::Status status = Start();
    if (status.ok()) status = Fill(figures);
    if (status.ok()) status = Thin();
    Latencies idle, busy, control;
    if (status.ok()) status = PutWhile([] { return Pause(); }, &idle);
    double seconds = 0;
    if (status.ok()) status = PutWhile([&] { return PutLarge(&seconds); }, &busy);
    if (status.ok()) status = PutWhile([&] { return PretendToPutLarge(seconds); }, &control);
    if (!status.ok()) return status;
    figures->Add("processors that are the server's alone", CPU_COUNT(&servers_), "");
    figures->Add("other client's put, idle, p50", idle.Percentile(0.5), "us");
    figures->Add("other client's put, idle, p99", idle.Percentile(0.99), "us");
    figures->Add(absl::StrCat("put of ", absl::GetFlag(FLAGS_put_mib), " MiB: ", large_status_.ToString()), seconds,
                 "s");
    figures->AddAtLeast("puts of it that succeeded", large_status_.ok() ? 1 : 0, "", 1, "all");
    figures->Add("other client's puts meanwhile", static_cast<double>(busy.ns.size()), "");
    figures->Add("other client's put meanwhile, p50", busy.Percentile(0.5), "us");
    figures->Add("other client's put meanwhile, p99", busy.Percentile(0.99), "us");
    figures->Add("other client's put beside the control, p99", control.Percentile(0.99), "us");
    figures->Add("other client's put meanwhile, p99, to control", busy.Percentile(0.99) / control.Percentile(0.99),
                 "x");
    figures->AddAtMost("other client's put meanwhile, p99, to idle", busy.Percentile(0.99) / idle.Percentile(0.99), "x",
                       5, "5 x");
    figures->Add("other client's put meanwhile, longest", busy.Percentile(1), "us");
    return AddServers(figures);
  }

 private:
  absl::Status Start() {
    absl::StatusOr<std::unique_ptr<ServerProcess>> server =
        StartServer(absl::GetFlag(FLAGS_memory_mib), {"--max_value_bytes=64MiB"});
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    servers_ = PartProcessors(server_->pid(), absl::GetFlag(FLAGS_workers));
    for (std::unique_ptr<Client>& client : clients_) {
      absl::StatusOr<std::unique_ptr<Client>> connected = ConnectTo(*server_);
      if (!connected.ok()) return connected.status();
      client = *std::move(connected);
    }
    return absl::OkStatus();
  }

  // A batch of keys from `first` on, each `distance` after the one before.
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
    while (keys_ < absl::GetFlag(FLAGS_keys)) {
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

  // Does the work of the put on its client's processor.
  static absl::Status PretendToPutLarge(double seconds) {
    const int64_t end_ns = NowNs() + static_cast<int64_t>(seconds * 1e9);
    const std::string value(absl::GetFlag(FLAGS_put_mib) << 20, 'l');
    std::vector<char> copy(value.size());
    std::memcpy(copy.data(), value.data(), value.size());
    uint64_t sum = 0;
    for (const char c : copy) sum += static_cast<uint64_t>(c);
    if (sum == 0) return absl::InternalError("no value");
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::max<int64_t>(end_ns - NowNs(), 0)));
    return absl::OkStatus();
  }

  absl::Status AddServers(Figures* figures) {
    absl::StatusOr<std::map<std::string, double>> found = ServerFigures(clients_[0].get());
    if (!found.ok()) return found.status();
    std::map<std::string, double>& stat = *found;
    for (const char* name : {"region_bytes", "free_bytes", "moved_items", "room_steps", "longest_room_wait_us"}) {
      figures->Add(name, stat[name], "");
    }
    AddLocks(stat, figures);
    return absl::OkStatus();
  }

  void AddLocks(std::map<std::string, double>& stat, Figures* figures) {
    const int64_t ms = std::clamp<int64_t>(static_cast<int64_t>(stat["lock_hold_sum_ns"] / 1e6), 100, kMostLoopMs);
    const Gaps gaps = MeasureGaps(ms, servers_);
    const double loop_longest_us = static_cast<double>(gaps.longest_ns) / 1000;
    const double parts = stat["lock_hold_sum_ns"] / 1e6 / static_cast<double>(ms);  // as long as the loop
    figures->Add("lock_holds", stat["lock_holds"], "");
    figures->Add("time under locks in all", stat["lock_hold_sum_ns"] / 1e9, "s");
    figures->AddAtMost("time under a lock, 99.9 %", stat["lock_p999_ns"] / 1000, "us", 200, "200 us");
    figures->Add("bare loop", static_cast<double>(ms) / 1000, "s");
    figures->Add("bare loop, longest gap in its processor time", loop_longest_us, "us");
    figures->Add("bare loop, gaps of 0.9 ms", static_cast<double>(gaps.long_ones), "");
    figures->Add("time under a lock, longest", stat["lock_longest_ns"] / 1000, "us");
    // The longest of either is a single event and shows nothing. For the number of events, twice as many plus three may
    // be chance.
    figures->AddAtMost("times under a lock of 0.9 ms", stat["lock_holds"] - stat["lock_holds_below_917504_ns"], "",
                       3 + 2 * parts * static_cast<double>(gaps.long_ones), "3 + 2 x the bare loop's");
  }

  std::unique_ptr<ServerProcess> server_;
  cpu_set_t servers_{};
  std::unique_ptr<Client> clients_[2];
  std::vector<std::string> names_;
  int64_t keys_ = 0;
  absl::Status large_status_;
};

absl::Status Measure(Figures* figures) { return RoomMakingServer().Run(figures); }

}  // namespace

Measurement MakingRoom() {
  return {"making_room",
          "the cost of a put that needs much room for the server's other clients",
          {{"server"}, {"memory_mib", "2048"}, {"workers"}, {"keys", "37000000"}, {"keep"}, {"put_mib"}, {"idle_ms"}},
          Measure};
}

}  // namespace farlook::bench
