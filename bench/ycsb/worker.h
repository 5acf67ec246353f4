// One thread of a phase: takes operations from the workload, executes them on the store, and measures.
#ifndef FARLOOK_BENCH_YCSB_WORKER_H_
#define FARLOOK_BENCH_YCSB_WORKER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "bench/stores/db.h"
#include "bench/ycsb/core_workload.h"
#include "bench/ycsb/measurements.h"
#include "bench/ycsb/pacer.h"

namespace farlook::bench {

struct WorkerOptions {
  bool load = false;            // insert records; otherwise do transactions
  int64_t operations = 0;       // 0: until stopped
  double operations_per_s = 0;  // 0: as fast as possible
  bool with_intended = false;   // also measure from the intended start
  uint64_t seed = 1;
};

// Prints on stderr why operations fail: once for each metric and status; the others are only counted.
//
// Thread safety: any thread.
class FailureLog {
 public:
  void Note(Metric metric, DbStatus status, const Db& db);
  bool any() const { return any_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> any_{false};
  std::array<std::atomic<bool>, kMetrics * kDbStatuses> logged_{};
};

// Common to the loops below that execute a worker's operations.
//
// Thread safety: belongs to one thread, except that other threads may read operations_done() and measurements()
// meanwhile.
class Worker {
 public:
  // *stop makes the loops end early; they set it when the load fails.
  Worker(const WorkerOptions& options, CoreWorkload* workload, std::atomic<bool>* stop, FailureLog* failures);

  // Returns false once there is no operation left to begin, or it is time to stop. Each true is one operation.
  bool TakeTurn();

  // Makes *task the next operation.
  void Next(Task* task);

  // Measures and counts a request that ended. REQUIRES: `metric` is kRead, kUpdate or kInsert.
  void Ended(Metric metric, DbStatus status, OperationTimes times, const Db& db);

  // Measures something other than one request.
  void Measure(Metric metric, OperationTimes times) { measurements_.Record(metric, times, options_.with_intended); }

  // To be called when all requests of a task have ended: acknowledges, verifies, counts. `inserted` is the status of
  // its insert, if it was one.
  void Finished(const Task& task, DbStatus inserted);

  bool stopped() const { return stop_->load(std::memory_order_relaxed); }
  const WorkerOptions& options() const { return options_; }
  const WorkloadConfig& config() const { return workload_->config(); }
  Pacer& pacer() { return pacer_; }
  Random* random() { return thread_->random(); }

  int64_t operations_done() const { return done_.load(std::memory_order_relaxed); }
  int64_t operations_to_do() const { return options_.operations; }
  const Measurements& measurements() const { return measurements_; }

 private:
  const WorkerOptions options_;
  CoreWorkload* const workload_;
  std::atomic<bool>* const stop_;
  FailureLog* const failures_;
  const std::unique_ptr<WorkloadThread> thread_;
  Pacer pacer_;
  Measurements measurements_;
  int64_t begun_ = 0;
  std::atomic<int64_t> done_{0};
};

// Executes operations one after the other, each waited for (serial_loop.cc), until the worker has no more turns.
//
// With batch > 1, reads are collected until there are that many, and then made as one ReadBatch. Each is measured with
// the time of the whole batch, the batch also as READ-BATCH. Other operations, drawn meanwhile, go first.
void RunSerially(Worker* worker, Db* db, size_t batch);

// Keeps many operations in progress at once (pipelined_loop.cc), until the worker has no more turns and all of its
// operations have ended. An operation is timed from its Submit to the return of the Poll that returned it. A
// read-modify-write submits its write when its read has ended.
void RunPipelined(Worker* worker, Db* db, size_t inflight);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_WORKER_H_
