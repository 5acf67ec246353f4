// verbs_speed: the speed that Farlook promises on verbs, each figure beside perftest's of the same run.
//
//     micro verbs_speed --server=PATH/kv_server --host=10.0.0.1 [--json=FILE]
//
// Starts a separate server on this host, at --host, an address of an RDMA device. The meaning of the figures depends on
// the environment. On virtual time (tests/vm/run --icount) latencies repeat to about 1 %, and nanoseconds / 2 are
// instructions of the guest; elsewhere only the ratios are meaningful. One processor suffices, as waiting processes
// sleep. Exit codes: 0 all limits hold, 1 wrong input or something cannot be run, 3 a limit does not hold.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/common/clocks.h"
#include "bench/common/figures.h"
#include "bench/common/key_name.h"
#include "bench/micro/client_speed.h"
#include "bench/micro/measurement.h"
#include "bench/micro/perftest.h"
#include "bench/micro/server_process.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/segment.h"
#include "kv/layout/size_class.h"

ABSL_FLAG(std::string, host, "", "address of an RDMA device of this host; required");
ABSL_FLAG(int, port, 7471, "where the server is to listen");
ABSL_FLAG(int64_t, more_keys, 200'000, "further keys, so that there is an index to warm");
ABSL_FLAG(int64_t, large_mib, 16, "length of the large value; at most the server's limit");
ABSL_FLAG(double, virtual_ns, 0, "nanoseconds of an instruction, where time is virtual: 2 with tests/vm/run --icount");
ABSL_FLAG(bool, only_warm, false, "nothing but Gets whose location is known, for a profile");

namespace farlook::bench {
namespace {

constexpr size_t kSmallBytes = 64;
constexpr size_t kBatch = 500;  // of puts: more messages than a window of the transport

std::string Size(uint64_t bytes) { return absl::StrCat("-s ", bytes); }
std::string Count(int64_t n) { return absl::StrCat("-n ", n); }

// A get of a small value, and an add of 1 to a counter, for RateOf().
struct SmallGet {
  SmallGet() {
    operation.set_options({.timeout_ms = 60'000});
    operation.Into(buffer);
  }
  GetOperation operation;
  char buffer[kSmallBytes];
};
struct Add {
  FetchAddOperation operation{"", 1, {.timeout_ms = 60'000}};
};

// Keeps `in_flight` operations on keys of the range, SmallGet's or Add's, in progress until `operations` have ended.
// Returns operations per second.
template <typename Slot>
absl::StatusOr<double> RateOf(Client* client, const KeyRange& range, size_t in_flight, int64_t operations) {
  const std::unique_ptr<Slot[]> slots(new Slot[in_flight]);
  std::vector<AsyncOperation*> batch, ended(in_flight);
  for (size_t i = 0; i < in_flight; ++i) batch.push_back(&slots[i].operation);
  // Made before the clock starts, since they are the driver's own part: perftest makes none.
  std::vector<std::string> keys(static_cast<size_t>(range.count));
  for (size_t i = 0; i < keys.size(); ++i) BuildKeyName(range.first + static_cast<int64_t>(i), &keys[i]);
  absl::Status error;
  int64_t started = 0;
  const int64_t begin_ns = NowNs();
  for (int64_t done = 0; done < operations;) {
    batch.resize(std::min(batch.size(), static_cast<size_t>(operations - started)));
    for (AsyncOperation* operation : batch) {
      operation->set_key(keys[static_cast<size_t>(started++ * 7919 % range.count)]);
    }
    client->Start(batch);
    batch.clear();
    const size_t count = client->Poll(ended);
    for (size_t i = 0; i < count; ++i) {
      if (!ended[i]->status().ok() && error.ok()) error = ended[i]->status();
      if (error.ok()) batch.push_back(ended[i]);
    }
    done += static_cast<int64_t>(count);
    if (!error.ok() && client->in_flight() == 0) return error;
  }
  return static_cast<double>(operations) * 1e9 / static_cast<double>(NowNs() - begin_ns);
}

class SpeedOnVerbs {
 public:
  explicit SpeedOnVerbs(Figures* figures) : figures_(figures) {
    small_ = {.first = 0, .count = absl::GetFlag(FLAGS_keys), .value_bytes = kSmallBytes};
    std::string key;
    BuildKeyName(0, &key);
    item_bytes_ = kv::SizeClassBytes(kv::SizeClassFor(kv::ItemBytes(key.size(), kSmallBytes)));
  }

  absl::Status Measure() {
    for (auto step : {&SpeedOnVerbs::Floors, &SpeedOnVerbs::Start, &SpeedOnVerbs::Warm, &SpeedOnVerbs::Cold,
                      &SpeedOnVerbs::Many, &SpeedOnVerbs::Write, &SpeedOnVerbs::Batches, &SpeedOnVerbs::Atomics,
                      &SpeedOnVerbs::Large, &SpeedOnVerbs::Warming}) {
      absl::Status status = (this->*step)();
      if (!status.ok()) return status;
      if (absl::GetFlag(FLAGS_only_warm) && step == &SpeedOnVerbs::Warm) break;
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<PerftestResult> Run(const std::string& tool, const std::vector<std::string>& args) {
    return RunPerftest(tool, args, absl::GetFlag(FLAGS_host));
  }

  absl::Status Floors() {
    const std::string n = Count(absl::GetFlag(FLAGS_operations));
    const auto item = Run("ib_read_lat", {Size(item_bytes_), n});
    if (!item.ok()) return item.status();
    const auto bucket = Run("ib_read_lat", {Size(kv::kBucketBytes), n});
    if (!bucket.ok()) return bucket.status();
    const auto rate = Run("ib_read_bw", {Size(item_bytes_), n, "-o 16"});
    if (!rate.ok()) return rate.status();
    const auto send = Run("ib_send_lat", {Size(kSmallBytes), n, "-e"});
    if (!send.ok()) return send.status();
    const auto small = Run("ib_read_lat", {Size(kSmallBytes), n});
    if (!small.ok()) return small.status();
    const auto wide = Run("ib_read_bw", {Size(1 << 20), Count(12 * absl::GetFlag(FLAGS_large_mib))});
    if (!wide.ok()) return wide.status();
    item_us_ = item->typical_us;
    bucket_us_ = bucket->typical_us;
    small_us_ = small->typical_us;
    rate_ = rate->messages_per_s;
    send_us_ = 2 * send->typical_us;
    wide_ = wide->bytes_per_s;
    figures_->Add(absl::StrCat("floor: ib_read_lat of an item, ", item_bytes_, " bytes"), item_us_, "us");
    figures_->Add(absl::StrCat("floor: ib_read_lat of a bucket, ", kv::kBucketBytes, " bytes"), bucket_us_, "us");
    figures_->Add("floor: ib_read_lat of 64 bytes", small_us_, "us");
    figures_->Add("floor: ib_read_bw -o 16 of an item", rate_ / 1e3, "k/s");
    figures_->Add("floor: ib_send_lat -e of 64 bytes, there and back", send_us_, "us");
    figures_->Add("floor: ib_read_bw of 1 MiB", wide_ / (1 << 20), "MiB/s");
    return absl::OkStatus();
  }

  // With `spin_us` 0 a waiting client sleeps at once, like perftest's -e.
  absl::StatusOr<std::unique_ptr<Client>> Connect(int64_t mirror_bytes, int64_t spin_us) {
    ClientOptions options;
    options.mirror_bytes = mirror_bytes;
    options.share_mirror = false;  // the writer knows each key
    options.spin_us = spin_us;
    options.max_in_flight = 4096;
    return ConnectTo(*server_, options);
  }

  absl::Status Start() {
    auto server = StartServer(absl::GetFlag(FLAGS_memory_mib), {"--spin_us=0", "--liveness=1h"},
                              absl::StrCat("rdma://", absl::GetFlag(FLAGS_host), ":", absl::GetFlag(FLAGS_port)));
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    auto client = Connect(-1, 1'000'000);  // READs complete without another process's turn: spinning is right
    if (!client.ok()) return client.status();
    reader_ = *std::move(client);
    auto writer = Connect(-1, 0);
    if (!writer.ok()) return writer.status();
    writer_ = *std::move(writer);
    return PutAll(writer_.get(), small_, 16).status();
  }

  // Instructions of the guest in this virtual time.
  static std::optional<double> Instructions(double ns) {
    const double each = absl::GetFlag(FLAGS_virtual_ns);
    return each > 0 ? std::optional<double>(ns / each) : std::nullopt;
  }

  // READs for each Get between two moments.
  static double ReadsPerGet(const ClientStats& before, const ClientStats& after) {
    return static_cast<double>(after.bucket_reads + after.item_reads - before.bucket_reads - before.item_reads) /
           static_cast<double>(after.gets - before.gets);
  }

  absl::Status Warm() {
    // No key was requested before.
    if (absl::Status status = reader_->Warm(); !status.ok()) return status;
    const ClientStats before = reader_->stats();
    const auto get = TimeGets(reader_.get(), small_, absl::GetFlag(FLAGS_operations));
    if (!get.ok()) return get.status();
    figures_->AddAtMost("Get of 64 bytes, location known, p50", get->p50_ns / 1e3, "us", 1.08 * item_us_,
                        "1.08 READs of the item");
    figures_->AddAtMost("READs of such a Get", ReadsPerGet(before, reader_->stats()), "", 1.02, "one round trip");
    if (const auto beyond = Instructions(get->p50_ns - item_us_ * 1e3)) {
      figures_->AddAtMost("instructions of such a Get beyond the READ's", *beyond, "", 1200,
                          "all of the client's work");
    }
    return absl::OkStatus();
  }

  absl::Status Cold() {
    const auto client = Connect(0, 1'000'000);
    if (!client.ok()) return client.status();
    const ClientStats before = (*client)->stats();
    const auto get = TimeGets(client->get(), small_, absl::GetFlag(FLAGS_operations));
    if (!get.ok()) return get.status();
    figures_->AddAtMost("Get of 64 bytes, nothing known, p50", get->p50_ns / 1e3, "us", 1.10 * (bucket_us_ + item_us_),
                        "1.10 of both READs");
    figures_->AddAtMost("READs of such a Get, beside the item", ReadsPerGet(before, (*client)->stats()) - 1, "", 1.07,
                        "at any load");
    if (const auto beyond = Instructions(get->p50_ns - (bucket_us_ + item_us_) * 1e3)) {
      figures_->Add("instructions of such a Get beyond both READs'", *beyond, "");
    }
    return absl::OkStatus();
  }

  absl::Status Many() {
    const int64_t operations = 4 * absl::GetFlag(FLAGS_operations);
    std::vector<double> rates;
    for (const size_t in_flight : {16, 64, 256, 1024, 3072}) {
      const auto rate =
          RateOf<SmallGet>(reader_.get(), small_, in_flight, std::max<int64_t>(operations, 2 * in_flight));
      if (!rate.ok()) return rate.status();
      rates.push_back(*rate);
      const std::string name = absl::StrCat("async Get, ", in_flight, " in flight");
      if (in_flight == 16) {
        figures_->AddAtLeast(name, *rate / 1e3, "k/s", 0.9 * rate_ / 1e3, "0.9 of ib_read_bw");
        if (const auto each = Instructions(1e9 / *rate))
          figures_->Add("instructions of such a Get, all in all", *each, "");
      } else if (in_flight == 3072) {
        figures_->AddAtLeast(name, *rate / 1e3, "k/s", 0.95 * *std::max_element(rates.begin(), rates.end()) / 1e3,
                             "0.95 of the best");
      } else {
        figures_->Add(name, *rate / 1e3, "k/s");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Write() {
    const auto put = TimePuts(writer_.get(), small_, absl::GetFlag(FLAGS_operations));
    if (!put.ok()) return put.status();
    figures_->AddAtMost("Put of 64 bytes, both sides sleep, p50", put->p50_ns / 1e3, "us", 1.3 * send_us_,
                        "1.3 round trips of ib_send_lat -e");
    figures_->AddAtMost("the same, against a READ", put->p50_ns / 1e3, "us", 2.5 * small_us_, "2.5 READs of 64 bytes");
    if (const auto all = Instructions(put->p50_ns)) {
      figures_->Add("instructions of such a Put, all in all", *all, "");
    }
    return absl::OkStatus();
  }

  // Batches of puts whose messages are not sent inline, by a client that sleeps at once and by one that never does. A
  // lost wake-up shows as a batch that is not done in time: the server's ticks are an hour apart.
  absl::Status Batches() {
    std::vector<std::string> names(kBatch);
    for (size_t i = 0; i < kBatch; ++i) BuildKeyName(2'000'000 + static_cast<int64_t>(i), &names[i]);
    const std::vector<std::string_view> keys(names.begin(), names.end());
    const int64_t batches = std::max<int64_t>(2, absl::GetFlag(FLAGS_operations) / static_cast<int64_t>(kBatch));
    for (const size_t bytes : {1000, 3000}) {
      const std::string value(bytes, 'v');
      const std::vector<std::string_view> values(kBatch, value);
      for (Client* const client : {writer_.get(), reader_.get()}) {
        std::vector<Result<uint64_t>> results;
        const int64_t begin_ns = NowNs();
        for (int64_t i = 0; i < batches; ++i) {
          if (absl::Status status = client->MultiPut(keys, values, &results); !status.ok()) return status;
        }
        const auto puts = static_cast<double>(batches) * kBatch;
        figures_->Add(absl::StrCat("Put of ", bytes, " bytes, ", kBatch, " at once, ",
                                   client == writer_.get() ? "asleep" : "awake", ", each"),
                      static_cast<double>(NowNs() - begin_ns) / 1e3 / puts, "us");
      }
    }
    return absl::OkStatus();
  }

  // Adds to counters whose cells are known: one FETCH_ADD each. iWARP has no atomics.
  absl::Status Atomics() {
    if (IsIwarp()) return absl::OkStatus();
    const int64_t operations = absl::GetFlag(FLAGS_operations);
    const auto latency = Run("ib_atomic_lat", {Count(operations)});
    if (!latency.ok()) return latency.status();
    const auto rate = Run("ib_atomic_bw", {Count(4 * operations), "-o 16"});
    if (!rate.ok()) return rate.status();
    figures_->Add("floor: ib_atomic_lat", latency->typical_us, "us");
    figures_->Add("floor: ib_atomic_bw -o 16", rate->messages_per_s / 1e3, "k/s");

    const KeyRange counters = {.first = small_.count, .count = std::min<int64_t>(small_.count, 500)};
    if (absl::Status status = CreateAll(reader_.get(), counters); !status.ok()) return status;
    const ClientStats before = reader_->stats();
    const absl::StatusOr<int64_t> cpu_before_ns = CpuNsAtRest(server_->pid());
    if (!cpu_before_ns.ok()) return cpu_before_ns.status();
    const auto add = TimeAdds(reader_.get(), counters, operations);
    if (!add.ok()) return add.status();
    const auto adds = RateOf<Add>(reader_.get(), counters, 16, 4 * operations);
    if (!adds.ok()) return adds.status();
    const absl::StatusOr<int64_t> cpu_after_ns = CpuNsAtRest(server_->pid());
    if (!cpu_after_ns.ok()) return cpu_after_ns.status();
    figures_->AddAtMost("FetchAdd, cell known, p50", add->p50_ns / 1e3, "us", 1.15 * latency->typical_us,
                        "1.15 of ib_atomic_lat");
    if (const auto all = Instructions(add->p50_ns)) {
      figures_->Add("instructions of such a FetchAdd, all in all", *all, "");
    }
    figures_->AddAtLeast("async FetchAdd, 16 in flight", *adds / 1e3, "k/s", 0.85 * rate->messages_per_s / 1e3,
                         "0.85 of ib_atomic_bw");
    const ClientStats& after = reader_->stats();
    figures_->AddAtMost("atomics of a FetchAdd",
                        static_cast<double>(after.atomics - before.atomics) / static_cast<double>(5 * operations), "",
                        1, "one round trip");
    figures_->AddAtMost("the server's CPU time during them", static_cast<double>(*cpu_after_ns - *cpu_before_ns) / 1e6,
                        "ms", 0, "none");
    return absl::OkStatus();
  }

  absl::Status Large() {
    const int64_t mib = absl::GetFlag(FLAGS_large_mib);
    const std::string value(static_cast<size_t>(mib) << 20, 'x');
    Value back;
    int64_t put_ns = INT64_MAX, get_ns = INT64_MAX;
    for (int i = 0; i < 3; ++i) {  // the first makes room on both sides
      int64_t start_ns = NowNs();
      // The server READs the value while the client sleeps, as perftest's passive side does.
      if (auto put = writer_->Put("large", value); !put.ok()) return put.status();
      put_ns = std::min(put_ns, NowNs() - start_ns);
      start_ns = NowNs();
      if (absl::Status get = reader_->Get("large", &back); !get.ok()) return get;
      get_ns = std::min(get_ns, NowNs() - start_ns);
      if (back.data != value) return absl::InternalError("a large value came back different");
    }
    const auto mib_per_s = [mib](int64_t ns) { return static_cast<double>(mib) * 1e9 / static_cast<double>(ns); };
    const double limit = 0.8 * wide_ / (1 << 20);
    figures_->AddAtLeast(absl::StrCat("Put of ", mib, " MiB"), mib_per_s(put_ns), "MiB/s", limit, "0.8 of ib_read_bw");
    figures_->AddAtLeast(absl::StrCat("Get of ", mib, " MiB"), mib_per_s(get_ns), "MiB/s", limit, "0.8 of ib_read_bw");
    return absl::OkStatus();
  }

  // Measures how fast the whole of a large enough index is READ.
  absl::Status Warming() {
    constexpr int kTimes = 4;
    const KeyRange more = {.first = 1'000'000, .count = absl::GetFlag(FLAGS_more_keys), .value_bytes = kSmallBytes};
    if (absl::Status status = PutAll(writer_.get(), more, 64).status(); !status.ok()) return status;
    const uint64_t before = reader_->stats().warming_reads;
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < kTimes; ++i) {  // the first finds that the directory has grown
      const int64_t start_ns = NowNs();
      if (absl::Status status = reader_->Warm(); !status.ok()) return status;
      least_ns = std::min(least_ns, NowNs() - start_ns);
    }
    const double segments = static_cast<double>(reader_->stats().warming_reads - before) / kTimes;
    const double bytes = segments * kv::kSegmentBytes;
    figures_->AddAtLeast("Warm, of the index", bytes / (1 << 20) * 1e9 / static_cast<double>(least_ns), "MiB/s",
                         0.8 * wide_ / (1 << 20), "0.8 of ib_read_bw");
    figures_->Add("bytes that it READs for a key", bytes / static_cast<double>(small_.count + more.count), "");
    return absl::OkStatus();
  }

  Figures* const figures_;
  KeyRange small_;
  uint64_t item_bytes_ = 0;
  double item_us_ = 0, bucket_us_ = 0, small_us_ = 0, rate_ = 0, send_us_ = 0, wide_ = 0;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> reader_, writer_;
};

absl::Status Measure(Figures* figures) {
  if (absl::GetFlag(FLAGS_host).empty() || absl::GetFlag(FLAGS_keys) < 1 || absl::GetFlag(FLAGS_large_mib) < 1) {
    return absl::InvalidArgumentError("needs --host=ADDRESS, and --keys and --large_mib of at least 1");
  }
  std::printf("perftest connects by %s\n", PerftestConnection().c_str());
  return SpeedOnVerbs(figures).Measure();
}

}  // namespace

Measurement VerbsSpeed() {
  return {"verbs_speed",
          "the speed that Farlook promises on verbs, each figure beside that of perftest",
          {{"server"},
           {"memory_mib", "192"},
           {"workers"},
           {"host"},
           {"port"},
           {"keys", "2000"},
           {"operations", "2000"},
           {"more_keys"},
           {"large_mib"},
           {"virtual_ns"},
           {"only_warm"}},
          Measure};
}

}  // namespace farlook::bench
