// sweep: the cost of removing an expired item from a table, without a server.
//
//     micro sweep [--keys=10000000] [--seconds=2000] [--ticks=400] [--memory_mib=2048] [--nocold] [--json=FILE]
//
// Puts small keys, batches of which expire together, in random order, within --seconds. Then lets the ticks of the
// sweep pass one after the other, and sweeps as a server's worker does, some buckets in one hold. Before each tick the
// caches are filled with other data, as if the worker had slept or served meanwhile; --nocold omits that. Pages are of
// 4 KiB, as a server's are where the kernel gives no others.
//
// Times are the thread's processor time, except those of single holds. Exit codes: 0; 1 it cannot be measured.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "bench/common/clocks.h"
#include "bench/common/figures.h"
#include "bench/common/key_name.h"
#include "bench/common/random.h"
#include "bench/micro/floor_memory.h"
#include "bench/micro/measurement.h"
#include "kv/expiry/expiry.h"
#include "kv/read/expiry_clock.h"
#include "kv/table/table.h"

ABSL_FLAG(int64_t, ticks, 400, "that are swept");
ABSL_FLAG(bool, cold, true, "whether the caches are emptied before each tick");

namespace farlook::bench {
namespace {

constexpr int64_t kBatch = 256;
constexpr size_t kBucketsInOneHold = 8;  // as server/executor/sweep.h
constexpr uint64_t kTickMs = uint64_t{1} << kv::ExpiryIndex::kTickBits;
constexpr size_t kCacheBytes = size_t{64} << 20;
constexpr int64_t kLongNs = 50'000;

class SimulatedClock final : public kv::TableClock {
 public:
  uint64_t NowUs() const override { return now_us; }
  uint64_t now_us = 1'000'000'000;
};

class Sweeping {
 public:
  absl::Status Run(Figures* figures) {
    absl::Status status = Fill();
    if (!status.ok()) return status;
    clock_.now_us = (clock_.now_us / 1000 / kTickMs + 1) * kTickMs * 1000;
    Tick();  // corrects rows that were made while the table grew
    const uint64_t before = table_->stats().expired_items;
    holds_ = long_holds_ = spent_ns_ = longest_ns_ = 0;
    for (int64_t i = 0; i < absl::GetFlag(FLAGS_ticks); ++i) {
      clock_.now_us += kTickMs * 1000;
      Tick();
    }
    const auto removed = static_cast<double>(table_->stats().expired_items - before);
    if (removed == 0) return absl::InternalError("nothing expired");
    figures->Add("items", static_cast<double>(table_->stats().keys) / 1e6, "M");
    figures->Add("removed", removed, "");
    figures->Add("time of a removal", static_cast<double>(spent_ns_) / removed, "ns");
    figures->Add("removals of a hold", removed / static_cast<double>(holds_), "");
    figures->Add("time of a hold", static_cast<double>(spent_ns_) / static_cast<double>(holds_), "ns");
    figures->Add("longest hold, with what else the machine did", static_cast<double>(longest_ns_) / 1e3, "us");
    figures->Add("holds of more than 50 us, the same", static_cast<double>(long_holds_), "");
    return absl::OkStatus();
  }

 private:
  absl::Status Fill() {
    absl::StatusOr<FloorMemory> memory =
        FloorMemory::Map(static_cast<size_t>(absl::GetFlag(FLAGS_memory_mib)) << 20, PageSize::k4KiB);
    if (!memory.ok()) return memory.status();
    memory_ = std::make_unique<FloorMemory>(*std::move(memory));
    std::fill_n(memory_->data(), memory_->size(), '\0');
    kv::TableOptions options;
    options.incarnation = 1;
    options.hash_seed = 2;
    options.clock = &clock_;
    auto table = kv::Table::Create(absl::MakeSpan(memory_->data(), memory_->size()), options);
    if (!table.ok()) return table.status();
    table_ = *std::move(table);
    Random random(11);
    std::string key;
    kv::PutParams params;
    const uint64_t first_ms = clock_.now_us / 1000 + 1;
    for (int64_t i = 0; i < absl::GetFlag(FLAGS_keys); ++i) {
      if (i % kBatch == 0) {
        params.expiry_ms = first_ms + random.Below(static_cast<uint64_t>(absl::GetFlag(FLAGS_seconds)) * 1000);
      }
      BuildKeyName(i, &key);
      kv::Code code = kv::Code::kMakingRoom;
      while (code == kv::Code::kMakingRoom) {
        code = table_->Put(table_->HashOf(key), key, "12345678", params, now_ns_ += 1000).code;
      }
      if (code != kv::Code::kOk) return absl::InternalError(absl::StrCat("put: ", kv::CodeName(code)));
    }
    return absl::OkStatus();
  }

  static int64_t ThreadCpuNs() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  void EmptyCaches() {
    if (!absl::GetFlag(FLAGS_cold)) return;
    for (size_t i = 0; i < kCacheBytes; i += 64) other_[i] = static_cast<char>(other_[i] + 1);
  }

  void Tick() {
    EmptyCaches();
    now_ns_ += static_cast<int64_t>(kTickMs) * 1'000'000;
    const int64_t before_ns = ThreadCpuNs();
    for (bool more = true; more;) {
      const int64_t begun_ns = NowNs();
      more = table_->Sweep(/*partition=*/0, kBucketsInOneHold, now_ns_, &left_);
      const int64_t took_ns = NowNs() - begun_ns;
      ++holds_;
      longest_ns_ = std::max(longest_ns_, took_ns);
      long_holds_ += took_ns > kLongNs;
    }
    spent_ns_ += ThreadCpuNs() - before_ns;
    table_->Tidy(/*partition=*/0, now_ns_);
  }

  SimulatedClock clock_;
  std::unique_ptr<FloorMemory> memory_;
  std::unique_ptr<kv::Table> table_;
  std::vector<char> other_ = std::vector<char>(kCacheBytes);
  std::vector<kv::ExpiredItem> left_;
  int64_t now_ns_ = 1'000'000'000;
  int64_t holds_ = 0, long_holds_ = 0, spent_ns_ = 0, longest_ns_ = 0;
};

absl::Status Measure(Figures* figures) { return Sweeping().Run(figures); }

}  // namespace

Measurement Sweep() {
  return {"sweep",
          "the cost of removing an expired item from a table, without a server",
          {{"keys", "10000000"}, {"seconds", "2000"}, {"memory_mib", "2048"}, {"ticks"}, {"cold"}},
          Measure};
}

}  // namespace farlook::bench
