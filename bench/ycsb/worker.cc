#include "bench/ycsb/worker.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "bench/common/clocks.h"

namespace farlook::bench {

void FailureLog::Note(Metric metric, DbStatus status, const Db& db) {
  any_.store(true, std::memory_order_relaxed);
  const size_t index = static_cast<size_t>(metric) * kDbStatuses + static_cast<size_t>(status);
  if (logged_[index].exchange(true, std::memory_order_relaxed)) return;
  const std::string error = db.last_error();
  const std::string line = absl::StrCat("ycsb: ", MetricName(metric), " failed: ", DbStatusName(status),
                                        error.empty() ? "" : ": ", error, " (further ones are only counted)\n");
  std::fputs(line.c_str(), stderr);
}

Worker::Worker(const WorkerOptions& options, CoreWorkload* workload, std::atomic<bool>* stop, FailureLog* failures)
    : options_(options),
      workload_(workload),
      stop_(stop),
      failures_(failures),
      thread_(workload->NewThread(options.seed)),
      pacer_(options.operations_per_s, stop) {}

bool Worker::TakeTurn() {
  if (stopped() || (options_.operations > 0 && begun_ == options_.operations)) return false;
  ++begun_;
  return true;
}

void Worker::Next(Task* task) {
  if (options_.load) {
    thread_->NextLoad(task);
  } else {
    thread_->NextTransaction(task);
  }
}

void Worker::Ended(Metric metric, DbStatus status, OperationTimes times, const Db& db) {
  measurements_.RecordOutcome(metric, status, times, options_.with_intended);
  if (status != DbStatus::kOk) failures_->Note(metric, status, db);
}

void Worker::Finished(const Task& task, DbStatus inserted) {
  const bool is_read = task.operation == Operation::kRead || task.operation == Operation::kReadModifyWrite;
  if (is_read && config().data_integrity) {
    const int64_t start_ns = NowNs();
    const DbStatus verdict = thread_->Verify(task);
    measurements_.Record(Metric::kVerify, {.intended_ns = start_ns, .start_ns = start_ns, .end_ns = NowNs()}, false);
    measurements_.CountReturn(Metric::kVerify, verdict);
  }
  if (options_.load) {
    if (inserted != DbStatus::kOk) stop_->store(true, std::memory_order_relaxed);
  } else if (!thread_->Finished(task)) {
    std::fputs("ycsb: an insert is 2^20 inserts late; stopping\n", stderr);
    stop_->store(true, std::memory_order_relaxed);
  }
  done_.store(done_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace farlook::bench
