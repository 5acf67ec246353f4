// expiring: how soon a server removes expired items, and what that costs it.
//
//     micro expiring --server=PATH [--keys=10000000] [--seconds=3600] [--watch=300] [--memory_mib=2048] [--workers=1]
//           [--json=FILE]
//
// Puts small keys, which then expire one after the other, in random order, within --seconds. Watches the first --watch
// seconds of that, in which most keys are still there. Meanwhile, and for a while before, the only request asks how
// many were removed, four times a second. The delay of the server is computed from the expiry times of the removed
// keys. Its processor time while nothing expires is the floor.
//
// Exit codes: 0 all limits hold, 1 it cannot be measured, 3 a limit does not hold.
#include <algorithm>
#include <chrono>
#include <cstdint>
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
#include "bench/common/random.h"
#include "bench/micro/measurement.h"
#include "bench/micro/server_process.h"
#include "farlook/client.h"

ABSL_FLAG(int64_t, watch, 300, "of these it watches so many");

namespace farlook::bench {
namespace {

constexpr int64_t kBatch = 256;
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kLookNs = kSecondNs / 4;
constexpr int64_t kIdleNs = 10 * kSecondNs;
// Lowest expected puts per second: the first expiry time is chosen before the puts begin.
constexpr int64_t kSlowestPuts = 200'000;

class ExpiringServer {
 public:
  absl::Status Run(Figures* figures) {
    absl::Status status = Start();
    if (status.ok()) status = Fill();
    int64_t idle_ns = 0, busy_ns = 0;  // of the server's processor time, for each second
    if (status.ok()) status = Watch(first_ns_ - kIdleNs, first_ns_ - kLookNs, &idle_ns);
    if (status.ok() && removed_ > 0) status = absl::InternalError("something expired too early");
    const double holds = stat_["lock_holds"], longer = HoldsAbove64us();
    const int64_t watched_s = std::min(absl::GetFlag(FLAGS_watch), absl::GetFlag(FLAGS_seconds));
    const int64_t end_ns = first_ns_ + watched_s * kSecondNs;
    if (status.ok()) status = Watch(first_ns_, end_ns, &busy_ns);
    const int64_t latest_ns = latest_ns_;
    const auto due = std::upper_bound(due_ns_.begin(), due_ns_.end(), end_ns) - due_ns_.begin();
    int64_t after_ns = 0;
    if (status.ok()) status = Watch(end_ns, end_ns + 10 * kSecondNs, &after_ns);
    if (!status.ok()) return status;
    if (due == 0) return absl::InvalidArgumentError("nothing expires while it watches: give more --keys or --watch");
    figures->Add("keys", static_cast<double>(due_ns_.size() * kBatch) / 1e6, "M");
    figures->Add("of them expire in a second",
                 static_cast<double>(due_ns_.size() * kBatch) / static_cast<double>(absl::GetFlag(FLAGS_seconds)), "");
    // Compared with those that were due by then; 10 seconds later some more are.
    figures->AddAtLeast("removed in the end, of what was due",
                        std::min(1.0, static_cast<double>(removed_) / static_cast<double>(due * kBatch)), "", 1, "all");
    figures->AddAtMost("latest removal", static_cast<double>(latest_ns) / 1e9, "s", 2, "2 s");
    const bool together = absl::GetFlag(FLAGS_seconds) == 1;
    if (together) {
      if (gone_ns_ == 0) return absl::DeadlineExceededError("not all was removed within ten seconds");
      const auto items = static_cast<double>(due_ns_.size() * kBatch);
      figures->AddAtMost("last removal after the last expiry", static_cast<double>(gone_ns_ - due_ns_.back()) / 1e9,
                         "s", 2 + 200e-9 * items, "2 s and 200 ns an item");
    }
    const double workers = absl::GetFlag(FLAGS_workers);
    figures->Add("server's processor time while nothing expires", static_cast<double>(idle_ns) / 1e6, "ms/s");
    const double more = static_cast<double>(busy_ns - idle_ns) / 1e7 / workers;
    if (!together) figures->AddAtMost("and more while they do, of a worker's", more, "%", 1, "1 %");
    figures->Add("holds of locks meanwhile", stat_["lock_holds"] - holds, "");
    figures->Add("holds of more than 65 us", HoldsAbove64us() - longer, "");
    figures->Add("memory of the index afterwards", stat_["index_bytes"] / 1e6, "MB");
    return absl::OkStatus();
  }

 private:
  absl::Status Start() {
    absl::StatusOr<std::unique_ptr<ServerProcess>> server = StartServer(absl::GetFlag(FLAGS_memory_mib));
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    absl::StatusOr<std::unique_ptr<Client>> client = ConnectTo(*server_);
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
    return absl::OkStatus();
  }

  absl::Status Fill() {
    const int64_t batches = std::max<int64_t>(absl::GetFlag(FLAGS_keys) / kBatch, 1);
    first_ns_ = NowNs() + batches * kBatch * kSecondNs / kSlowestPuts + kIdleNs;
    const std::vector<std::string_view> values(kBatch, "12345678");
    std::vector<std::string> names(kBatch);
    std::vector<Result<uint64_t>> results;
    Random random(11);
    for (int64_t batch = 0; batch < batches; ++batch) {
      std::vector<std::string_view> keys;
      for (int64_t i = 0; i < kBatch; ++i) {
        std::string& name = names[static_cast<size_t>(i)];
        BuildKeyName(batch * kBatch + i, &name);
        keys.push_back(name);
      }
      const auto within_ns = static_cast<uint64_t>(absl::GetFlag(FLAGS_seconds) * kSecondNs);
      const int64_t due_ns = first_ns_ + static_cast<int64_t>(random.Below(within_ns));
      PutOptions options;
      options.ttl_ms = (due_ns - NowNs()) / 1'000'000;
      if (absl::Status status = client_->MultiPut(keys, values, &results, options); !status.ok()) return status;
      due_ns_.push_back(due_ns);
    }
    std::sort(due_ns_.begin(), due_ns_.end());
    if (NowNs() > first_ns_ - kIdleNs) return absl::DeadlineExceededError("the keys were put too slowly: put fewer");
    return absl::OkStatus();
  }

  // Polls until `end_ns`, then gives the server's processor time for each second of that.
  absl::Status Watch(int64_t start_ns, int64_t end_ns, int64_t* cpu_ns) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::max<int64_t>(start_ns - NowNs(), 0)));
    const absl::StatusOr<int64_t> before = CpuNsOf(server_->pid());
    if (!before.ok()) return before.status();
    const int64_t begun_ns = NowNs();
    while (NowNs() < end_ns) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(kLookNs));
      if (absl::Status status = Look(); !status.ok()) return status;
    }
    const absl::StatusOr<int64_t> after = CpuNsAtRest(server_->pid());
    if (!after.ok()) return after.status();
    *cpu_ns =
        static_cast<int64_t>(static_cast<double>(*after - *before) * 1e9 / static_cast<double>(NowNs() - begun_ns));
    return absl::OkStatus();
  }

  absl::Status Look() {
    const int64_t now_ns = NowNs();
    absl::StatusOr<std::map<std::string, double>> found = ServerFigures(client_.get());
    if (!found.ok()) return found.status();
    stat_ = *std::move(found);
    if (stat_.count("expirations") == 0)
      return absl::InternalError("the server's figures lack the number of removed items");
    removed_ = static_cast<int64_t>(stat_["expirations"]);
    // All keys that were due when the first of the remaining ones was.
    const auto batches = static_cast<size_t>(removed_ / kBatch);
    if (gone_ns_ == 0 && batches == due_ns_.size()) gone_ns_ = now_ns;
    if (batches < due_ns_.size()) latest_ns_ = std::max(latest_ns_, now_ns - due_ns_[batches]);
    return absl::OkStatus();
  }

  double HoldsAbove64us() { return stat_["lock_holds"] - stat_["lock_holds_below_65536_ns"]; }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  int64_t first_ns_ = 0;
  std::vector<int64_t> due_ns_;  // of batches
  std::map<std::string, double> stat_;
  int64_t removed_ = 0, latest_ns_ = 0;
  int64_t gone_ns_ = 0;  // when all were removed
};

absl::Status Measure(Figures* figures) { return ExpiringServer().Run(figures); }

}  // namespace

Measurement Expiring() {
  return {"expiring",
          "how soon a server removes expired items, and what that costs it",
          {{"server"}, {"memory_mib", "2048"}, {"workers"}, {"keys", "10000000"}, {"seconds", "3600"}, {"watch"}},
          Measure};
}

}  // namespace farlook::bench
