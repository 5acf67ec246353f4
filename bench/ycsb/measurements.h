// Measurements of a running thread, and their sum over all threads.
#ifndef FARLOOK_BENCH_YCSB_MEASUREMENTS_H_
#define FARLOOK_BENCH_YCSB_MEASUREMENTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "bench/stores/db.h"
#include "bench/ycsb/histogram.h"

namespace farlook::bench {

// In the order of the report. Latencies of failed operations are separate, as in YCSB.
enum class Metric : uint8_t {
  kRead,
  kReadFailed,
  kUpdate,
  kUpdateFailed,
  kInsert,
  kInsertFailed,
  kReadModifyWrite,
  kReadBatch,  // a whole batch, if batchsize is above 1
  kVerify,
  kCleanup,
};
inline constexpr size_t kMetrics = 10;

// "READ", "READ-FAILED", ...
absl::string_view MetricName(Metric metric);

// Times of an operation, in nanoseconds of NowNs().
struct OperationTimes {
  int64_t intended_ns = 0;  // intended start under -target; otherwise start_ns
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Latencies of one metric. Both in nanoseconds.
struct Series {
  Histogram raw;       // from start to end
  Histogram intended;  // from the intended start to the end; only under -target
  std::array<std::atomic<uint64_t>, kDbStatuses> returns{};

  uint64_t returned(DbStatus status) const {
    return returns[static_cast<size_t>(status)].load(std::memory_order_relaxed);
  }
  void Merge(const Series& other);
};

// Thread safety: one thread records; any thread may Merge from it meanwhile.
class Measurements {
 public:
  Measurements() = default;
  ~Measurements();
  Measurements(const Measurements&) = delete;
  Measurements& operator=(const Measurements&) = delete;

  void Record(Metric metric, const OperationTimes& times, bool with_intended);
  void CountReturn(Metric metric, DbStatus status);

  // Records an operation under `metric`, or under the next metric if it failed, and counts its return under `metric`.
  // REQUIRES: `metric` is kRead, kUpdate or kInsert.
  void RecordOutcome(Metric metric, DbStatus status, const OperationTimes& times, bool with_intended);

  void Merge(const Measurements& other);

  // Null while nothing was recorded for it.
  const Series* series(Metric metric) const {
    return series_[static_cast<size_t>(metric)].load(std::memory_order_acquire);
  }

 private:
  Series& Get(Metric metric);

  // Allocated when first needed, by the recording thread; most runs need three. Ordering: stored with release once
  // allocated.
  std::array<std::atomic<Series*>, kMetrics> series_{};
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_MEASUREMENTS_H_
