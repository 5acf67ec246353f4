// cache: the hit ratio of a server that evicts, and the cost of its puts.
//
//     micro cache --server=PATH [--keys=1000000] [--steps=10000000] [--memory_mib=256] [--puts=200000] [--json=FILE]
//
// First a client with a key space of --keys replays each workload (bench/common/cache_trace.h): it gets, and puts each
// missed key. The hit ratio of the second half is printed. Beside it are those of an LRU and an S3-FIFO cache that hold
// as many keys and see every get. --steps=0 omits this part. Then puts of new keys, one at a time, are measured while
// there is room, and again once the server evicts.
//
// Exit codes: 0 all limits hold, 1 it cannot be measured, 3 a limit does not hold.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/common/cache_trace.h"
#include "bench/common/clocks.h"
#include "bench/common/figures.h"
#include "bench/common/key_name.h"
#include "bench/common/latencies.h"
#include "bench/common/random.h"
#include "bench/common/reference_caches.h"
#include "bench/micro/measurement.h"
#include "bench/micro/server_process.h"
#include "farlook/client.h"

ABSL_FLAG(uint64_t, steps, 10'000'000, "of each workload");
ABSL_FLAG(int64_t, puts, 200'000, "puts that are measured");

namespace farlook::bench {
namespace {

constexpr size_t kValueBytes = 1000;
constexpr uint64_t kItemBytes = 1120;

class CachingServer {
 public:
  absl::Status Start(int64_t memory_mib) {
    client_.reset();
    server_.reset();
    auto server = StartServer(memory_mib, {"--evict", "--max_value_bytes=1MiB"});
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    auto client = ConnectTo(*server_);
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
    return absl::OkStatus();
  }

  // One of the server's figures, or 0.
  double Figure(const std::string& name) {
    const auto figures = ServerFigures(client_.get());
    return figures.ok() && figures->count(name) > 0 ? figures->at(name) : 0;
  }

  // The interface that HitRatio() requires.
  bool Get(uint64_t key) { return client_->Get(std::to_string(key), &got_).ok(); }
  void Put(uint64_t key, bool refill) {
    if (const auto put = client_->Put(std::to_string(key), value_, {.refill = refill}); !put.ok())
      failed_ = put.status();
  }

  // Puts of new keys, each `bytes(i)` long.
  template <typename Bytes>
  void TimePuts(int64_t count, Bytes bytes, Latencies* latencies) {
    std::string key;
    const std::string value(8192, 'p');
    for (int64_t i = 0; i < count; ++i) {
      BuildKeyName(next_++, &key);
      const int64_t start_ns = NowNs();
      const auto put = client_->Put(key, std::string_view(value).substr(0, bytes()));
      latencies->ns.push_back(NowNs() - start_ns);
      if (!put.ok()) failed_ = put.status();
    }
  }
  const absl::Status& failed() const { return failed_; }

 private:
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  const std::string value_ = std::string(kValueBytes, 'v');
  Value got_;
  int64_t next_ = 0;
  absl::Status failed_;
};

absl::Status AddHits(Figures* figures) {
  const uint64_t steps = absl::GetFlag(FLAGS_steps);
  if (steps == 0) return absl::OkStatus();
  for (const CacheWorkload& workload : CacheWorkloads(static_cast<uint64_t>(absl::GetFlag(FLAGS_keys)))) {
    const auto items = static_cast<uint64_t>(static_cast<double>(workload.keys) * workload.share);
    CachingServer cache;
    if (absl::Status status = cache.Start(static_cast<int64_t>(std::max<uint64_t>(32, (items * kItemBytes >> 20) + 4)));
        !status.ok()) {
      return status;
    }
    const double hits = HitRatio(workload, steps, cache);
    if (!cache.failed().ok()) return cache.failed();
    const auto held = static_cast<size_t>(cache.Figure("keys"));
    const double lru = HitRatio(workload, steps, LruCache(held));
    const double s3 = HitRatio(workload, steps, S3FifoCache(held));
    figures->Add(absl::StrCat(workload.name, ": keys held"), static_cast<double>(held), "");
    figures->AddAtLeast(absl::StrCat(workload.name, ": hits, beside LRU"), hits, "%", lru - .5, "LRU - 0.5");
    figures->AddAtLeast(absl::StrCat(workload.name, ": hits, beside S3-FIFO"), hits, "%", s3 - 3.5, "S3-FIFO - 3.5");
    figures->Add(absl::StrCat(workload.name, ": one hit told in"), cache.Figure("touch_sample"), "");
  }
  return absl::OkStatus();
}

template <typename Bytes>
absl::Status AddPuts(absl::string_view what, bool limits, Bytes bytes, Figures* figures) {
  CachingServer cache;
  if (absl::Status status = cache.Start(absl::GetFlag(FLAGS_memory_mib)); !status.ok()) return status;
  const int64_t puts = absl::GetFlag(FLAGS_puts);
  Latencies room, unmeasured, evicting;
  // Neither measurement touches memory for the first time.
  cache.TimePuts(puts / 8, bytes, &unmeasured);
  while (cache.Figure("small_evictions") == 0) {
    cache.TimePuts(2'000, bytes, &room);
    if (!cache.failed().ok()) return cache.failed();
  }
  cache.TimePuts(puts / 4, bytes, &unmeasured);
  cache.TimePuts(puts, bytes, &evicting);
  if (!cache.failed().ok()) return cache.failed();
  figures->Add(absl::StrCat(what, ": put while there is room, p50"), room.Percentile(.5), "us");
  figures->Add(absl::StrCat(what, ": put while there is room, p99"), room.Percentile(.99), "us");
  const double p50 = evicting.Percentile(.5), p99 = evicting.Percentile(.99);
  if (limits) {
    figures->AddAtMost(absl::StrCat(what, ": put while evicting, p50"), p50, "us", 1.5 * room.Percentile(.5), "1.5 x");
    figures->AddAtMost(absl::StrCat(what, ": put while evicting, p99"), p99, "us", 3 * room.Percentile(.99), "3 x");
  } else {
    figures->Add(absl::StrCat(what, ": put while evicting, p50"), p50, "us");
    figures->Add(absl::StrCat(what, ": put while evicting, p99"), p99, "us");
  }
  figures->AddAtMost(absl::StrCat(what, ": time under a lock, 99.9 %"), cache.Figure("lock_p999_ns") / 1000, "us", 200,
                     "200 us");
  figures->AddAtMost(absl::StrCat(what, ": time under a lock, longest"), cache.Figure("lock_longest_ns") / 1000, "us",
                     1000, "1 ms");
  return absl::OkStatus();
}

absl::Status Measure(Figures* figures) {
  Random random(3);
  absl::Status status = AddPuts(
      "1,000 bytes", /*limits=*/true, [] { return kValueBytes; }, figures);
  if (status.ok())
    status = AddPuts(
        "to 3,900 bytes", /*limits=*/false, [&] { return random.Below(3900); }, figures);
  return status.ok() ? AddHits(figures) : status;
}

}  // namespace

Measurement Cache() {
  return {"cache",
          "the hit ratio of a server that evicts, beside LRU and S3-FIFO, and the cost of its puts",
          {{"server"}, {"memory_mib", "256"}, {"keys", "1000000"}, {"workers"}, {"steps"}, {"puts"}},
          Measure};
}

}  // namespace farlook::bench
