#include "bench/ycsb/phase.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "bench/common/clocks.h"
#include "bench/ycsb/remote_cpu.h"
#include "bench/ycsb/status_line.h"
#include "bench/ycsb/worker.h"

namespace farlook::bench {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Resident bytes of this process, including shared ones; 0 if unknown.
int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all_pages = 0, resident_pages = 0;
  if (!(file >> all_pages >> resident_pages)) return 0;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

class Phase {
 public:
  Phase(const PhaseOptions& options, CoreWorkload* workload, DbBackend* backend, std::atomic<bool>* stop)
      : options_(options), backend_(backend), stop_(stop) {
    for (int i = 0; i < options.threads; ++i) {
      workers_.push_back(std::make_unique<Worker>(OptionsOf(i), workload, stop, &failures_));
    }
  }

  absl::StatusOr<std::unique_ptr<PhaseResult>> Run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.threads; ++i) threads.emplace_back([this, i] { ThreadMain(i); });
    absl::Status status = AwaitConnections();

    auto result = std::make_unique<PhaseResult>();
    const absl::StatusOr<int64_t> server_ns = ServerCpuNs();
    if (status.ok() && options_.cpu_reporter) status = server_ns.status();
    const CpuTime client = OwnCpuTime();
    const int64_t start_ns = NowNs();
    {
      absl::MutexLock lock(&mutex_);
      go_ = status.ok() ? Go::kRun : Go::kGiveUp;
    }
    if (status.ok()) Watch(start_ns);
    if (status.ok()) {
      // Measured before the connections are closed.
      result->runtime_ns = NowNs() - start_ns;
      result->client = OwnCpuTime() - client;
      result->client_resident_bytes = ResidentBytes();
      const absl::StatusOr<int64_t> server_end_ns = ServerCpuNs();
      if (server_ns.ok() && server_end_ns.ok()) result->server_cpu_ns = *server_end_ns - *server_ns;
      if (options_.cpu_reporter) status = server_end_ns.status();
    }
    {
      absl::MutexLock lock(&mutex_);
      may_close_ = true;
    }
    for (std::thread& thread : threads) thread.join();
    if (!status.ok()) return status;

    result->options = options_;
    result->failed = failures_.any();
    for (const std::unique_ptr<Worker>& worker : workers_) {
      result->operations += worker->operations_done();
      result->totals.Merge(worker->measurements());
    }
    return result;
  }

 private:
  enum class Go : uint8_t { kWait, kRun, kGiveUp };

  WorkerOptions OptionsOf(int thread) const {
    WorkerOptions worker;
    worker.load = options_.load;
    worker.operations = options_.operations / options_.threads + (thread < options_.operations % options_.threads);
    worker.operations_per_s = options_.target / options_.threads;
    worker.with_intended = options_.with_intended;
    worker.seed = options_.seed + static_cast<uint64_t>(thread) + (options_.load ? 1'000'000 : 0);
    return worker;
  }

  void ThreadMain(int i) {
    absl::StatusOr<std::unique_ptr<Db>> db =
        backend_->Connect({.thread = i, .inflight = options_.inflight, .batch = options_.batch});
    {
      absl::MutexLock lock(&mutex_);
      if (!db.ok() && connect_status_.ok()) connect_status_ = db.status();
      ++connected_;
      mutex_.Await(absl::Condition(this, &Phase::HasGo));
      if (go_ == Go::kGiveUp) return;
    }
    Worker* worker = workers_[static_cast<size_t>(i)].get();
    worker->pacer().Start(worker->random());
    if (options_.inflight > 1) {
      RunPipelined(worker, db->get(), options_.inflight);
    } else {
      RunSerially(worker, db->get(), options_.batch);
    }
    {
      absl::MutexLock lock(&mutex_);
      if (++done_ == options_.threads) all_done_.End();
      mutex_.Await(absl::Condition(&may_close_));
    }
    OperationTimes times;
    times.intended_ns = times.start_ns = NowNs();
    db->reset();
    times.end_ns = NowNs();
    worker->Measure(Metric::kCleanup, times);
  }

  absl::Status AwaitConnections() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Phase::AllConnected));
    return connect_status_;
  }

  absl::StatusOr<int64_t> ServerCpuNs() const {
    if (options_.server_pid == 0) return absl::UnknownError("no server's process is known");
    if (options_.cpu_reporter) return RemoteCpuNsAtRest(*options_.cpu_reporter, options_.server_pid);
    return CpuNsAtRest(options_.server_pid);
  }

  // Until all threads are done: prints status lines and ends the phase when its time has passed.
  void Watch(int64_t start_ns) {
    const int64_t interval_ns = static_cast<int64_t>(options_.status_interval_s * kSecond);
    const int64_t end_ns = start_ns + static_cast<int64_t>(options_.max_seconds * kSecond);
    int64_t next_status_ns = start_ns + interval_ns;
    Status status{.last_ns = start_ns};
    bool time_over = false;
    while (true) {
      int64_t wake_ns = INT64_MAX;
      if (interval_ns > 0) wake_ns = next_status_ns;
      if (options_.max_seconds > 0 && !time_over) wake_ns = std::min(wake_ns, end_ns);
      if (AwaitDone(wake_ns)) break;
      const int64_t now_ns = NowNs();
      if (interval_ns > 0 && now_ns >= next_status_ns) {
        PrintStatus(start_ns, &status);
        next_status_ns += interval_ns;
      }
      if (options_.max_seconds > 0 && now_ns >= end_ns) {
        time_over = true;
        stop_->store(true, std::memory_order_relaxed);
      }
    }
    if (interval_ns > 0) PrintStatus(start_ns, &status);
  }

  // Returns true once all threads are done; false at `wake_ns`.
  bool AwaitDone(int64_t wake_ns) {
    return all_done_.Sleep(wake_ns == INT64_MAX ? absl::InfiniteDuration() : absl::Nanoseconds(wake_ns - NowNs()));
  }

  struct Status {
    int64_t last_ns = 0;
    int64_t last_operations = 0;
    std::unique_ptr<Measurements> before = std::make_unique<Measurements>();
  };

  void PrintStatus(int64_t start_ns, Status* last) const {
    const int64_t now_ns = NowNs();
    Progress progress{.wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())  // wall clock
                                     .count(),
                      .elapsed_ns = now_ns - start_ns,
                      .interval_ns = now_ns - last->last_ns,
                      .last_operations = last->last_operations};
    auto now = std::make_unique<Measurements>();
    for (const std::unique_ptr<Worker>& worker : workers_) {
      const int64_t done = worker->operations_done();
      progress.operations += done;
      progress.operations_to_do += std::max<int64_t>(0, worker->operations_to_do() - done);
      now->Merge(worker->measurements());
    }
    std::fprintf(stderr, "%s\n", StatusLine(progress, *now, *last->before).c_str());
    *last = {now_ns, progress.operations, std::move(now)};
  }

  bool AllConnected() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return connected_ == options_.threads; }
  bool HasGo() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return go_ != Go::kWait; }

  const PhaseOptions options_;
  DbBackend* const backend_;
  std::atomic<bool>* const stop_;
  FailureLog failures_;
  std::vector<std::unique_ptr<Worker>> workers_;

  Pause all_done_;  // ends when all threads are done
  absl::Mutex mutex_;
  int connected_ ABSL_GUARDED_BY(mutex_) = 0;
  int done_ ABSL_GUARDED_BY(mutex_) = 0;
  Go go_ ABSL_GUARDED_BY(mutex_) = Go::kWait;
  bool may_close_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status connect_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<PhaseResult>> RunPhase(const PhaseOptions& options, CoreWorkload* workload,
                                                      DbBackend* backend, std::atomic<bool>* stop) {
  return Phase(options, workload, backend, stop).Run();
}

}  // namespace farlook::bench
