#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "bench/common/clocks.h"
#include "bench/ycsb/worker.h"

namespace farlook::bench {
namespace {

class SerialLoop {
 public:
  SerialLoop(Worker* worker, Db* db, size_t batch)
      : worker_(worker), db_(db), tasks_(batch), due_ns_(batch), keys_(batch), results_(batch) {}

  void Run() {
    while (worker_->TakeTurn()) {
      const int64_t due_ns = worker_->pacer().NextDue();
      if (worker_->pacer().active()) worker_->pacer().WaitUntil(due_ns);
      if (worker_->stopped()) break;
      Task& task = tasks_[held_];
      worker_->Next(&task);
      if (task.operation == Operation::kRead && tasks_.size() > 1) {
        due_ns_[held_++] = due_ns;
        if (held_ == tasks_.size()) ReadHeld();
      } else {
        CarryOut(&task, due_ns);
      }
    }
    if (held_ > 0) ReadHeld();
  }

 private:
  static OperationTimes Begin(int64_t due_ns) {
    const int64_t now_ns = NowNs();
    return {.intended_ns = due_ns == 0 ? now_ns : due_ns, .start_ns = now_ns};
  }

  void CarryOut(Task* task, int64_t due_ns) {
    DbStatus inserted = DbStatus::kOk;
    switch (task->operation) {
      case Operation::kRead:
        Read(task, due_ns);
        break;
      case Operation::kUpdate:
        Update(task, due_ns);
        break;
      case Operation::kInsert:
        inserted = Insert(task, due_ns);
        break;
      case Operation::kReadModifyWrite: {
        OperationTimes times = Begin(due_ns);
        const DbStatus read = Read(task, due_ns);
        task->write.basis = read == DbStatus::kOk ? &task->read.result : nullptr;
        Update(task, due_ns);
        times.end_ns = NowNs();
        worker_->Measure(Metric::kReadModifyWrite, times);
        break;
      }
    }
    worker_->Finished(*task, inserted);
  }

  DbStatus Read(Task* task, int64_t due_ns) {
    OperationTimes times = Begin(due_ns);
    const DbStatus status = db_->Read(task->read.key, &task->read.result);
    times.end_ns = NowNs();
    worker_->Ended(Metric::kRead, status, times, *db_);
    return status;
  }

  void Update(Task* task, int64_t due_ns) {
    const DbRequest& write = task->write;
    OperationTimes times = Begin(due_ns);
    const DbStatus status = write.kind == DbRequest::Kind::kReplace ? db_->Replace(write.key, write.record)
                                                                    : db_->Patch(write.key, write.writes, write.basis);
    times.end_ns = NowNs();
    worker_->Ended(Metric::kUpdate, status, times, *db_);
  }

  DbStatus Insert(Task* task, int64_t due_ns) {
    OperationTimes times = Begin(due_ns);
    const DbStatus status = db_->Insert(task->write.key, task->write.record);
    times.end_ns = NowNs();
    worker_->Ended(Metric::kInsert, status, times, *db_);
    return status;
  }

  void ReadHeld() {
    for (size_t i = 0; i < held_; ++i) keys_[i] = tasks_[i].read.key;
    OperationTimes times = Begin(due_ns_[0]);
    db_->ReadBatch(absl::MakeConstSpan(keys_.data(), held_), absl::MakeSpan(results_.data(), held_));
    times.end_ns = NowNs();
    worker_->Measure(Metric::kReadBatch, times);
    for (size_t i = 0; i < held_; ++i) {
      if (due_ns_[i] != 0) times.intended_ns = due_ns_[i];
      worker_->Ended(Metric::kRead, results_[i].status, times, *db_);
      // A swap would move short strings away from under the views into them: only the view and status are copied.
      tasks_[i].read.result.status = results_[i].status;
      tasks_[i].read.result.record = results_[i].record;
      worker_->Finished(tasks_[i], DbStatus::kOk);
    }
    held_ = 0;
  }

  Worker* const worker_;
  Db* const db_;
  size_t held_ = 0;  // reads that wait at the beginning of tasks_
  std::vector<Task> tasks_;
  std::vector<int64_t> due_ns_;
  std::vector<absl::string_view> keys_;
  std::vector<ReadResult> results_;
};

}  // namespace

void RunSerially(Worker* worker, Db* db, size_t batch) { SerialLoop(worker, db, batch).Run(); }

}  // namespace farlook::bench
